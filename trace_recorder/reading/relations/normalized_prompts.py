"""Prompts in a normalized form, which stays equal if an agent sends messages back slightly changed.

A normalized message is one message, or several consecutive messages of an assistant. Messages without content are left
out. White space, thoughts that are not sent back, cache marks, leftovers of a server's own tools, and the ids of tool
calls make no difference. A tool result is identified by the call that it answers: by the message with the call, and the
index of the call in that message. `values/message_equality.py` defines this equality.

Messages are compared by digests. The digest of a message is computed once for each distinct message of the run
(`values/message_table.py`). Most prompts repeat an earlier prompt, so only their end is normalized. If single messages
in the middle were replaced, only the replaced messages are normalized again. So the work for a prompt depends on how
many of its messages are new.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from operator import add, attrgetter

from trace_recorder.values.message_equality import NormalizedContent, normalized_content
from trace_recorder.values.message_table import MessageTable, NumberedMessages, SharedSequence
from trace_recorder.values.messages import Message
from trace_recorder.values.prompt_comparison import changes_between, equal_length


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """The tool call that a tool result answers.

    `content` is the content of the calling message, and `call_index` is the index of the call in that message.
    `message_index` is the position of that message among the normalized messages of the prompt that has the result.
    `message_index` is None if the calling message is in an earlier prompt.
    """

    content: NormalizedContent
    call_index: int
    message_index: int | None


@dataclass(frozen=True, slots=True)
class NormalizedMessage:
    """One or several messages of a prompt, from position `begin` to `end`.

    `answered_call` is the call that a tool result answers, if that call is known.
    """

    begin: int
    end: int
    content: NormalizedContent
    answered_call: AnsweredCall | None = None

    @property
    def key(self) -> Hashable:
        """The identity of the message within a run."""
        if self.answered_call is None:
            return self.content.identity
        return self.content.digest, self.answered_call.content.identity, self.answered_call.call_index

    def term(self, place: int) -> int:
        """Return the number that this message adds to the sums of `prefix_sums` if it is at the position `place`."""
        data = self.content.digest
        if self.answered_call is not None:
            data += self.answered_call.content.identity + b"%d" % self.answered_call.call_index
        return int.from_bytes(blake2b(b"%d:" % place + data, digest_size=16).digest(), "big")


class MessageNormalizer:
    """Normalizes the messages of a run, and keeps the content of each distinct message."""

    def __init__(self) -> None:
        self._contents: dict[MessageTable, dict[tuple[int, ...], NormalizedContent | None]] = {}
        self._others = MessageTable()
        self._called_ids: set[str] = set()

    def normalize(
        self, messages: Sequence[Message], before: NormalizedContent | None = None
    ) -> list[NormalizedMessage]:
        """Normalize the messages of a prompt.

        `before` is the answer that the prompt continues, if the prompt does not repeat that answer.
        """
        return self.normalize_more(messages, 0, [], before)

    def normalize_more(
        self,
        messages: Sequence[Message],
        start: int,
        known: Sequence[NormalizedMessage],
        before: NormalizedContent | None = None,
    ) -> list[NormalizedMessage]:
        """Normalize the messages of a prompt from the position `start` on.

        `known` are the normalized messages before that position.
        """
        normalized: list[NormalizedMessage] = []
        new = self.numbered(messages)[start:]
        for begin, end in _spans([*new]):
            content = self.content_of(new[begin:end])
            if content is None:
                continue
            answered, call_id = None, new[begin].call_id or ""
            if content.role == "tool" and call_id in self._called_ids:
                answered = _answered_call(call_id, known, normalized, before)
            normalized.append(NormalizedMessage(start + begin, start + end, content, answered))
        return normalized

    def content_of(self, messages: Sequence[Message]) -> NormalizedContent | None:
        """Return the content of the messages that form one normalized message, or None if these messages are empty."""
        numbered = self.numbered(messages)
        contents = self._contents.setdefault(numbered.table, {})
        key = (*numbered.numbers,)
        if key not in contents:
            content = contents[key] = normalized_content([*numbered])
            if content is not None:
                self._called_ids.update(call.call_id for call in content.calls)
        return contents[key]

    def numbered(self, messages: Sequence[Message]) -> NumberedMessages:
        """Return messages with their numbers in a table.

        Messages without numbers get numbers in a table of this object.
        """
        if isinstance(messages, NumberedMessages):
            return messages
        return self._others.prompt(messages)


def _answered_call(
    call_id: str,
    known: Sequence[NormalizedMessage],
    normalized: Sequence[NormalizedMessage],
    before: NormalizedContent | None,
) -> AnsweredCall | None:
    """Return the last call with the id `call_id` before a tool result, or None.

    The messages before the result are searched backwards, because a result usually follows its call. The answer
    `before` is searched last.
    """
    for messages, start in ((normalized, len(known)), (known, 0)):
        for place in reversed(range(len(messages))):
            content = messages[place].content
            index = _last_call(content, call_id)
            if index is not None:
                return AnsweredCall(content, index, start + place)
    index = _last_call(before, call_id)
    if before is None or index is None:
        return None
    return AnsweredCall(before, index, None)


def _last_call(content: NormalizedContent | None, call_id: str) -> int | None:
    """Return the index of the last tool call with the id `call_id` in a message, or None."""
    if content is None:
        return None
    for index in reversed(range(len(content.calls))):
        if content.calls[index].call_id == call_id:
            return index
    return None


def prefix_sums(messages: Sequence[NormalizedMessage], place: int = 0, start: int = 0) -> Iterator[int]:
    """Yield for each message a number that identifies the sequence of messages up to that message.

    The number is a sum with one term for each message and its position. So an edit of one message changes all later
    sums by the same amount. The first message has the position `place`, and `start` is the sum of the messages before
    it.
    """
    for number, message in enumerate(messages, place):
        start += message.term(number)
        yield start


def _spans(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each group of messages that form one normalized message."""
    begin = 0
    while begin < len(messages):
        end = begin + 1
        if messages[begin].role == "assistant":
            while end < len(messages) and messages[end].role == "assistant":
                end += 1
        yield begin, end
        begin = end


