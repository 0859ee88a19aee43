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

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, chain, compress, count, islice, repeat
from operator import add, attrgetter, mul
from typing import NamedTuple

from trace_recorder.values.message_equality import NormalizedContent, normalized_content
from trace_recorder.values.message_table import MessageTable, NumberedMessages, SharedSequence
from trace_recorder.values.messages import Message
from trace_recorder.values.prompt_comparison import Change, changes_between, equal_length

AnsweredCall = tuple[bytes, int]
"""The tool call that a tool result answers: the identity of the calling message, and the index of the call in it."""


class NormalizedMessage:
    """One or several messages of a prompt, without their positions: a prompt shares these objects with later prompts.

    `call_id` is the id that a tool result has. `key` is the identity of the message within a run. The key of a tool
    result has the call that it answers, if that call is known. `term` is a number that is made from the key.
    """

    __slots__ = ("call_id", "content", "is_answer", "key", "term")

    def __init__(
        self, content: NormalizedContent, call_id: str | None = None, answered_call: AnsweredCall | None = None
    ) -> None:
        self.content = content
        self.call_id = call_id
        self.key: Hashable = content.identity
        data = content.digest
        if answered_call is not None:
            identity, index = answered_call
            self.key = content.digest, identity, index
            data += identity + b"%d" % index
        self.is_answer = content.role == "assistant"
        self.term = int.from_bytes(blake2b(data, digest_size=16).digest(), "big")


class PlacedMessages(NamedTuple):
    """Normalized messages, each with the positions in the prompt where it begins and ends."""

    messages: list[NormalizedMessage]
    begins: list[int]
    ends: list[int]

    def keep(self, before: NormalizedPrompt, kept: _KeptRange) -> None:
        """Append a range of messages of an earlier prompt."""
        places = slice(kept.start, kept.end)
        self.messages.extend(before.messages[places])
        if not kept.shift:
            self.begins.extend(before.begins[places])
            self.ends.extend(before.ends[places])
            return
        self.begins.extend(map(add, before.begins[places], repeat(kept.shift)))
        self.ends.extend(map(add, before.ends[places], repeat(kept.shift)))


