"""The normalized messages of whole prompts. Prompts share the work for messages that they have in common.

Most prompts repeat an earlier one, and are normalized from its end on. If single messages in the middle were replaced,
only these are normalized again. So the work grows with the new messages of each prompt.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add, attrgetter

from trace_recorder.values.message_equality import NormalizedContent
from trace_recorder.values.message_table import NumberedMessages, SharedSequence
from trace_recorder.values.messages import Message
from trace_recorder.values.prompt_relation import changes_between, equal_length
from trace_recorder.views.conversations.chained_call import Turn
from trace_recorder.views.conversations.normalized_messages import MessageNormalizer, NormalizedMessage, prefix_sums

MAX_PROMPTS = 8
"""The number of earlier prompts with which a prompt is compared."""
MAX_EDITS = 8
"""The number of edits of an earlier prompt that are followed."""


@dataclass(slots=True, eq=False)
class NormalizedPrompt:
    """The normalized `messages` of a prompt of an agent, and the `keys` of these.

    The first `own` of them are instructions for this prompt alone. `prefixes` are the sums after each of the others.
    `answer_places` are the places of the assistant's messages. The prompt `before` has the same messages at all places
    except those in `new`. It is None if there is no such prompt, or if this prompt was added to a history.

    An `AgentHistory` sets `turn`, the places of results whose calls are in no known answer (`unasked`), and `claim`,
    the number of the claim by which all its messages belong to the turn's chain.
    """

    source: NumberedMessages
    agent: str | None
    messages: SharedSequence[NormalizedMessage]
    keys: SharedSequence[Hashable]
    answer_places: SharedSequence[int]
    own: int
    prefixes: SharedSequence[int]
    has_instructions: bool
    before: NormalizedPrompt | None
    new: Sequence[int]
    turn: Turn | None = None
    unasked: Sequence[int] = ()
    claim: int = 0

    @property
    def inherited_unasked(self) -> list[int]:
        """The unasked places of `before` at which this prompt has the same messages."""
        new = {*self.new}
        return (
            [] if self.before is None else [at for at in self.before.unasked if at not in new and at < len(self.keys)]
        )


class PromptNormalizer:
    """Normalizes the prompts of a run, one after another."""

    def __init__(self, normalizer: MessageNormalizer) -> None:
        self._normalizer = normalizer
        self._earlier: deque[NormalizedPrompt] = deque(maxlen=MAX_PROMPTS)

    def normalize(self, messages: Sequence[Message], instructions: int, agent: str | None) -> NormalizedPrompt:
        """Normalize a prompt. The first `instructions` messages are instructions for it alone."""
        source = self._normalizer.numbered(messages)
        before = self._most_similar(source)
        edits, kept = ([], 0) if before is None else _edits(before.source, source)
        while kept and kept < len(source) and source[kept].role == source[kept - 1].role == "assistant":
            kept -= 1  # neighbouring messages of an assistant are normalized together
        count = 0 if before is None else bisect_right(before.messages, kept, key=_end)
        if before is not None and count < len(before.messages):
            kept = min(kept, before.messages[count].begin)
        normalized = SharedSequence[NormalizedMessage]([]) if before is None else before.messages[:count]
        edited = [bisect_right(normalized, position, key=_begin) - 1 for position in edits]
        if edited:
            normalized = SharedSequence(self._replaced(source, [*normalized], edited))
        normalized = normalized.extended(self._normalizer.normalize_more(source, kept, normalized))
        own = next((at for at, one in enumerate(normalized) if one.begin >= instructions), len(normalized))
        new = [*edited, *range(count, len(normalized))]
        fresh = [source[position] for position in edits] + [*source[kept:]]
        prompt = NormalizedPrompt(
            source,
            agent,
            normalized,
            _keys(before, count, normalized, edited),
            _answer_places(before, count, normalized),
            own,
            _prefixes(before, count, normalized, own, edited),
            any(map(is_instruction, fresh)) or (kept > 0 and before is not None and before.has_instructions),
            before if before is not None and before.agent == agent else None,
            new if before is not None and before.agent == agent else range(len(normalized)),
        )
        self._earlier.append(prompt)
        return prompt

    def normalize_after(
        self,
        answer: NormalizedContent | None,
        messages: Sequence[Message],
        instructions: int,
        agent: str | None,
        place: int,
        start: int,
    ) -> NormalizedPrompt:
        """Normalize a prompt that refers to an answer. There are `place` messages before, with the sum `start`."""
        source = self._normalizer.numbered(messages)
        normalized = SharedSequence(self._normalizer.normalize(source, answer))
        own = sum(one.begin < instructions for one in normalized)
        sums = SharedSequence([*prefix_sums(normalized[own:], place, start)])
        keys, places = _keys(None, 0, normalized, ()), _answer_places(None, 0, normalized)
        has_instructions = any(map(is_instruction, source))
        return NormalizedPrompt(
            source, agent, normalized, keys, places, own, sums, has_instructions, None, range(len(normalized))
        )

    def _replaced(
        self, source: NumberedMessages, normalized: list[NormalizedMessage], places: Sequence[int]
    ) -> list[NormalizedMessage]:
        """Normalize the messages at some places again."""
        for place in places:
            begin, end = normalized[place].begin, normalized[place].end
            [normalized[place]] = self._normalizer.normalize_more(source[:end], begin, normalized[:place])
        return normalized

    def _most_similar(self, source: NumberedMessages) -> NormalizedPrompt | None:
        """Return the earlier prompt that shares most with a prompt.

        A prompt that is repeated as a whole comes first, and is forgotten. The next choice has the same message in the
        middle. The last choice has the longest common beginning.
        """
        numbers, middle = source.numbers, len(source) // 2
        best: tuple[NormalizedPrompt | None, int] = None, 0
        aligned = None
        for earlier in reversed(self._earlier):
            if earlier.source.table is not source.table:
                continue
            other = earlier.source.numbers
            length = equal_length(numbers, 0, other, 0)
            if length == len(other) and length:
                self._earlier.remove(earlier)
                return earlier
            if aligned is None and middle < len(other) and other[middle : middle + 1] == numbers[middle : middle + 1]:
                aligned = earlier
            if length > best[1]:
                best = earlier, length
        return aligned or best[0]


def _edits(before: NumberedMessages, source: NumberedMessages) -> tuple[list[int], int]:
    """Return the positions of messages that were replaced one by one, and how many messages are kept including these.

    A replaced message of an assistant ends the search, because its calls have results and its neighbours may belong to
    the same normalized message.
    """
    old, new = before.numbers, source.numbers
    edits: list[int] = []
    for change in changes_between(old, new):
        positions = range(change.position, change.position + change.removed)
        replaced = [(before[at], source[at]) for at in positions] if len(change.inserted) == change.removed else []
        is_followed = replaced and len(edits) + len(replaced) <= MAX_EDITS
        if not is_followed or any("assistant" in {one.role, other.role} for one, other in replaced):
            return edits, change.position
        edits += positions
    return edits, len(new)


def _keys(
    before: NormalizedPrompt | None, count: int, normalized: Sequence[NormalizedMessage], edited: Sequence[int]
) -> SharedSequence[Hashable]:
    keys = SharedSequence[Hashable]([]) if before is None else before.keys[:count]
    if edited:
        replaced = [*keys]
        for place in edited:
            replaced[place] = normalized[place].key
        keys = SharedSequence(replaced)
    return keys.extended([one.key for one in normalized[count:]])


def _answer_places(
    before: NormalizedPrompt | None, count: int, normalized: Sequence[NormalizedMessage]
) -> SharedSequence[int]:
    places = SharedSequence[int]([]) if before is None else before.answer_places
    new = [place for place, one in enumerate(normalized[count:], count) if one.content.role == "assistant"]
    return places[: bisect_left(places, count)].extended(new)


def _prefixes(
    before: NormalizedPrompt | None,
    count: int,
    normalized: SharedSequence[NormalizedMessage],
    own: int,
    edited: Sequence[int],
) -> SharedSequence[int]:
    """Return the sum after each message except instructions.

    An edit changes all sums from its place on by the same amount.
    """
    if before is None or before.own != own or own > count:
        return SharedSequence([*prefix_sums(normalized[own:])])
    sums = before.prefixes[: count - own]
    if edited:
        changed = [*sums]
        for place in (one - own for one in edited if one >= own):
            difference = normalized[place + own].term(place) - before.messages[place + own].term(place)
            changed[place:] = map(add, changed[place:], repeat(difference))
        sums = SharedSequence(changed)
    return sums.extended(prefix_sums(normalized[count:], count - own, sums[-1] if sums else 0))


def is_instruction(message: Message) -> bool:
    """Whether a message is from the system or the developer."""
    return message.role in {"system", "developer"}


_begin, _end = attrgetter("begin"), attrgetter("end")
