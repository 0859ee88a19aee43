"""Prompts as arrays of the numbers of normalized messages (`normalized_messages.py`).

Most prompts repeat an earlier prompt, so only their end is normalized. If single messages in the middle were replaced,
the ranges between them are copied, and only the replaced messages are normalized again. The sum that identifies a
prompt is made from that of the earlier prompt in the same way. So the work for a prompt depends on how many of its
messages are new. To copy an array costs little.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter

from trace_recorder.reading.relations.normalized_messages import (
    MODULUS,
    MessageNormalizer,
    NormalizedMessage,
    moved_sum,
    sum_of_messages,
    sums_of_messages,
)
from trace_recorder.values.message_equality import NormalizedContent
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message
from trace_recorder.values.prompt_comparison import Change, Numbers, SharedNumbers
from trace_recorder.values.structs import Struct

MAX_PROMPTS = 8
"""`PromptNormalizer` compares a prompt with at most this many of the newest earlier prompts."""
_OTHER, _ANSWER, _SILENT = b"oa-"


class ReferredTurn(Struct, frozen=True, gc=False):
    """The turn that a prompt refers to: its answer, the number of messages up to it, and their `sum_of_messages`."""

    answer: NormalizedContent | None = None
    message_count: int = 0
    sum: int = 0


class NormalizedPrompt(Struct, eq=False):
    """A prompt of an agent in normalized form.

    `source` are the numbers of its messages in `table`. A normalized message is at the position where its last message
    is, and `numbers` has the number of the normalized message at each position. `shape` has a byte for each position:
    `a` for a message of an assistant, `o` for any other, and `-` if no message ends there. At these `silent` positions,
    the number is 0. `answers` has the numbers of the assistant's messages (`number_of_answer`), in their order. The
    first `own` positions are instructions that apply to this prompt only. `sum` identifies the messages after them, and
    the messages to which the prompt refers (`sum_of_messages`).

    `before` is an earlier prompt of the agent that has the same messages, except those at the positions in `new`.
    `before` is None if there is no such prompt. `CallChains` also sets it to None after the turn of this prompt was
    added, so that earlier prompts do not stay in memory.

    `AgentMessages` sets `claim`. It is the value that the counter `AgentMessages._claims` had when all messages of this
    prompt were assigned to its chain. It is 0 if not all messages were assigned.
    """

    table: MessageTable
    source: SharedNumbers
    agent: str | None
    by_number: Mapping[int, NormalizedMessage]
    numbers: SharedNumbers
    shape: bytes
    answers: SharedNumbers
    silent: int
    own: int
    referred: ReferredTurn
    sum: int = 0
    has_instructions: bool = False
    before: NormalizedPrompt | None = None
    new: Sequence[int] = ()
    claim: int = 0

    @classmethod
    def empty(cls, table: MessageTable) -> NormalizedPrompt:
        """Return a prompt without messages."""
        nothing = SharedNumbers(array("q"))
        return cls(table, nothing, None, {}, nothing, b"", nothing, 0, 0, ReferredTurn())

    @property
    def message_count(self) -> int:
        """The number of normalized messages that the model saw, without the instructions of this request only."""
        return self.count_before(len(self.shape))

    @property
    def own_count(self) -> int:
        """The number of the normalized messages that are instructions of this request only."""
        return self.own - self.shape.count(_SILENT, 0, self.own)

    def count_before(self, position: int) -> int:
        """Return how many of these messages come before a position."""
        silent = 0
        if self.silent:
            silent = self.shape.count(_SILENT, self.own, position)
        return self.referred.message_count + position - self.own - silent

    def sum_before(self, position: int) -> int:
        """Return the sum of these messages before a position."""
        return (self.sum - self.sum_of(position, len(self.shape))) % MODULUS

    def sum_of(self, begin: int, end: int) -> int:
        """Return the sum of the messages at the positions from `begin` to before `end`."""
        if begin >= end:
            return 0
        return sum_of_messages(self.messages(begin, end), self.count_before(begin))

    def sums_from(self, begin: int) -> list[int]:
        """Return the sum up to each message from a position on."""
        return sums_of_messages(self.messages(begin), self.count_before(begin), self.sum)

    def messages(self, begin: int = 0, end: int | None = None) -> list[NormalizedMessage]:
        """Return the messages at the positions from `begin` to before `end`."""
        return [*map(self.by_number.__getitem__, filter(None, self.numbers.copy(begin, end)))]

    def forwards(self) -> Iterator[NormalizedMessage]:
        """Yield the messages. Unlike `messages`, this is quick if only the first ones are read."""
        return map(self.by_number.__getitem__, filter(None, self.numbers))

    def backwards(self, end: int | None = None) -> Iterator[NormalizedMessage]:
        """Yield the messages before a position, from the last to the first."""
        return map(self.by_number.__getitem__, filter(None, self.numbers.backwards(end)))

    def message_at(self, position: int) -> NormalizedMessage:
        """Return the message that ends at a position."""
        return self.by_number[self.numbers[position]]

    def is_answer(self, position: int) -> bool:
        """Whether a message of an assistant ends at a position."""
        return 0 <= position < len(self.shape) and self.shape[position] == _ANSWER

    def last_answer(self, end: int) -> int:
        """Return the position of the last message of an assistant before a position, or -1."""
        return self.shape.rfind(_ANSWER, 0, end)

    def first_answers(self, count: int) -> list[int]:
        """Return the positions of the first `count` messages of an assistant."""
        positions = [-1]
        for _ in range(count):
            positions.append(self.shape.index(_ANSWER, positions[-1] + 1))
        return positions[1:]

    def answers_before(self, position: int) -> int:
        """Return how many messages of an assistant end before a position."""
        if 2 * position > len(self.shape):
            return self.answers.stop - self.answers.start - self.shape.count(_ANSWER, position)
        return self.shape.count(_ANSWER, 0, position)

    def position_from_end(self, count: int) -> int:
        """Return the position of the message after which `count` messages follow."""
        position = len(self.shape) - 1
        while count or self.shape[position] == _SILENT:
            count -= self.shape[position] != _SILENT
            position -= 1
        return position

    def is_silent(self, position: int) -> bool:
        """Whether no message ends at a position."""
        return 0 <= position < len(self.shape) and self.shape[position] == _SILENT

    def is_assistant(self, position: int) -> bool:
        """Whether the source has a message of an assistant at a position."""
        return 0 <= position < len(self.shape) and self.shape[position] != _OTHER


class PromptNormalizer:
    """Normalizes the prompts of a run, one after another."""

    def __init__(self, normalizer: MessageNormalizer) -> None:
        self._normalizer = normalizer
        self._earlier: deque[NormalizedPrompt] = deque(maxlen=MAX_PROMPTS)

    def normalize(self, messages: Sequence[Message], instructions: int, agent: str | None) -> NormalizedPrompt:
        """Normalize a prompt. The first `instructions` messages are instructions that apply to this prompt only."""
        source = self._normalizer.numbered(messages)
        similar = self._most_similar(source)
        before = similar or NormalizedPrompt.empty(source.table)
        kept = _kept_ranges(before, source)
        prompt = self._continued(before, kept, source, instructions, agent, ReferredTurn())
        if similar is not None:
            if kept == [_KeptRange(0, len(similar.shape), 0)]:
                self._earlier.remove(similar)  # the prompt replaces it
            if similar.agent == agent:
                prompt.before = similar
        self._earlier.append(prompt)
        return prompt

    def normalize_after(
        self, referred: ReferredTurn, messages: Sequence[Message], instructions: int, agent: str | None
    ) -> NormalizedPrompt:
        """Normalize a prompt that refers to a turn, and does not repeat its messages."""
        source = self._normalizer.numbered(messages)
        return self._continued(NormalizedPrompt.empty(source.table), [], source, instructions, agent, referred)

    def _continued(
        self,
        before: NormalizedPrompt,
        kept: Sequence[_KeptRange],
        source: NumberedMessages,
        instructions: int,
        agent: str | None,
        referred: ReferredTurn,
    ) -> NormalizedPrompt:
        """Normalize a prompt. The ranges that it has in common with the prompt `before` are copied."""
        count = 0
        if kept and kept[0].start == kept[0].shift == 0:
            count = kept[0].stop
        rest = _RestOfPrompt(self._normalizer, before, count, referred.answer)
        end = len(before.shape)
        for part in (*kept[bool(count) :], _KeptRange(end, end, len(source) - end)):
            rest.add_new(source, part.start + part.shift)
            rest.keep(part)
        prompt = NormalizedPrompt(
            source.table,
            source.place(),
            agent,
            self._normalizer.messages,
            before.numbers.continued(count, rest.numbers),
            before.shape[:count] + rest.shape,
            before.answers.continued(before.answers_before(count), rest.answers),
            before.silent - before.shape.count(_SILENT, count) + rest.shape.count(_SILENT),
            min(instructions, len(source)),
            referred,
            new=rest.new,
        )
        prompt.sum = _sum(prompt, before, [*kept[: bool(count)], *rest.kept])
        prompt.has_instructions = rest.has_instructions or (
            before.has_instructions and "system" in map(_role_of, prompt.forwards())
        )
        return prompt

    def _most_similar(self, source: NumberedMessages) -> NormalizedPrompt | None:
        """Return the earlier prompt that shares most messages with the prompt `source`, or None.

        The first choice is a prompt that `source` extends in the same array, or that has the middle message of `source`
        at the same position. The second choice is a prompt that has that message anywhere.
        """
        numbers, middle = source.place(), len(source) // 2
        same_table = [earlier for earlier in reversed(self._earlier) if earlier.table is source.table]
        for earlier in same_table:
            if numbers.is_aligned(earlier.source, middle):
                return earlier
        for earlier in same_table:
            if len(numbers) and earlier.source.may_contain(numbers[middle]):
                return earlier
        return None


class _KeptRange(Struct, frozen=True, gc=False):
    """The messages of an earlier prompt from `start` to before `stop`. A prompt has them `shift` positions later."""

    start: int
    stop: int
    shift: int


class _RestOfPrompt:
    """The part of a prompt after the first `count` positions, which are those of the earlier prompt `before`.

    `numbers`, `shape` and `answers` are those of a `NormalizedPrompt`. `new` are the positions of the new messages, and
    `kept` are the ranges of the others. `has_instructions` is True if a new message is an instruction.
    """

    def __init__(
        self, normalizer: MessageNormalizer, before: NormalizedPrompt, count: int, answer: NormalizedContent | None
    ) -> None:
        self.numbers: Numbers = array("q")
        self.answers: Numbers = array("q")
        self.shape = bytearray()
        self.new: list[int] = []
        self.kept: list[_KeptRange] = []
        self.has_instructions = False
        self._normalizer = normalizer
        self._before = before
        self._count = count
        self._reached = count
        self._answer = answer
        self._called: set[str] = set()

    def add_new(self, source: NumberedMessages, end: int) -> None:
        """Normalize the messages of the prompt up to a position."""
        for group in self._normalizer.groups(source, self._count + len(self.numbers), end):
            content, number, shape = group.content, 0, _SILENT
            if content is not None:
                number = self._normalizer.number_of(content, group.call_id, self._known, self._answer)
                self.new.append(group.end - 1)
                if content.calls:
                    self._called.update([call.call_id for call in content.calls])
                self.has_instructions = self.has_instructions or content.role == "system"
                shape = _OTHER
                if content.role == "assistant":
                    self.answers.append(self._normalizer.number_of_answer(content))
                    shape = _ANSWER
            silent = group.end - group.begin - 1
            self.numbers.extend([0] * silent)
            self.numbers.append(number)
            self.shape.extend([_SILENT] * silent)
            self.shape.append(shape)

    def keep(self, kept: _KeptRange) -> None:
        """Copy a range of the earlier prompt.

        The result of a tool is looked up again if a call with its id was removed or inserted before it.
        """
        before = self._before
        if self._reached < kept.start:
            for message in before.messages(self._reached, kept.start):
                self._called.update([call.call_id for call in message.content.calls])
        self._reached = kept.stop
        if kept.start == kept.stop:
            return
        self.kept.append(kept)
        begin = len(self.numbers)
        self.numbers += before.numbers.copy(kept.start, kept.stop)
        self.shape += before.shape[kept.start : kept.stop]
        self.answers += before.answers.copy(before.answers_before(kept.start), before.answers_before(kept.stop))
        if self._called:
            self._answer_again(begin)

    def _answer_again(self, begin: int) -> None:
        """Look up the calls of the kept results from a place on whose calls may have changed."""
        results = {number for call_id in self._called for number in self._normalizer.results.get(call_id, ())}
        if not any(map(SharedNumbers(self.numbers).may_contain, results)):
            return
        for place in range(begin, len(self.numbers)):
            if self.numbers[place] in results:
                message = self._normalizer.messages[self.numbers[place]]
                number = self._normalizer.number_of(message.content, message.call_id, partial(self._known, place))
                if number != self.numbers[place]:
                    self.numbers[place] = number
                    self.new.append(self._count + place)
                    part = self.kept.pop()
                    changed = self._count + place - part.shift
                    self.kept.append(_KeptRange(part.start, changed, part.shift))
                    self.kept.append(_KeptRange(changed + 1, part.stop, part.shift))

    def _known(self, end: int | None = None) -> Iterator[NormalizedMessage]:
        """Yield the messages of the prompt that are known, from the last to the first."""
        rest = SharedNumbers(self.numbers).backwards(end)
        own = map(self._normalizer.messages.__getitem__, filter(None, rest))
        return chain(own, self._before.backwards(self._count))


def _kept_ranges(before: NormalizedPrompt, source: NumberedMessages) -> list[_KeptRange]:
    """Return the ranges of messages that a prompt has in common with an earlier one.

    Neighbouring messages of an assistant are normalized together. So they are in a range only if all of them are.
    """
    length, numbers, messages = len(source), source.place(), source.table.messages

    def is_assistant(position: int) -> bool:
        place = position + shift
        if before.is_assistant(position):
            return True
        return 0 <= place < length and messages[numbers[place]].role == "assistant"

    ranges: list[_KeptRange] = []
    begin = shift = 0
    changes = numbers.changes_from(before.source)
    for change in (*changes, Change(len(before.shape), 0, array("q"))):
        end = change.position
        while begin < end and before.is_assistant(begin) and is_assistant(begin - 1):
            begin += 1
        while begin < end and before.is_assistant(end - 1) and is_assistant(end):
            end -= 1
        if begin < end:
            ranges.append(_KeptRange(begin, end, shift))
        begin, shift = change.position + change.removed, shift + len(change.inserted) - change.removed
    return ranges


def _sum(prompt: NormalizedPrompt, before: NormalizedPrompt, kept: Sequence[_KeptRange]) -> int:
    """Return the sum of a prompt. It is made from the sum of an earlier prompt, of which it keeps some ranges.

    Of the kept messages that move by the same number of places, the most are not read. All others are, in both prompts.
    """
    moved: dict[int, list[_KeptRange]] = defaultdict(list)
    for part in kept:
        start = max(part.start, before.own, prompt.own - part.shift)
        if start < part.stop:
            places = prompt.count_before(start + part.shift) - before.count_before(start)
            moved[places].append(_KeptRange(start, part.stop, part.shift))
    if not moved:
        return (prompt.referred.sum + prompt.sum_of(prompt.own, len(prompt.shape))) % MODULUS
    places, same = max(moved.items(), key=_messages_in)
    total, begin_before, begin = before.sum, before.own, prompt.own
    added = 0
    for part in (*same, _KeptRange(len(before.shape), len(before.shape), len(prompt.shape) - len(before.shape))):
        total -= before.sum_of(begin_before, part.start)
        added += prompt.sum_of(begin, part.start + part.shift)
        begin_before, begin = part.stop, part.stop + part.shift
    return (moved_sum(total, places) + added) % MODULUS


def _messages_in(moved: tuple[int, Sequence[_KeptRange]]) -> int:
    return sum(part.stop - part.start for part in moved[1])


_role_of = attrgetter("content.role")
