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
from trace_recorder.views.conversations.utterances import Utterance, Words

Answer = tuple[Turn, int]
"""A turn, and the number of its answer."""
Repeats = Mapping[int, Answer]
"""Which utterances of a prompt are which recorded answers."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is remembered of a turn: its number, and the `state` of all that was said up to its first answer.

    `words` are those of each answer; `count` is how many utterances there were up to the first, without instructions,
    `depth` how many answers the model had seen or given; `instructed` tells the instructions from others.
    """

    number: int
    state: bytes
    count: int
    words: tuple[Words | None, ...]
    instructed: bytes
    depth: int


@dataclass(slots=True)
class Heard:
    """What one agent has said and heard. `places` are of all turns of the run, and shared."""

    places: Mapping[Turn, Place]
    last: Turn | None = None
    is_instructed: bool = False
    asked: dict[str, Turn] = field(default_factory=dict)
    _answers: dict[Hashable, list[tuple[int, Turn, int]]] = field(default_factory=lambda: defaultdict(list))
    _times: Counter[Hashable] = field(default_factory=Counter)
    _after: dict[Turn, Counter[Hashable]] = field(default_factory=dict)
    _results: set[tuple[int, int]] = field(default_factory=set)
    _began: dict[Hashable, Turn] = field(default_factory=dict)
    _instructions: dict[Turn, str] = field(default_factory=dict)

    # ── where a prompt repeats it ────────────────────────────────────────────────────────────────────────────────────

    def repeated(self, said: Sequence[Utterance]) -> tuple[Repeats, int]:
        """Find the recorded answers in a prompt; how many of the last ones stand there with none between them gone."""
        found: dict[int, Answer] = {}
        turn: Turn | None = None
        unbroken, gone = 0, False
        for at in reversed(range(len(said))):
            words = said[at].words
            if words.role != "assistant":
                continue
            expected = self._expected(turn, words)
            answer = expected or self._latest(words, turn)
            if answer is None:
                continue
            gone = gone or (turn is not None and expected is None)
            unbroken += not gone
            found[at], turn = answer, answer[0]
        return found, unbroken

    def has_answer(self, said: Sequence[Utterance], begin: int) -> bool:
        """Whether there is a recorded answer in a prompt behind its beginning."""
        return any(one.words.role == "assistant" and self._latest(one.words, None) for one in said[begin:])

    def _expected(self, turn: Turn | None, words: Words) -> Answer | None:
        """The answer before that of a turn, if these are its words; silent ones are in no prompt."""
        while turn is not None and turn.before is not None:
            before, choice = turn.before, turn.choice
            said = self.places[before].words
            found = said[choice if choice < len(said) else 0]
            if found is not None:
                same = found.name == words.name or (found.calls and found.ids == words.ids)
                return (before, choice) if same else None
            turn = before
        return None

    def _latest(self, words: Words, until: Turn | None) -> Answer | None:
        """The latest answer with these words, or else with calls of these ids, before that of a turn."""
        for key in (words.name, words.ids if words.calls else None):
            answers = self._answers.get(key, [])
            end = len(answers) if until is None else bisect_left(answers, (self.places[until].number,))
            if end:
                return answers[end - 1][1:]
        return None

    def same_run(self, said: Sequence[Utterance], instructions: str) -> Turn | None:
        """With which turn the run of calls began that a prompt without any recorded answer belongs to.

        It has something in common with it, and the same instructions, apart from such as a clock in them.
        """
        for one in reversed(said):
            began = self._began.get(one.key)
            if began is not None and _alike(self._instructions[began], instructions):
                return began
        if self.last is not None and instructions and _alike(self._instructions[self.last.began], instructions):
            return self.last.began
        return None

    def is_instructed_so(self, turn: Turn, instructions: str) -> bool:
        """Whether a turn's run of calls had these instructions, apart from such as a clock in them."""
        return _alike(self._instructions.get(turn.began, instructions), instructions)

    def has_heard(self, said: Sequence[Utterance], repeats: Repeats) -> list[bool]:
        """Of each utterance of a prompt whether it was told before."""
        times: Counter[Hashable] = Counter()
        return [at in repeats or self._is_told(one, repeats, times) for at, one in enumerate(said)]

    def has_heard_after(self, before: Turn, said: Sequence[Utterance], kept: int) -> list[bool]:
        """The same of a prompt that goes on from a turn exactly: it may not be the first one that does."""
        times: Counter[Hashable] = Counter()
        after = self._after.get(before, Counter())
        return [one.end <= kept or _again(one.key, times, after) for one in said]

    def _is_told(self, one: Utterance, repeats: Repeats, times: Counter[Hashable]) -> bool:
        """Whether it was told before; a result of a recorded answer's call was, whatever has been made of it since."""
        asker = repeats.get(one.answers.by) if one.answers and one.answers.by is not None else None
        if asker is not None and one.answers is not None:
            return (self.places[asker[0]].number, one.answers.place) in self._results
        return _again(one.key, times, self._times)

    # ── what is new ──────────────────────────────────────────────────────────────────────────────────────────────────

    def hear(self, turn: Turn, said: Sequence[Utterance], known: Sequence[bool], repeats: Repeats) -> None:
        """Take what a turn's prompt says."""
        for one, is_known in zip(said, known, strict=True):
            if one.answers is not None:
                by = one.answers.by
                asker = turn.before if by is None else repeats[by][0] if by in repeats else None
                if asker is not None:
                    self._results.add((self.places[asker].number, one.answers.place))
            if not is_known:
                self._times[one.key] += 1
                if turn.exact and turn.before is not None:
                    self._after.setdefault(turn.before, Counter())[one.key] += 1

    def answered(self, turn: Turn, said: Sequence[Utterance], instructions: str | None) -> None:
        """Take a turn that was answered; `instructions` where they may be others than before."""
        place = self.places[turn]
        for one in said:
            self._began[one.key] = turn.began
        if instructions is not None:
            self._instructions[turn.began] = instructions
        for choice, words in enumerate(place.words):
            if words is None:
                continue
            self._began[words.name] = turn.began
            for key in {words.name, words.ids} if words.calls else {words.name}:
                self._answers[key].append((place.number, turn, choice))
            self.asked.update((call.call_id, turn) for call in words.calls)
        if self.last is None or turn.before is not None or turn.began is self.last.began:
            self.last = turn  # of two runs of calls, the one that goes on


def _alike(one: str, other: str) -> bool:
    """Whether two texts are the same by half at their beginning and end."""
    if one == other or not one or not other:
        return one == other
    begin = _common(one, other)
    end = _common(one[begin:][::-1], other[begin:][::-1])
    return 2 * (begin + end) >= max(len(one), len(other))


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _again(key: Hashable, times: Counter[Hashable], told: Counter[Hashable]) -> bool:
    """Whether an utterance comes as often as it was told before, or less."""
    times[key] += 1
    return times[key] <= told[key]
