"""The steps of a draft: their texts in the order in which they began, and the numbers of derived steps.

A step begins with `begin`, gets its value with `show`, and is final after `settle`. A derived step may begin, or be
dropped, before others that exist already: those are renumbered, unless one of them is settled. Then StaleDraftError
is raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trace_recorder.derive.fold import Fold
from trace_recorder.derive.live_document.buffer import ElementText, ElementTexts
from trace_recorder.derive.live_document.renderer import Renderer
from trace_recorder.derive.message_prefix import IncrementalReading
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import Counts, Tally, step_counts
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep


@dataclass(slots=True)
class CarryOver:
    """What earlier drafts of the same journal found out, for the next draft.

    - `unsettled`: interactions and steps that must not be settled
    - `hidden`: interactions that are left out
    - `has_recorded_steps`: whether the agent records steps itself, so that none are derived from the beginning on
    - `first_moved`: the first record of the first step that moved steps that were settled
    - `draft_count`: how many drafts of this journal were begun
    """

    unsettled: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    has_recorded_steps: bool = False
    first_moved: float = math.inf
    draft_count: int = 0

    def reopen(self, what: str) -> None:
        """Keep a part open, and start over with a new draft: raise StaleDraftError.

        If the part is kept open already, its first record is missing from the journal; then nothing is raised.
        """
        if what not in self.unsettled:
            self.unsettled.add(what)
            raise StaleDraftError(what)


class StaleDraftError(Exception):
    """A settled part has changed. `CarryOver` says which; a new draft is needed."""


@dataclass(slots=True, eq=False)
class StepText:
    """The text of a step that is not settled, and the figures it adds. `number` is 0 if the agent numbered it."""

    first_seq: int
    element: ElementText
    number: int = 0
    step: AgentStep | None = None
    response: bytes | None = None
    messages: IncrementalReading | None = None
    figures: Counts = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name under which summaries refer to it."""
        return step_name(self.step.step_number if self.step is not None and not self.number else self.number)


class StepTexts:
    """The texts of all steps. The fold adds to a step the summary that was recorded for its number."""

    def __init__(self, carry_over: CarryOver, fold: Fold, renderer: Renderer) -> None:
        self._renderer = renderer
        self.elements = ElementTexts()
        self.figures = Tally()
        self._carry_over = carry_over
        self._fold = fold
        self._open: dict[StepText, None] = {}
        self._settled_names: set[str] = set()
        self._derived = self._newest = self._settled = 0

    def begin(self, first_seq: int, *, derived: bool) -> StepText:
        """Begin a step at the place of the record `first_seq`."""
        later = self._later_derived_steps(first_seq) if first_seq <= self._newest else []
        one = StepText(first_seq, self.elements.insert(first_seq))
        if derived:
            self._derived += 1
            one.number = self._derived - len(later)
            if later:
                self._renumber(later, 1)
        self._newest = max(self._newest, first_seq)
        self._open[one] = None
        return one

    def show(
        self,
        one: StepText,
        step: AgentStep,
        *,
        response: bytes | None = None,
        messages: IncrementalReading | None = None,
    ) -> None:
        """Set the value of a step and render it.

        `response` is the text of its response, if it was rendered already, `messages` are those that were read together
        with other steps.
        """
        one.step, one.response, one.messages = step, response, messages
        self._render(one)

    def switch_to_deltas(self) -> None:
        """Write from now on only the messages that each step adds, and shorten what is there already."""
        self.elements.shorten()
        for one in self._open:
            if one.messages is not None:
                self._render(one)

    def drop(self, one: StepText) -> None:
        """Remove a derived step."""
        later = self._later_derived_steps(one.first_seq)
        del self._open[one]
        self.elements.elements.remove(one.element)
        self.figures.exchange(one.figures, {})
        self._derived -= 1
        self._renumber(later, -1)

    def settle(self, one: StepText) -> None:
        """Mark a step as final."""
        one.element.settled = True
        del self._open[one]
        self._settled = max(self._settled, one.first_seq)
        if not one.number:
            self._settled_names.add(one.name)

    def summarise(self, number: Payload) -> None:
        """Render the steps of a number again, with their summary. Raises StaleDraftError if one is settled."""
        name = step_name(number)
        for one in self._open:
            if one.name == name:
                self._render(one)
        if name in self._settled_names or self._has_settled(number):
            self._carry_over.reopen(name)

    def _has_settled(self, number: Payload) -> bool:
        """Whether a derived step of this number is settled."""
        if self._carry_over.has_recorded_steps or not isinstance(number, int):
            return False
        return 0 < number <= self._derived and number not in {one.number for one in self._open}

    def _later_derived_steps(self, first_seq: int) -> list[StepText]:
        """Return the open derived steps that began after a record. Raises StaleDraftError if a settled one did."""
        if first_seq < self._settled:
            self._carry_over.first_moved = min(self._carry_over.first_moved, first_seq)
            raise StaleDraftError(first_seq)
        return [one for one in self._open if one.number and one.first_seq > first_seq]

    def _renumber(self, later: list[StepText], by: int) -> None:
        for one in later:
            one.number += by
            self._render(one)

    def _render(self, one: StepText) -> None:
        if one.step is None:
            return
        step = replace(one.step, step_number=one.number) if one.number else one.step
        summarised = self._fold.with_summary(step) if self._fold.run.summaries else step
        rendered = self._renderer.step(summarised, one.response, one.messages)
        one.element.set(rendered.parts, rendered.own_bytes, rendered.delta_edits)
        one.figures = self.figures.exchange(one.figures, step_counts(step))


def step_name(number: Payload) -> str:
    """Return the name under which summaries refer to the steps of a number."""
    return f"step {to_json(number)}"
