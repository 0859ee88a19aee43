"""The steps of a draft: their texts in the order in which they began, the numbers of those that are derived.

Whoever knows what a step is says so with `show`, and with `settle` that nothing more comes of it. A derived step may
begin, or turn out to be none, before others that are there already: these are numbered anew, as long as they are not
settled. Where one is, `StaleDraftError` is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trace_recorder.derive.live_document import renderer as texts
from trace_recorder.derive.live_document.buffer import Piece, Pieces
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import Counts, Tally, step_counts
from trace_recorder.values.trajectory import AgentStep


@dataclass(slots=True)
class Told:
    """What earlier drafts of the same journal found: who is not to be settled, and who is not to be shown.

    `marks` is whether the agent records steps itself, so that none are derived from the beginning on; `moved` is where
    a step began, or turned out to be none, when others behind it had been settled.
    """

    unsettled: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    marks: bool = False
    moved: float = math.inf
    drafts: int = 0

    def leave_open(self, what: str) -> None:
        """Start over for something that was settled; a second time it is known to begin in its middle."""
        if what not in self.unsettled:
            self.unsettled.add(what)
            raise StaleDraftError(what)


class StaleDraftError(Exception):
    """Something that was settled has changed. What it is has been told."""


@dataclass(slots=True, eq=False)
class StepText:
    """A step that is not settled: its text, and what it adds. `number` is 0 for one that the agent numbered itself."""

    since: int
    piece: Piece
    number: int = 0
    step: AgentStep | None = None
    response: bytes | None = None
    figures: Counts = field(default_factory=dict)

    @property
    def name(self) -> str:
        """By what summaries know it."""
        return step_name(self.step.step_number if self.step is not None and not self.number else self.number)


class StepTexts:
    """The texts of all steps. `summarised` adds to a step the summary that was told of it."""

    def __init__(self, told: Told, summarised: Callable[[AgentStep], AgentStep]) -> None:
        self.pieces = Pieces()
        self.figures = Tally()
        self._told = told
        self._summarised = summarised
        self._open: dict[StepText, None] = {}
        self._settled_names: set[str] = set()
        self._derived = self._newest = self._settled = 0

    def begin(self, since: int, *, derived: bool) -> StepText:
        """Begin a step with the record of this number."""
        behind = self._behind(since)
        one = StepText(since, self.pieces.insert(since))
        if derived:
            self._derived += 1
            one.number = self._derived - len(behind)
            self._move(behind, 1)
        self._newest = max(self._newest, since)
        self._open[one] = None
        return one

    def show(self, one: StepText, step: AgentStep, response: bytes | None = None) -> None:
        """Say what a step is; `response` is the text of its response, where it is known."""
        one.step, one.response = step, response
        self._spell(one)

    def drop(self, one: StepText) -> None:
        """Hear that a derived step is none."""
        behind = self._behind(one.since)
        del self._open[one]
        self.pieces.pieces.remove(one.piece)
        self.figures.exchange(one.figures, {})
        self._derived -= 1
        self._move(behind, -1)

    def settle(self, one: StepText) -> None:
        """Hear that nothing more comes of a step."""
        one.piece.settled = True
        del self._open[one]
        self._settled = max(self._settled, one.since)
        if not one.number:
            self._settled_names.add(one.name)

    def summarise(self, number: Payload) -> None:
        """Show the summary that was told of the steps of a number."""
        name = step_name(number)
        for one in self._open:
            if one.name == name:
                self._spell(one)
        if name in self._settled_names or self._has_settled(number):
            self._told.leave_open(name)

    def is_told(self, one: StepText) -> bool:
        """Whether a step is known not to be settled, by its number."""
        return bool(self._told.unsettled) and one.name in self._told.unsettled

    def _has_settled(self, number: Payload) -> bool:
        """Whether a derived step of this number was settled."""
        if self._told.marks or not isinstance(number, int):
            return False
        return 0 < number <= self._derived and number not in {one.number for one in self._open}

    def _behind(self, since: int) -> list[StepText]:
        """The derived steps that began behind a place, which are not settled."""
        if since > self._newest:
            return []
        if since < self._settled:
            self._told.moved = min(self._told.moved, since)
            raise StaleDraftError(since)
        return [one for one in self._open if one.number and one.since > since]

    def _move(self, behind: list[StepText], by: int) -> None:
        for one in behind:
            one.number += by
            self._spell(one)

    def _spell(self, one: StepText) -> None:
        if one.step is None:
            return
        step = replace(one.step, step_number=one.number) if one.number else one.step
        spelled = texts.step(self._summarised(step), one.response)
        one.piece.set(spelled.parts, spelled.own, spelled.cuts)
        one.figures = self.figures.exchange(one.figures, step_counts(step))


def step_name(number: Payload) -> str:
    """By what summaries know the steps of a number."""
    return f"step {to_json(number)}"
