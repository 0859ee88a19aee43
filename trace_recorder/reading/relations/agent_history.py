"""The messages and answers of one agent so far, and which of them a new prompt repeats.

`find_answers` searches a prompt for recorded answers, from its end to its beginning. `find_answers` also goes back in
the recorded chain: each message of the assistant is first compared with the answer before the answer that matched last.
So one pass over the prompt is enough, even if the agent changed the prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.reading.relations.normalized_messages import NormalizedMessage
from trace_recorder.reading.relations.normalized_prompts import NormalizedPrompt
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.message_equality import NormalizedContent
from trace_recorder.values.message_table import SharedSequence
from trace_recorder.values.prompt_comparison import SharedNumbers, equal_length
from trace_recorder.values.structs import Struct

AnswerRef = tuple[Turn, int]
"""A turn, and the index of one of its answers."""


class RepeatedAnswers(Struct, frozen=True, gc=False):
    """The recorded answers in a prompt, by the positions where they end.

    They are all messages of an assistant from the position `first` to `last`, and those at the positions in `others`.
    `size` is how many they are. If the prompt has no recorded answer, `last` is -1.
    """

    first: int = 0
    last: int = -1
    size: int = 0
    others: Collection[int] = ()


NO_ANSWERS = RepeatedAnswers()


class TurnRecord(Struct, frozen=True, eq=False, gc=False):
    """The facts about an answered turn that stay in memory.

    The prefix of a turn consists of the messages of its prompt, followed by its first answer. Instructions that apply
    to this prompt only are not part of the prefix. `prefix_sum` identifies the messages of the prefix
    (`sum_of_messages`), and `message_count` is their number. `answers` are the contents of the turn's answers.
    `answer_count` is the number of answers that the model had seen or given when the turn ended. `earlier_answers` are
    the answers of the turns before this turn in its chain, and `earlier_numbers` are the numbers of these answers
    (`number_of_answer`).
    """

    number: int
    prefix_sum: int
    message_count: int
    answers: tuple[NormalizedContent | None, ...]
    instructions_digest: bytes
    answer_count: int
    earlier_answers: SharedSequence[AnswerRef]
    earlier_numbers: SharedNumbers

    def answer(self, choice: int) -> NormalizedContent | None:
        """Return the answer with the index `choice`, or the first answer if there is no such answer."""
        if choice < len(self.answers):
            return self.answers[choice]
        return self.answers[0]


@dataclass(slots=True)
class AgentMessages:
    """The messages and answers of one agent so far. `records` has the answered turns of all agents of the run."""

    records: Mapping[Turn, TurnRecord]
    last: Turn | None = None
    has_instructions: bool = False
    callers: dict[str, Turn] = field(default_factory=dict)
    _answers: dict[Hashable, list[tuple[int, Turn, int]]] = field(default_factory=lambda: defaultdict(list))
    _chain_of_message: dict[Hashable, Turn] = field(default_factory=dict)
    _instructions: dict[Turn, str] = field(default_factory=dict)
    _claimed_by: Turn | None = None
    _claims: int = 0

    # ── what a prompt repeats ────────────────────────────────────────────────────────────────────────────────────────

    def last_answer(self, prompt: NormalizedPrompt) -> tuple[int, AnswerRef] | None:
        """Return the position and the turn of the last recorded answer in a prompt, or None."""
        position = prompt.last_answer(len(prompt.shape))
        while position >= 0:
            answer = self._latest_answer(prompt.message_at(position).content, None)
            if answer is not None:
                return position, answer
            position = prompt.last_answer(position)
        return None

    def find_answers(self, prompt: NormalizedPrompt, position: int, answer: AnswerRef) -> tuple[RepeatedAnswers, int]:
        """Find the recorded answers in a prompt, of which the last is `answer` at a position.

        Return the answers. Also return how many of them, counted from the end of the prompt, follow each other in their
        chain without a missing answer.
        """
        before = prompt.answers_before(position)
        earlier = self._answers_in_a_row(answer[0], prompt, before)
        unbroken = 1 + len(earlier)
        turn = answer[0]
        if earlier:
            turn = earlier[0][0]
        others, has_gap, first = [], False, 0
        for place in reversed(prompt.first_answers(before - len(earlier))):
            first = first or place + 1
            content = prompt.message_at(place).content
            expected = self._answer_before(turn, content)
            other = expected or self._latest_answer(content, turn)
            if other is None:
                continue
            has_gap = has_gap or expected is None
            unbroken += not has_gap
            others.append(place)
            turn = other[0]
        return RepeatedAnswers(first, position, 1 + len(earlier) + len(others), others), unbroken

    def _answers_in_a_row(self, turn: Turn, prompt: NormalizedPrompt, end: int) -> Sequence[AnswerRef]:
        """Return the answers that preceded the answer of `turn`, if the prompt repeats them.

        `end` is how many answers of the prompt come before the answer of `turn`. If these answers differ from the
        recorded answers, return an empty sequence.
        """
        record = self.records[turn]
        recorded = record.earlier_numbers
        count = min(end, len(recorded))
        if prompt.answers.copy(end - count, end) != recorded.copy(len(recorded) - count):
            return ()
        return record.earlier_answers[len(recorded) - count :]

    def _answer_before(self, turn: Turn | None, content: NormalizedContent) -> AnswerRef | None:
        """Return the answer that preceded the answer of a turn, if that earlier answer has this content.

        Empty answers are skipped, because no prompt has them.
        """
        while turn is not None and turn.previous is not None:
            before, choice = turn.previous, turn.choice
            answer = self.records[before].answer(choice)
            if answer is not None:
                has_same_calls = bool(answer.calls) and answer.call_keys == content.call_keys
                if answer.identity == content.identity or has_same_calls:
                    return before, choice
                return None
            turn = before
        return None

    def _latest_answer(self, content: NormalizedContent, until: Turn | None) -> AnswerRef | None:
        """Return the latest answer with this content, or else the latest answer whose tool calls have the same ids.

        If `until` is given, only answers of turns before `until` are considered.
        """
        for key in content.keys:
            answers = self._answers.get(key, [])
            end = len(answers)
            if until is not None:
                end = bisect_left(answers, (self.records[until].number,))
            if end:
                return answers[end - 1][1:]
        return None

    def chain_of(self, prompt: NormalizedPrompt, instructions: str) -> Turn | None:
        """Find the chain of a prompt that has no recorded answer. Return the first turn of the chain, or None.

        The instructions of the chain must be similar to `instructions`. The chain must also have a message of the
        prompt, or else be the chain of the agent's last turn.
        """
        for message in prompt.backwards():
            start = self._chain_of_message.get(message.key)
            if start is not None and self.has_similar_instructions(start, instructions):
                return start
        if self.last is not None and instructions and self.has_similar_instructions(self.last, instructions):
            return self.last.chain_start
        return None

    def has_similar_instructions(self, turn: Turn, instructions: str) -> bool:
        """Whether the chain of a turn had instructions like these. Details, such as the time of day, may differ.

        If the chain began with a different agent, the result is True, because only that agent's history has the chain's
        instructions.
        """
        return _are_similar(self._instructions.get(turn.chain_start, instructions), instructions)

    # ── what a turn adds ─────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, turn: Turn, prompt: NormalizedPrompt, appended_from: int, instructions: str) -> None:
        """Assign the messages of a turn's prompt to the turn's chain.

        If the history did not change, the prompt adds the messages from the position `appended_from` on. Otherwise
        `instructions` replaces the instructions of the chain. Messages that the prompt repeats are assigned to the
        chain already, unless a turn of a different chain was added in between.
        """
        start = turn.chain_start
        if start is not self._claimed_by:
            self._claimed_by, self._claims = start, self._claims + 1
        repeats_claimed = prompt.before is not None and prompt.before.claim == self._claims
        added: Iterable[NormalizedMessage]
        if turn.exact:
            added = prompt.messages(appended_from)
        elif repeats_claimed:
            added = map(prompt.message_at, prompt.new)
        else:
            added = prompt.forwards()
        if not turn.exact:
            self._instructions[start] = instructions
        self._chain_of_message.update((message.key, start) for message in added)
        if repeats_claimed or not turn.exact:
            prompt.claim = self._claims

    def add_answers(self, turn: Turn) -> None:
        """Remember the answers of a turn."""
        start = turn.chain_start
        for choice, content in enumerate(self.records[turn].answers):
            if content is None:
                continue
            self._chain_of_message[content.identity] = start
            for key in content.keys:
                self._answers[key].append((self.records[turn].number, turn, choice))
            self.callers.update((call.call_id, turn) for call in content.calls)
        if self.last is None or turn.previous is not None or start is self.last.chain_start:
            self.last = turn  # a new chain does not replace `last` until a call continues the chain


def _are_similar(text: str, other: str) -> bool:
    """Whether the common beginning and end of two texts are at least half of the longer text."""
    if text == other or not text or not other:
        return text == other
    begin = equal_length(text, 0, other, 0)
    end = equal_length(text[begin:][::-1], 0, other[begin:][::-1], 0)
    return 2 * (begin + end) >= max(len(text), len(other))