MAX_PROMPTS = 8
"""`PromptNormalizer` compares a prompt with at most this many of the newest earlier prompts."""
MAX_EDITS = 8
"""`PromptNormalizer` normalizes at most this many replaced messages one by one.

If more messages were replaced, the rest of the prompt is normalized again.
"""


@dataclass(slots=True, eq=False)
class NormalizedPrompt:
    """A prompt of an agent in normalized form.

    `keys` are the keys of `messages`. The first `own` messages are instructions that apply to this prompt only.
    `prefixes` has the sum (`prefix_sums`) after each message that follows these instructions. `answer_places` are the
    positions of the assistant's messages. `before` is an earlier prompt that has the same messages at all positions
    except those in `new`. `before` is None if there is no such prompt. `CallChains` also sets it to None after the turn
    of this prompt was added, so that earlier prompts do not stay in memory.

    `AgentMessages` sets `claim`. It is the value that the counter `AgentMessages._claims` had when all messages of this
    prompt were assigned to its chain. It is 0 if not all messages were assigned.
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
    claim: int = 0

    @classmethod
    def empty(cls, source: NumberedMessages) -> NormalizedPrompt:
        """Return a prompt without messages, of the table that `source` is in."""
        lists = SharedSequence[NormalizedMessage]([]), SharedSequence[Hashable]([]), SharedSequence[int]([])
        return cls(source[:0], None, *lists, 0, SharedSequence([]), has_instructions=False, before=None, new=())


class PromptNormalizer:
    """Normalizes the prompts of a run, one after another."""

    def __init__(self, normalizer: MessageNormalizer) -> None:
        self._normalizer = normalizer
        self._earlier: deque[NormalizedPrompt] = deque(maxlen=MAX_PROMPTS)

    def normalize(self, messages: Sequence[Message], instructions: int, agent: str | None) -> NormalizedPrompt:
        """Normalize a prompt. The first `instructions` messages are instructions that apply to this prompt only."""
        source = self._normalizer.numbered(messages)
        similar = self._most_similar(source)
        before = similar or NormalizedPrompt.empty(source)
        edits, kept = _edits(before.source, source)
        while kept and kept < len(source) and source[kept].role == source[kept - 1].role == "assistant":
            kept -= 1  # neighbouring messages of an assistant are normalized together
        count = bisect_right(before.messages, kept, key=_end)
        if count < len(before.messages):
            kept = min(kept, before.messages[count].begin)
        normalized = before.messages[:count]
        edited = [bisect_right(normalized, position, key=_begin) - 1 for position in edits]
        if edited:
            normalized = SharedSequence(self._normalize_again(source, [*normalized], edited))
        normalized = normalized.extended(self._normalizer.normalize_more(source, kept, normalized))
        own = next((n for n, message in enumerate(normalized) if message.begin >= instructions), len(normalized))
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
            any(map(is_instruction, fresh)) or (kept > 0 and before.has_instructions),
            None,
            range(len(normalized)),
        )
        if similar is not None and similar.agent == agent:
            prompt.before, prompt.new = similar, new
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
        """Normalize a prompt that refers to `answer`.

        `place` messages come before the prompt, and `start` is their sum.
        """
        source = self._normalizer.numbered(messages)
        normalized = SharedSequence(self._normalizer.normalize(source, answer))
        own = sum(message.begin < instructions for message in normalized)
        sums = SharedSequence([*prefix_sums(normalized[own:], place, start)])
        empty = NormalizedPrompt.empty(source)
        keys, places = _keys(empty, 0, normalized, ()), _answer_places(empty, 0, normalized)
        has_instructions = any(map(is_instruction, source))
        return NormalizedPrompt(
            source, agent, normalized, keys, places, own, sums, has_instructions, None, range(len(normalized))
        )

    def _normalize_again(
        self, source: NumberedMessages, normalized: list[NormalizedMessage], places: Sequence[int]
    ) -> list[NormalizedMessage]:
        """Normalize the messages at these positions again, and put the results into `normalized`."""
        for place in places:
            begin, end = normalized[place].begin, normalized[place].end
            [normalized[place]] = self._normalizer.normalize_more(source[:end], begin, normalized[:place])
        return normalized

    def _most_similar(self, source: NumberedMessages) -> NormalizedPrompt | None:
        """Return the earlier prompt that shares most messages with the prompt `source`, or None.

        The first choice is an earlier prompt that `source` repeats as a whole. That earlier prompt is then removed,
        because `source` replaces it. The second choice is a prompt that has the middle message of `source` at the same
        position. The last choice is the prompt with the longest common beginning.
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
    """Return the positions of single replaced messages, and the position up to which there is no other difference.

    The search ends at a replaced message of an assistant, because the calls of this message have results. The
    neighbours of this message may also belong to the same normalized message.
    """
    old_numbers, numbers = before.numbers, source.numbers
    edits: list[int] = []
    for change in changes_between(old_numbers, numbers):
        positions = range(change.position, change.position + change.removed)
        is_replaced = 0 < change.removed == len(change.inserted)
        if not is_replaced or len(edits) + change.removed > MAX_EDITS:
            return edits, change.position
        if any("assistant" in {before[place].role, source[place].role} for place in positions):
            return edits, change.position
        edits += positions
    return edits, len(numbers)


