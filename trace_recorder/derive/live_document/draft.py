"""The draft: a run's document in the making, brought up to date with the journal, record by record.

Of what is settled, only figures and the place of its text in the last file are kept, and as long as the document may
still be cut down to deltas, where to cut: memory does not grow with the run. What still may change, the newest
interactions, those in flight, those that failed and may be tried again, those whose tools have not answered, is kept as
values. Where something settled changes all the same, `StaleDraftError` is raised: another draft, which is told of it,
reads the journal from its beginning.
"""

from __future__ import annotations

import math
import tempfile
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TypeVar

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.fold import MAX_REMEMBERED_IDS, Fold, keep_newest, unreadable_gaps
from trace_recorder.derive.live_document import renderer
from trace_recorder.derive.live_document.buffer import ElementText, ElementTexts, Layout
from trace_recorder.derive.live_document.renderer import RenderedText, Renderer
from trace_recorder.derive.live_document.steps import CarryOver, StaleDraftError, StepText, StepTexts
from trace_recorder.derive.steps import is_step
from trace_recorder.derive.tool_matching import RecordedStep, ToolStep
from trace_recorder.storage import journal
from trace_recorder.storage.items.disk_backed import FiledItems, JournalFile
from trace_recorder.storage.journal import BadLine, Record
from trace_recorder.values.metrics import Figures, Tally, figures_of
from trace_recorder.values.trajectory import Gap, History, LLMInteraction, Status

Key = TypeVar("Key")

MIN_OPEN = 8
"""So many interactions, and as many steps, are not settled yet, whatever their state."""
MAX_WAITING = 256
"""So many may wait for their end, another attempt, or their tools; the oldest beyond are settled as they are."""
MAX_DRAFTS = 32
"""After so many drafts of one journal nothing is settled any more: this run is not like others."""
READ_BYTES = 128 * 1024
"""The journal is read in parts of so many bytes."""
MAX_BYTES_IN_MEMORY = 4 * READ_BYTES
"""Of so many bytes settled texts that were not written yet are kept in memory; more go into a file without a name."""


@dataclass(slots=True)
class _OpenInteraction:
    """An interaction that is not settled: its piece, the step that derives from it, and what it adds.

    `response` is the text that it has in both.
    """

    call: CallRecords
    element: ElementText
    step: StepText | None = None
    one: LLMInteraction | None = None
    response: bytes | None = None
    figures: Figures = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


@dataclass(slots=True)
class _OpenStep:
    """A step that the agent recorded, or of tools that ran outside of these, and that is not settled."""

    step: RecordedStep | ToolStep
    text: StepText