class MessageNormalizer:
    """Normalizes the messages of a run, and keeps the content of each distinct message."""

    def __init__(self) -> None:
        self._contents: dict[MessageTable, dict[tuple[int, ...], NormalizedContent | None]] = {}
        self._others = MessageTable()
        self._called_ids: set[str] = set()

    def normalize(self, messages: Sequence[Message], before: NormalizedContent | None = None) -> PlacedMessages:
        """Normalize the messages of a prompt.

        `before` is the answer that the prompt continues, if the prompt does not repeat that answer.
        """
        placed = PlacedMessages([], [], [])
        self.normalize_more(self.numbered(messages), 0, placed, before=before)
        return placed

    def normalize_more(
        self,
        messages: NumberedMessages,
        start: int,
        placed: PlacedMessages,
        head: Sequence[NormalizedMessage] = (),
        before: NormalizedContent | None = None,
    ) -> None:
        """Normalize the messages of a prompt from the position `start` on, and append the results to `placed`.

        `head` are the normalized messages before those in `placed`.
        """
        new = messages[start:]
        for begin, end in _spans([*new]):
            content = self.content_of(new[begin:end])
            if content is None:
                continue
            call_id = None
            if content.role == "tool":
                call_id = new[begin].call_id or ""
            known = chain(reversed(placed.messages), reversed(head))
            placed.messages.append(self.message_of(content, call_id, known, before))
            placed.begins.append(start + begin)
            placed.ends.append(start + end)

    def message_of(
        self,
        content: NormalizedContent,
        call_id: str | None,
        known: Iterable[NormalizedMessage],
        before: NormalizedContent | None = None,
    ) -> NormalizedMessage:
        """Return a normalized message. `known` are the messages before it, from the last to the first."""
        answered = None
        if call_id is not None and call_id in self._called_ids:
            answered = _answered_call(call_id, known, before)
        return NormalizedMessage(content, call_id, answered)

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
    call_id: str, known: Iterable[NormalizedMessage], before: NormalizedContent | None
) -> AnsweredCall | None:
    """Return the last call with the id `call_id` before a tool result, or None.

    `known` are the messages before the result, from the last to the first, because a result usually follows its call.
    The answer `before` is searched last.
    """
    for message in known:
        index = _last_call(message.content, call_id)
        if index is not None:
            return message.content.identity, index
    index = _last_call(before, call_id)
    if before is None or index is None:
        return None
    return before.identity, index


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

    The number is a sum of the terms of the messages, each multiplied by a number of its position. So an edit of one
    message changes all later sums by the same amount. The first message has the position `place`, and `start` is the
    sum of the messages before it. No line of Python runs for each message.
    """
    end = place + len(messages)
    while len(_FACTORS) < end:
        factor = blake2b(b"%d:" % len(_FACTORS), digest_size=16).digest()
        _FACTORS.append(int.from_bytes(factor, "big"))
    sums = accumulate(map(mul, map(_term, messages), islice(_FACTORS, place, end)), initial=start)
    next(sums)
    return sums


_FACTORS: list[int] = []
"""The number of each position, for `prefix_sums`."""


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


@dataclass(slots=True, eq=False)
class NormalizedPrompt:
    """A prompt of an agent in normalized form.

    Each of `messages` begins and ends at a position of `source`, which `begins` and `ends` have. The first `own`
    messages are instructions that apply to this prompt only. `prefixes` has the sum (`prefix_sums`) after each message
    that follows these instructions. `answer_places` are the places of the assistant's messages in `messages`. `before`
    is an earlier prompt of the agent that has the same messages, except those at the places in `new`. `before` is None
    if there is no such prompt. `CallChains` also sets it to None after the turn of this prompt was added, so that
    earlier prompts do not stay in memory.

    `AgentMessages` sets `claim`. It is the value that the counter `AgentMessages._claims` had when all messages of this
    prompt were assigned to its chain. It is 0 if not all messages were assigned.
    """

    source: NumberedMessages
    agent: str | None
    messages: SharedSequence[NormalizedMessage]
    begins: SharedSequence[int]
    ends: SharedSequence[int]
    answer_places: SharedSequence[int]
    own: int
    prefixes: SharedSequence[int]
    has_instructions: bool
    before: NormalizedPrompt | None = None
    new: Sequence[int] = ()
    claim: int = 0

    @classmethod
    def empty(cls, source: NumberedMessages) -> NormalizedPrompt:
        """Return a prompt without messages, of the table that `source` is in."""
        return cls(
            source[:0],
            agent=None,
            messages=SharedSequence([]),
            begins=SharedSequence([]),
            ends=SharedSequence([]),
            answer_places=SharedSequence([]),
            own=0,
            prefixes=SharedSequence([]),
            has_instructions=False,
        )


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
        ranges = _kept_ranges(before, source)
        count = 0
        if ranges and ranges[0].begin == ranges[0].shift == 0:
            count = ranges.pop(0).end
        rest, new = self._rest(before, source, count, ranges)
        normalized = before.messages.continued(count, rest.messages)
        begins = before.begins.continued(count, rest.begins)
        answers = before.answer_places.count_below(count)
        own = begins.count_below(instructions)
        prompt = NormalizedPrompt(
            source,
            agent,
            normalized,
            begins,
            before.ends.continued(count, rest.ends),
            before.answer_places.continued(answers, _answer_places(rest.messages, count)),
            own,
            _prefixes(before, count, normalized, own),
            _has_instructions(map(normalized.__getitem__, new))
            or (before.has_instructions and _has_instructions(normalized)),
        )
        if similar is not None and similar.agent == agent:
            prompt.before, prompt.new = similar, new
        self._earlier.append(prompt)
        return prompt

    def _rest(
        self, before: NormalizedPrompt, source: NumberedMessages, count: int, ranges: Sequence[_KeptRange]
    ) -> tuple[PlacedMessages, list[int]]:
        """Return the messages of a prompt that follow the first `count` of `before`, and the places of the new ones.

        The messages of `ranges` are not normalized again, except the result of a tool if a call with its id was removed
        or inserted before it.
        """
        rest, new = PlacedMessages([], [], []), list[int]()
        head, called = before.messages[:count], set[str]()
        begin, start = 0, count
        if count:
            begin = before.ends[count - 1]
        end = _KeptRange(len(before.messages), len(before.messages), len(source), len(source), 0)
        for kept in (*ranges, end):
            place = len(rest.messages)
            self._normalizer.normalize_more(source[: kept.begin], begin, rest, head)
            new += range(count + place, count + len(rest.messages))
            for message in (*before.messages[start : kept.start], *rest.messages[place:]):
                called.update(call.call_id for call in message.content.calls)
            place = len(rest.messages)
            rest.keep(before, kept)
            if called and not called.isdisjoint(map(_call_id, rest.messages[place:])):
                new += (count + again for again in self._answer_again(rest.messages, place, head, called))
            begin, start = kept.stop, kept.end
        return rest, new

    def _answer_again(
        self,
        messages: list[NormalizedMessage],
        begin: int,
        head: Sequence[NormalizedMessage],
        called: Collection[str | None],
    ) -> Iterator[int]:
        """Look up the calls of the results with ids in `called`, from a place on. Yield the places of changed results.

        `head` are the messages before `messages`.
        """
        for place in range(begin, len(messages)):
            message = messages[place]
            if message.call_id in called:
                known = chain(reversed(messages[:place]), reversed(head))
                again = self._normalizer.message_of(message.content, message.call_id, known)
                if again.key != message.key:
                    messages[place] = again
                    yield place

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
        placed = self._normalizer.normalize(source, answer)
        own = bisect_left(placed.begins, instructions)
        return NormalizedPrompt(
            source,
            agent,
            SharedSequence(placed.messages),
            SharedSequence(placed.begins),
            SharedSequence(placed.ends),
            SharedSequence([*_answer_places(placed.messages, 0)]),
            own,
            SharedSequence([*prefix_sums(placed.messages[own:], place, start)]),
            _has_instructions(placed.messages),
        )

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
            if other and numbers[: len(other)] == other:
                self._earlier.remove(earlier)
                return earlier
            if aligned is None and middle < min(len(other), len(numbers)) and other[middle] == numbers[middle]:
                aligned = earlier
            if aligned is None:
                length = equal_length(numbers, 0, other, 0)
                if length > best[1]:
                    best = earlier, length
        return aligned or best[0]


class _KeptRange(NamedTuple):
    """Messages that a prompt has in common with an earlier prompt.

    They are at the places `start` to `end` of the earlier prompt's normalized messages. In the prompt, the messages
    from which they are normalized are at the positions `begin` to `stop`, and `shift` positions after those of the
    earlier prompt.
    """

    start: int
    end: int
    begin: int
    stop: int
    shift: int


def _kept_ranges(before: NormalizedPrompt, source: NumberedMessages) -> list[_KeptRange]:
    """Return the ranges of normalized messages that a prompt has in common with an earlier one.

    Neighbouring messages of an assistant are normalized together. So they are in a range only if all of them are.
    """
    earlier = before.source
    ranges: list[_KeptRange] = []
    begin = shift = 0
    for change in (*changes_between(earlier.numbers, source.numbers), Change(len(earlier), 0, earlier.numbers[:0])):
        end = change.position
        while begin < end and earlier[begin].role == "assistant" == _role(earlier, source, begin - 1, shift):
            begin += 1
        while begin < end and earlier[end - 1].role == "assistant" == _role(earlier, source, end, shift):
            end -= 1
        start, stop = before.begins.count_below(begin), before.ends.count_up_to(end)
        if start < stop:
            ranges.append(_KeptRange(start, stop, begin + shift, end + shift, shift))
        begin, shift = change.position + change.removed, shift + len(change.inserted) - change.removed
    return ranges


def _role(earlier: NumberedMessages, source: NumberedMessages, position: int, shift: int) -> str | None:
    """Return "assistant" if one of the prompts has a message of an assistant at a position of the earlier prompt."""
    for messages, place in ((earlier, position), (source, position + shift)):
        if 0 <= place < len(messages) and messages[place].role == "assistant":
            return "assistant"
    return None


def _prefixes(
    before: NormalizedPrompt, count: int, messages: SharedSequence[NormalizedMessage], own: int
) -> SharedSequence[int]:
    """Return the sums of a prompt: one after each message that follows the `own` instructions.

    The first `count` messages are those of `before`.
    """
    if before.own != own or own >= count:
        return SharedSequence([*prefix_sums(messages[own:])])
    place = count - own
    return before.prefixes.continued(place, prefix_sums(messages[count:], place, before.prefixes[place - 1]))


def _answer_places(messages: Iterable[NormalizedMessage], start: int) -> Iterator[int]:
    """Yield the places of the messages of an assistant. The first message has the place `start`."""
    return compress(count(start), map(_is_answer, messages))


def _has_instructions(messages: Iterable[NormalizedMessage]) -> bool:
    return "system" in map(_role_of, messages)


def is_instruction(message: Message) -> bool:
    """Whether the role of a message is "system" or "developer"."""
    return message.role in {"system", "developer"}


_term, _call_id, _is_answer = attrgetter("term"), attrgetter("call_id"), attrgetter("is_answer")
_role_of = attrgetter("content.role")