def _keys(
    before: NormalizedPrompt, count: int, normalized: Sequence[NormalizedMessage], edited: Sequence[int]
) -> SharedSequence[Hashable]:
    keys = before.keys[:count]
    if edited:
        replaced = [*keys]
        for place in edited:
            replaced[place] = normalized[place].key
        keys = SharedSequence(replaced)
    return keys.extended([message.key for message in normalized[count:]])


def _answer_places(
    before: NormalizedPrompt, count: int, normalized: Sequence[NormalizedMessage]
) -> SharedSequence[int]:
    places = before.answer_places
    new = [place for place, message in enumerate(normalized[count:], count) if message.content.role == "assistant"]
    return places[: bisect_left(places, count)].extended(new)


def _prefixes(
    before: NormalizedPrompt,
    count: int,
    normalized: SharedSequence[NormalizedMessage],
    own: int,
    edited: Sequence[int],
) -> SharedSequence[int]:
    """Return the sums of a prompt: one after each message that follows the `own` instructions.

    An edit changes all sums from its position on by the same amount.
    """
    if before.own != own or own > count:
        return SharedSequence([*prefix_sums(normalized[own:])])
    sums = before.prefixes[: count - own]
    if edited:
        changed = [*sums]
        for place in (place - own for place in edited if place >= own):
            difference = normalized[place + own].term(place) - before.messages[place + own].term(place)
            changed[place:] = map(add, changed[place:], repeat(difference))
        sums = SharedSequence(changed)
    start = sums[-1] if sums else 0
    return sums.extended(prefix_sums(normalized[count:], count - own, start))


def is_instruction(message: Message) -> bool:
    """Whether the role of a message is "system" or "developer"."""
    return message.role in {"system", "developer"}


_begin, _end = attrgetter("begin"), attrgetter("end")