class Draft:
    """The document of one journal, as far as `read_new_records` has read it.

    `history` is how it is written; beyond `limit` bytes, with deltas. `status` is that of a run without an end on file.
    """

    def __init__(
        self, path: Path, history: History, carry_over: CarryOver, limit: float = math.inf, status: Status = "running"
    ) -> None:
        self._path = path
        self._spool: IO[bytes] | None = None
        self._file = JournalFile(path)
        self._offset = 0
        self._interactions_size = 0
        self.history = history
        self._texts = Renderer(history, may_shorten=limit < math.inf)
        self._carry_over = carry_over
        carry_over.draft_count += 1
        self._limit = limit
        self._status = status
        self._fold = Fold(FiledItems(self._file), renderer.message)
        self._fold.tools.has_recorded_steps = carry_over.has_recorded_steps
        self._interactions = ElementTexts()
        self._steps = StepTexts(carry_over, self._fold.with_summary)
        self._open_interactions: dict[str, _OpenInteraction] = {}
        self._open_steps: list[_OpenStep] = []
        self._open_step_of: dict[object, _OpenStep] = {}
        self._settled_step_ids: set[str] = set()
        self._first: LLMInteraction | None = None
        self._gaps: list[Gap] = []
        self._call_figures = Tally()

    def is_in_place(self) -> bool:
        """Whether the file that is read still has the journal's name: a removed one is made again."""
        return self._file.is_in_place()

    def _close_spool(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()

    __del__ = _close_spool

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read_new_records(self, yield_to_others: Callable[[], None]) -> None:
        """Take the whole records that have been written since, with a breath between any two of them.

        Raises StaleDraftError.
        """
        size = READ_BYTES
        while data := self._file.read(size, self._offset):
            whole = data.rfind(b"\n") + 1
            for record in journal.read(data[:whole], base=self._offset):
                self._add_record(record)
                yield_to_others()
            self._offset += whole
            self._interactions_size = len(self._interactions)
            self._update(yield_to_others)
            if len(data) < size:
                break
            size = READ_BYTES if whole else size * 2

    def _add_record(self, record: Record | BadLine) -> None:
        if isinstance(record, Record):
            identity = record.data.get("interaction_id")
            if identity is not None and identity not in self._fold.calls and _continues_interaction(record):
                self._carry_over.reopen(identity)
            if record.data.get("step_id") in self._settled_step_ids:
                self._carry_over.reopen(record.data["step_id"])
        self._fold.add(record)
        if isinstance(record, Record) and "lakeview_step" in record.data:
            self._steps.summarise(record.data["lakeview_step"])
        for step in self._fold.steps:
            self._add_recorded_step(step)
        self._fold.steps.clear()

    # ── interactions, and the steps that are derived from them ───────────────────────────────────────────────────

    def _update(self, yield_to_others: Callable[[], None]) -> None:
        """Show what has changed, and settle what will not change any more."""
        fold = self._fold
        fold.read_pending(yield_to_others)
        for step in _drain(fold.tools.steps.changed):
            self._show_tool_step(step)
        for identity in _drain(fold.changed):
            fold.changed_steps.update((step, None) for step in fold.steps_showing(identity) if isinstance(step, str))
            call = fold.calls.get(identity)
            if call is None:
                self._change_settled(identity)
                continue
            one = fold.interaction(call)
            if one is None or fold.is_duplicate(one):
                self._hide(identity)
            elif identity not in self._carry_over.hidden:  # else it is read as if it were shown, until it turns out
                self._show(identity, one, call)
            yield_to_others()
        for identity in _drain(fold.changed_steps):
            self._show_recorded_step(identity)
        self._settle_steps()
        self._settle()
        keep_newest(fold.captured_responses, MAX_REMEMBERED_IDS)
        keep_newest(fold.manual_responses, MAX_REMEMBERED_IDS)
        keep_newest(fold.duplicates, MAX_REMEMBERED_IDS)
        self._spill_settled()

    def _hide(self, identity: str) -> None:
        if identity in self._open_interactions:
            self._start_without(identity)
        self._fold.forget(identity, None)

    def _change_settled(self, identity: str) -> None:
        """Start over for an interaction that was settled; one that turns out to be there twice is left out."""
        fold = self._fold
        if identity in self._carry_over.hidden:
            return
        if identity in fold.duplicates:
            self._start_without(identity)
        self._carry_over.reopen(identity)

    def _start_without(self, identity: str) -> None:
        self._carry_over.hidden.add(identity)
        raise StaleDraftError(identity)

    def _show(self, identity: str, one: LLMInteraction, call: CallRecords) -> None:
        shown = self._open_interactions.get(identity)
        if shown is None:
            shown = self._open_interactions[identity] = _OpenInteraction(call, self._interactions.add())
            self._first = self._first or one
            if not self._fold.tools.has_recorded_steps and is_step(one):
                shown.step = self._steps.begin(call.first_seq, derived=True)
        shown.one = one
        self._interactions_size -= len(shown.element)
        self._render(shown, one)
        self._interactions_size += len(shown.element)
        if self._interactions_size > self._limit:
            self._switch_to_deltas()
        shown.figures = self._call_figures.exchange(shown.figures, figures_of(one))
        shown.gaps = unreadable_gaps([one])
        self._show_derived_step(shown)

    def _render(self, shown: _OpenInteraction, one: LLMInteraction) -> None:
        rendered = self._texts.interaction(one, shown.call.incremental)
        shown.response = rendered.response
        _set_text(shown.element, rendered)

    def _switch_to_deltas(self) -> None:
        """Write only what each request adds, from now on and in what is there."""
        self.history, self._texts, self._limit = "delta", Renderer("delta"), math.inf
        self._interactions.shorten()
        for shown in self._open_interactions.values():
            if shown.one is not None:
                self._render(shown, shown.one)
        self._interactions_size = len(self._interactions)

    def _show_derived_step(self, shown: _OpenInteraction) -> None:
        if shown.step is not None and shown.one is not None:
            self._steps.show(shown.step, self._fold.derived_step(shown.step.number, shown.one), shown.response)

    def _settle(self) -> None:
        """Settle what is finished, but for the newest, and the oldest of those that wait where these are too many."""
        open_ones = len(self._open_interactions)
        for identity, shown in list(self._open_interactions.items())[:-MIN_OPEN] if self._may_settle() else ():
            if not self._open_step_of.keys().isdisjoint(self._fold.steps_showing(identity)):
                continue
            if (open_ones > MAX_WAITING or not self._is_waiting(shown)) and not self._must_stay_open(
                identity, shown.step
            ):
                shown.element.settled = True
                if shown.step is not None:
                    self._steps.settle(shown.step)
                self._gaps += shown.gaps
                self._fold.forget(identity, shown.one)
                del self._open_interactions[identity]
                open_ones -= 1

    def _is_waiting(self, shown: _OpenInteraction) -> bool:
        one = shown.one
        if one is None or one.error is not None or (shown.call.ending is None and not shown.call.is_manual):
            return True
        calls = one.response.tool_calls
        answers = self._fold.tools.answers.get(one.interaction_id, {})
        executions = self._fold.tools.executions.get(one.interaction_id, ())
        return any(call.call_id not in answers for call in calls) or any(
            execution.result_data is None for execution in executions
        )

    def _must_stay_open(self, identity: str, step: StepText | None) -> bool:
        if identity in self._carry_over.unsettled:
            return True
        return step is not None and (self._steps.must_stay_open(step) or self._follows_unstable_step(step))

    def _follows_unstable_step(self, step: StepText) -> bool:
        """Whether a derived step stands behind one that may still turn out to be none, or has once."""
        others = [
            one for one in self._open_steps if isinstance(one.step, ToolStep) and one.text.first_seq < step.first_seq
        ]
        return step.first_seq > self._carry_over.first_moved or any(map(self._may_be_reassigned, others))

    def _may_be_reassigned(self, open_step: _OpenStep) -> bool:
        step = open_step.step
        return isinstance(step, ToolStep) and any(map(self._fold.tools.may_be_reassigned, step.executions.values()))

    def _may_settle(self) -> bool:
        return self._carry_over.draft_count <= MAX_DRAFTS

    # ── steps that the agent recorded, and those of tools outside of them ────────────────────────────────────────

    def _add_recorded_step(self, step: RecordedStep) -> None:
        if (
            not self._carry_over.has_recorded_steps
        ):  # the first step that the agent recorded takes the place of all that were derived
            self._carry_over.has_recorded_steps = True
            if self._fold.tools.steps.has_started:
                raise StaleDraftError("derived steps")  # what ran outside is not of them any more
            self._steps = StepTexts(self._carry_over, self._fold.with_summary)
            for shown in self._open_interactions.values():
                shown.step = None
        open_step = _OpenStep(step, self._steps.begin(step.first_seq, derived=False))
        self._open_steps.append(open_step)
        if step.identity is None:
            self._show_open_step(open_step)
        else:
            self._open_step_of[step.identity] = open_step

    def _show_open_step(self, open_step: _OpenStep) -> None:
        if isinstance(open_step.step, ToolStep):
            step = open_step.step.step(open_step.text.number, self._fold.tools.answers)
        else:
            step = self._fold.recorded_step(open_step.step)
        self._steps.show(open_step.text, step)

    def _show_recorded_step(self, identity: str) -> None:
        if identity in self._open_step_of:
            self._show_open_step(self._open_step_of[identity])
        else:
            self._carry_over.reopen(identity)

    def _show_tool_step(self, step: ToolStep) -> None:
        open_step = self._open_step_of.get(step)
        if open_step is None and step.settled:
            self._carry_over.reopen(step.identity)
        if step.executions:
            if open_step is None:
                open_step = self._open_step_of[step] = _OpenStep(step, self._steps.begin(step.first_seq, derived=True))
                insort(self._open_steps, open_step, key=lambda one: one.text.first_seq)
            self._show_open_step(open_step)
        elif open_step is not None:
            self._steps.drop(open_step.text)
            self._open_steps.remove(open_step)
            del self._open_step_of[step]

    def _settle_steps(self) -> None:
        """Settle the steps that are finished, but for the newest."""
        for open_step in self._open_steps[:-MIN_OPEN] if self._may_settle() else ():
            if (
                len(self._open_steps) > MAX_WAITING or not self._step_is_waiting(open_step)
            ) and not self._step_must_stay_open(open_step):
                self._steps.settle(open_step.text)
                self._open_steps.remove(open_step)
                if isinstance(open_step.step, ToolStep):
                    open_step.step.settled = True
                    del self._open_step_of[open_step.step], self._fold.tools.steps.steps[open_step.step]
                elif open_step.step.identity is not None:
                    self._settled_step_ids.add(open_step.step.identity)
                    del self._open_step_of[open_step.step.identity], self._fold.steps_by_id[open_step.step.identity]

    def _step_must_stay_open(self, open_step: _OpenStep) -> bool:
        if open_step.step.identity in self._carry_over.unsettled or self._steps.must_stay_open(open_step.text):
            return True
        return open_step.text.first_seq > self._carry_over.first_moved or (
            bool(open_step.text.number) and self._follows_unstable_step(open_step.text)
        )

    def _step_is_waiting(self, open_step: _OpenStep) -> bool:
        """Whether more may come of it; while records are taken, nobody knows of what is inside a block."""
        if open_step.step.identity is None:
            return False
        if self._fold.changed_steps or open_step.step.is_pending():
            return True
        if self._may_be_reassigned(open_step):
            return True
        return any(
            identity in self._open_interactions and self._is_waiting(self._open_interactions[identity])
            for identity in open_step.step.interaction_ids()
        )

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def layout(self) -> Layout:
        """What the document's file is to hold."""
        gaps = (
            *self._fold.run.all_gaps(),
            *self._gaps,
            *(gap for shown in self._open_interactions.values() for gap in shown.gaps),
        )
        metrics = self._call_figures.metrics(self._steps.figures, self._fold.run.redactions)
        outline = replace(self._fold.run.outline(self._status, self._first), metrics=metrics, gaps=gaps)
        layout = Layout()
        layout.put(b"{\n" + renderer.members(outline.head()) + b',\n"llm_interactions": [')
        self._interactions.lay_out(layout)
        layout.put(b'],\n"agent_steps": [')
        self._steps.elements.lay_out(layout)
        layout.put(b"],\n" + renderer.members(outline.tail(self.history)) + b"\n}\n")
        if layout.size <= self._limit:
            return layout
        self._switch_to_deltas()
        return self.layout()

    def written(self) -> None:
        """Hear that every piece has its span in the file that was written."""
        self._interactions.merge()
        self._steps.elements.merge()
        self._close_spool()

    def _spill_settled(self) -> None:
        """Put settled texts aside where they are too many: reading a long journal anew, none is written yet."""
        if self._interactions.unwritten_bytes() + self._steps.elements.unwritten_bytes() <= MAX_BYTES_IN_MEMORY:
            return
        if self._spool is None:
            self._spool = tempfile.TemporaryFile(dir=self._path.parent)  # noqa: SIM115 - it lives until it was copied
        for elements in (self._interactions, self._steps.elements):
            elements.spill(self._spool.fileno())


def _continues_interaction(record: Record) -> bool:
    """Whether a record goes on with an interaction that began before."""
    return record.kind != "llm_interaction" and (record.kind != "llm_request" or record.data.get("attempt", 0) != 0)


def _drain(changed: dict[Key, None]) -> list[Key]:
    """What has changed, which is nothing any more."""
    keys = [*changed]
    changed.clear()
    return keys


def _set_text(element: ElementText, rendered: RenderedText) -> None:
    element.set(rendered.parts, rendered.own_bytes, rendered.delta_edits)
