"""What one agent of a run has said and heard so far, and where a prompt of its repeats that.

Answers are looked for from the end of a prompt to its beginning, each first where it is expected: before the one that
was found last. So a prompt is gone through once, whatever was changed in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.views.conversations.chained_call import Turn
from trace_recorder.views.conversations.normalized_messages import NormalizedContent, NormalizedMessage

AnswerRef = tuple[Turn, int]
"""A turn, and the number of its answer."""
RepeatedAnswers = Mapping[int, AnswerRef]
"""Which utterances of a prompt are which recorded answers."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What is remembered of a turn: its number, and the `state` of all that was said up to its first answer.

    `words` are those of each answer; `count` is how many utterances there were up to the first, without instructions,
    `depth` how many answers the model had seen or given; `instructed` tells the instructions from others.
    """

    number: int
    prefix_digest: bytes
    message_count: int
    answers: tuple[NormalizedContent | None, ...]
    instructions_digest: bytes
    answer_count: int


@dataclass(slots=True)
class AgentHistory:
    """What one agent has said and heard. `places` are of all turns of the run, and shared."""

    records: Mapping[Turn, TurnRecord]
    last: Turn | None = None
    has_instructions: bool = False
    callers: dict[str, Turn] = field(default_factory=dict)
    _answers: dict[Hashable, list[tuple[int, Turn, int]]] = field(default_factory=lambda: defaultdict(list))
    _message_counts: Counter[Hashable] = field(default_factory=Counter)
    _counts_after: dict[Turn, Counter[Hashable]] = field(default_factory=dict)
    _results: set[tuple[int, int]] = field(default_factory=set)
    _chain_of_message: dict[Hashable, Turn] = field(default_factory=dict)
    _instructions: dict[Turn, str] = field(default_factory=dict)

    # ── where a prompt repeats it ────────────────────────────────────────────────────────────────────────────────────

    def find_answers(self, said: Sequence[NormalizedMessage]) -> tuple[RepeatedAnswers, int]:
        """Find the recorded answers in a prompt; how many of the last ones stand there with none between them gone."""
        found: dict[int, AnswerRef] = {}
        turn: Turn | None = None
        unbroken, gone = 0, False
        for at in reversed(range(len(said))):
            words = said[at].content
            if words.role != "assistant":
                continue
            expected = self._answer_before(turn, words)
            answer = expected or self._latest_answer(words, turn)
            if answer is None:
                continue
            gone = gone or (turn is not None and expected is None)
            unbroken += not gone
            found[at], turn = answer, answer[0]
        return found, unbroken

    def has_answer(self, said: Sequence[NormalizedMessage], begin: int) -> bool:
        """Whether there is a recorded answer in a prompt behind its beginning."""
        return any(one.content.role == "assistant" and self._latest_answer(one.content, None) for one in said[begin:])

    def _answer_before(self, turn: Turn | None, words: NormalizedContent) -> AnswerRef | None:
        """The answer before that of a turn, if these are its words; silent ones are in no prompt."""
        while turn is not None and turn.previous is not None:
            before, choice = turn.previous, turn.choice
            said = self.records[before].answers
            found = said[choice if choice < len(said) else 0]
            if found is not None:
                same = found.identity == words.identity or (found.calls and found.call_keys == words.call_keys)
                return (before, choice) if same else None
            turn = before
        return None

    def _latest_answer(self, words: NormalizedContent, until: Turn | None) -> AnswerRef | None:
        """The latest answer with these words, or else with calls of these ids, before that of a turn."""
        for key in (words.identity, words.call_keys if words.calls else None):
            answers = self._answers.get(key, [])
            end = len(answers) if until is None else bisect_left(answers, (self.records[until].number,))
            if end:
                return answers[end - 1][1:]
        return None

    def chain_of(self, said: Sequence[NormalizedMessage], instructions: str) -> Turn | None:
        """With which turn the run of calls began that a prompt without any recorded answer belongs to.

        It has something in common with it, and the same instructions, apart from such as a clock in them.
        """
        for one in reversed(said):
            began = self._chain_of_message.get(one.key)
            if began is not None and _similar(self._instructions[began], instructions):
                return began
        if self.last is not None and instructions and _similar(self._instructions[self.last.chain_start], instructions):
            return self.last.chain_start
        return None

    def has_similar_instructions(self, turn: Turn, instructions: str) -> bool:
        """Whether a turn's run of calls had these instructions, apart from such as a clock in them."""
        return _similar(self._instructions.get(turn.chain_start, instructions), instructions)

    def are_known(self, said: Sequence[NormalizedMessage], repeats: RepeatedAnswers) -> list[bool]:
        """Of each utterance of a prompt whether it was told before."""
        times: Counter[Hashable] = Counter()
        return [at in repeats or self._is_known(one, repeats, times) for at, one in enumerate(said)]

    def are_known_after(self, before: Turn, said: Sequence[NormalizedMessage], kept: int) -> list[bool]:
        """The same of a prompt that goes on from a turn exactly: it may not be the first one that does."""
        times: Counter[Hashable] = Counter()
        after = self._counts_after.get(before, Counter())
        return [one.end <= kept or _is_repetition(one.key, times, after) for one in said]

    def _is_known(self, one: NormalizedMessage, repeats: RepeatedAnswers, times: Counter[Hashable]) -> bool:
        """Whether it was told before; a result of a recorded answer's call was, whatever has been made of it since."""
        asker = (
            repeats.get(one.answered_call.message_index)
            if one.answered_call and one.answered_call.message_index is not None
            else None
        )
        if asker is not None and one.answered_call is not None:
            return (self.records[asker[0]].number, one.answered_call.call_index) in self._results
        return _is_repetition(one.key, times, self._message_counts)

    # ── what is new ──────────────────────────────────────────────────────────────────────────────────────────────────

    def add_prompt(
        self, turn: Turn, said: Sequence[NormalizedMessage], known: Sequence[bool], repeats: RepeatedAnswers
    ) -> None:
        """Take what a turn's prompt says."""
        for one, is_known in zip(said, known, strict=True):
            if one.answered_call is not None:
                by = one.answered_call.message_index
                asker = turn.previous if by is None else repeats[by][0] if by in repeats else None
                if asker is not None:
                    self._results.add((self.records[asker].number, one.answered_call.call_index))
            if not is_known:
                self._message_counts[one.key] += 1
                if turn.exact and turn.previous is not None:
                    self._counts_after.setdefault(turn.previous, Counter())[one.key] += 1

    def add_answers(self, turn: Turn, said: Sequence[NormalizedMessage], instructions: str | None) -> None:
        """Take a turn that was answered; `instructions` where they may be others than before."""
        place = self.records[turn]
        for one in said:
            self._chain_of_message[one.key] = turn.chain_start
        if instructions is not None:
            self._instructions[turn.chain_start] = instructions
        for choice, words in enumerate(place.answers):
            if words is None:
                continue
            self._chain_of_message[words.identity] = turn.chain_start
            for key in {words.identity, words.call_keys} if words.calls else {words.identity}:
                self._answers[key].append((place.number, turn, choice))
            self.callers.update((call.call_id, turn) for call in words.calls)
        if self.last is None or turn.previous is not None or turn.chain_start is self.last.chain_start:
            self.last = turn  # of two runs of calls, the one that goes on


def _similar(one: str, other: str) -> bool:
    """Whether two texts are the same by half at their beginning and end."""
    if one == other or not one or not other:
        return one == other
    begin = _common_prefix_length(one, other)
    end = _common_prefix_length(one[begin:][::-1], other[begin:][::-1])
    return 2 * (begin + end) >= max(len(one), len(other))


def _common_prefix_length(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _is_repetition(key: Hashable, times: Counter[Hashable], told: Counter[Hashable]) -> bool:
    """Whether an utterance comes as often as it was told before, or less."""
    times[key] += 1
    return times[key] <= told[key]
