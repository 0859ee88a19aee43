"""The draft: a run's document, kept up to date with its journal record by record.

A part of the document is *settled* when nothing more is expected to change it. Of a settled part only figures and the
position of its text in the last file are kept, and, while the document may still be shortened to deltas, where to cut:
memory does not grow with the run. What may still change is kept as values: the newest interactions, those in flight,
those that failed and may be retried, and those with tools that have not answered.

If a settled part changes after all, `StaleDraftError` is raised. The caller then makes a new draft from the beginning
of the journal; `CarryOver` holds what must not be settled this time.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator
from pathlib import Path

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.fold import Fold, drain, unreadable_gaps
from trace_recorder.derive.live_document.buffer import ElementText, ElementTexts, Layout
from trace_recorder.derive.live_document.limits import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.derive.live_document.open_parts import OpenInteraction, OpenStep
from trace_recorder.derive.live_document.renderer import Renderer
from trace_recorder.derive.live_document.spool import Spool
from trace_recorder.derive.live_document.steps import CarryOver, StaleDraftError, StepText, StepTexts
from trace_recorder.derive.tool_executions import ToolExecutions
from trace_recorder.derive.tool_matching import RecordedStep, ToolStep, is_step
from trace_recorder.derive.tool_steps import ToolSteps
from trace_recorder.dialects.background import goes_on
from trace_recorder.storage import journal_reader
from trace_recorder.storage.items.disk_backed import DiskBackedItems, JournalFile
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.metrics import Tally, interaction_counts
from trace_recorder.values.trajectory import Gap, History, Status

MAX_DRAFTS = 32
"""After this many drafts of one journal nothing is settled any more."""
RECORDS_PER_YIELD = 8
"""Other threads may run each time that this many records were read; during a long one they may run anyway."""
_BEGINNINGS = frozenset({"llm_request", "llm_interaction"})
"""The records with which an interaction begins, or another attempt of it."""


class Draft:
    """The document of one journal, as far as `read_new_records` has read it.

    `history` is the form in which messages are written; a document of more than `limit` bytes is written with deltas.
    `status` is used if the run has no end on file. `journal` is the file that is read, `spool` has texts that are in no
    document yet.
    """

    def __init__(
        self,
        path: Path,
        history: History,
        carry_over: CarryOver,
        *,
        limit: float = math.inf,
        status: Status = "running",
        limits: DocumentLimits = DEFAULT_LIMITS,
    ) -> None:
        self.spool = Spool(path.parent)
        self.journal = JournalFile(path)
        self._offset = 0
        self._size = 0
        self.history = history
        self._texts = Renderer(history, may_shorten=limit < math.inf)
        self._carry_over = carry_over
        carry_over.draft_count += 1
        self._limit = limit
        self._limits = limits
        self._status = status
        items = DiskBackedItems(self.journal, max_cached_bytes=limits.cached_item_bytes)
        tools = ToolExecutions(steps=ToolSteps(max_tools=limits.max_tools_per_step))
        self._fold = Fold(
            items, self._texts.message, tools=tools, max_prefixes=limits.max_prefixes, hidden=carry_over.hidden
        )
        self._fold.tools.has_recorded_steps = carry_over.has_recorded_steps
        if history == "delta":
            self._fold.render_only_new()
        self._interactions = ElementTexts()
        self._steps = StepTexts(carry_over, self._fold, self._texts)
        self._open_interactions: dict[str, OpenInteraction] = {}
        self._open_steps: list[OpenStep] = []
        self._open_step_of: dict[object, OpenStep] = {}
        self._settled_step_ids: set[str] = set()
        self._settled_in_flight: set[str] = set()
        """Interactions that were settled before their end, because too many were waiting."""
        self._first: LLMInteraction | None = None
        self._gaps: list[Gap] = []
        self._call_figures = Tally()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read_new_records(self) -> None:
        """Read the complete records that were written since the last call. Raises StaleDraftError."""
        size = self._limits.read_bytes
        while data := self.journal.read(size, self._offset):
            whole = data.rfind(b"\n") + 1
            self._fold.add_all(self._followed(journal_reader.read(data[:whole], base=self._offset)))
            self._offset += whole
            elements = (*self._interactions.elements, *self._steps.elements.elements)
            self._size = sum([element.size for element in elements])
            if self._size > self._limit:
                self._switch_to_deltas()
            self._update(is_last=len(data) < size)
            if self._size > self._limits.memory_bytes:
                self._spill_settled()
            if len(data) < size:
                break
            size = self._limits.read_bytes if whole else size * 2
        if self._fold.changed:  # the file ended where a block did
            self._update(is_last=True)

    def _followed(self, records: Iterable[Record | BadLine]) -> Iterator[Record | BadLine]:
        """Yield records to the fold, and note their changes. Raises StaleDraftError for a record of a settled part."""
        for number, record in enumerate(records, start=1):
            if number % RECORDS_PER_YIELD == 0:
                yield_to_others()
            if isinstance(record, BadLine):
                yield record
                continue
            if record.length > MAX_UNINTERRUPTED_CHARS or record.kind == "llm_stream":  # parts may make up a long text
                self._texts.has_long_strings = True
            identity = record.data.get("interaction_id")
            continues = record.kind not in _BEGINNINGS or record.data.get("attempt", 0) != 0
            if continues and identity is not None and identity not in self._fold.calls:
                self._reopen_too_early(identity)
                self._carry_over.reopen(identity)
            if record.data.get("step_id") in self._settled_step_ids:
                self._carry_over.reopen(record.data["step_id"])
            yield record
            if "lakeview_step" in record.data:
                self._steps.summarise(record.data["lakeview_step"])
            for step in self._fold.steps:
                self._add_recorded_step(step)
            self._fold.steps.clear()

    # ── interactions, and the steps derived from them ────────────────────────────────────────────────────────────

    def _update(self, *, is_last: bool) -> None:
        """Render what has changed, and settle what will not change any more.

        A stream that goes on is joined from its beginning, so it waits until all records have been read (`is_last`).
        """
        fold = self._fold
        fold.read_pending()
        fold.match_tools()
        if fold.tools.steps.changed:
            self._show_tool_steps(drain(fold.tools.steps.changed))
        for identity in drain(fold.changed):
            if fold.steps_by_id or self._settled_step_ids:
                showing = fold.tools.steps_showing(identity)
                fold.changed_steps.update((step, None) for step in showing if isinstance(step, str))
            call = fold.calls.get(identity)
            if call is None:
                self._change_settled(identity)
                continue
            if not is_last and call.ending is None and call.streams and identity in self._open_interactions:
                fold.changed[identity] = None
                continue
            one = fold.interaction(call)
            if one is None or (one.api is None and fold.duplicates.has(one)):
                self._hide(identity)
            elif identity not in self._carry_over.hidden:  # a hidden one is read, but not shown
                self._show(identity, one, call)
            yield_to_others()
        if fold.changed_steps:
            self._show_recorded_steps(drain(fold.changed_steps))
        if self._carry_over.draft_count <= MAX_DRAFTS:
            self._settle()
        fold.duplicates.forget_oldest()

    def _hide(self, identity: str) -> None:
        """Leave out an unreadable or duplicate interaction.

        Raises StaleDraftError if it was shown already, or if others may have been read as deltas to it.
        """
        is_late = identity in self._fold.duplicates.found and identity not in self._carry_over.hidden
        if identity in self._open_interactions or is_late:
            self._start_without(identity)
        self._fold.forget(identity, None)

    def _change_settled(self, identity: str) -> None:
        """Handle a change of a settled interaction: start over, without it if it is a duplicate."""
        fold = self._fold
        if identity in self._carry_over.hidden:
            return
        if identity in fold.duplicates.found:
            self._start_without(identity)
        if identity not in self._carry_over.unsettled:  # what was settled too early is reopened all at once
            self._carry_over.unsettled |= fold.tools.unanswered() - {identity}
        self._carry_over.reopen(identity)

    def _reopen_too_early(self, identity: str) -> None:
        """Where an interaction goes on that was settled before its end, reopen the others of this kind with it.

        Many calls at once would else take a draft each.
        """
        if identity in self._settled_in_flight and identity not in self._carry_over.unsettled:
            self._carry_over.unsettled |= self._settled_in_flight - {identity}

    def _start_without(self, identity: str) -> None:
        """Start over with a draft that leaves out one interaction."""
        self._carry_over.hidden.add(identity)
        raise StaleDraftError(identity)

    def _show(self, identity: str, one: LLMInteraction, call: CallRecords) -> None:
        shown = self._open_interactions.get(identity)
        if shown is None:
            shown = self._open_interactions[identity] = OpenInteraction(call, ElementText())
            self._interactions.elements.append(shown.element)
            self._first = self._first or one
            if not self._fold.tools.has_recorded_steps and is_step(one):
                shown.step = self._steps.begin(call.first_seq, derived=True)
        shown.one = one
        self._size -= shown.element.size
        self._render(shown, one)
        self._size += shown.element.size
        if self._size > self._limit:
            self._switch_to_deltas()
        shown.figures = self._call_figures.exchange(shown.figures, interaction_counts(one))
        shown.gaps = unreadable_gaps([one])
        if shown.step is not None:
            self._steps.show(shown.step, self._fold.derived_step(shown.step.number, one), response=shown.response)

    def _render(self, shown: OpenInteraction, one: LLMInteraction) -> None:
        rendered = self._texts.interaction(one, shown.call.incremental)
        shown.response = rendered.response
        shown.element.set(rendered.parts, rendered.own_bytes, rendered.delta_edits)

    def _switch_to_deltas(self) -> None:
        """Write from now on only the messages that each request adds, and shorten what is there already."""
        self._texts.switch_to_deltas()
        self._fold.render_only_new()
        self.history, self._limit = "delta", math.inf
        self._interactions.shorten()
        for shown in self._open_interactions.values():
            if shown.one is not None:
                self._render(shown, shown.one)
        self._steps.switch_to_deltas()

    def _settle(self) -> None:
        """Settle what is complete, except the newest; if too many interactions wait, also the oldest of these."""
        if self._open_steps:
            self._settle_steps()
        open_ones = len(self._open_interactions)
        for identity, shown in list(self._open_interactions.items())[: -self._limits.min_open]:
            if self._open_step_of and not self._open_step_of.keys().isdisjoint(
                self._fold.tools.steps_showing(identity)
            ):
                continue
            is_done = open_ones > self._limits.max_waiting or not self._is_waiting(shown)
            if is_done and not self._must_stay_open(identity, shown.step):
                shown.element.settled = True
                if shown.call.ending is None and not shown.call.is_manual:
                    self._settled_in_flight.add(identity)
                if shown.step is not None:
                    self._steps.settle(shown.step)
                self._gaps += shown.gaps
                self._fold.forget(identity, shown.one)
                del self._open_interactions[identity]
                open_ones -= 1

    def _is_waiting(self, shown: OpenInteraction) -> bool:
        """Whether more is expected of an interaction: its end, another attempt, or the results of its tools."""
        one = shown.one
        if one is None or one.error is not None or (shown.call.ending is None and not shown.call.is_manual):
            return True
        if one.response.finish_reason is None and goes_on(one.response):
            return True
        calls = one.response.tool_calls
        answers = self._fold.tools.answers.get(one.interaction_id, {})
        executions = self._fold.tools.executions.get(one.interaction_id, ())
        is_unanswered = any(call.call_id not in answers for call in calls)
        return is_unanswered or any(execution.result_data is None for execution in executions)

    def _must_stay_open(self, identity: str | None, step: StepText | None) -> bool:
        """Whether an earlier draft settled this interaction or recorded step, or the text of its step, too early."""
        unsettled = self._carry_over.unsettled
        if step is None or identity in unsettled:
            return identity in unsettled
        return (
            step.first_seq > self._carry_over.first_moved
            or (bool(unsettled) and step.name in unsettled)
            or (bool(step.number and self._open_steps) and self._follows_unstable_step(step))
        )

    def _follows_unstable_step(self, step: StepText) -> bool:
        """Whether a derived step comes after a tool step that may still disappear."""
        return any(
            self._may_be_reassigned(one)
            for one in self._open_steps
            if isinstance(one.step, ToolStep) and one.text.first_seq < step.first_seq
        )

    def _may_be_reassigned(self, open_step: OpenStep) -> bool:
        """Whether the tools of a tool step may turn out to belong to an open stream."""
        step = open_step.step
        return isinstance(step, ToolStep) and any(map(self._fold.tools.may_be_reassigned, step.executions.values()))

    # ── recorded steps and tool steps ────────────────────────────────────────────────────────────────────────────

    def _add_recorded_step(self, step: RecordedStep) -> None:
        if not self._carry_over.has_recorded_steps:  # the first recorded step replaces all derived ones
            self._carry_over.has_recorded_steps = True
            if self._fold.tools.steps.has_started:
                raise StaleDraftError("derived steps")  # tools that ran before belong to other steps now
            self._steps = StepTexts(self._carry_over, self._fold, self._texts)
            for shown in self._open_interactions.values():
                shown.step = None
        open_step = OpenStep(step, self._steps.begin(step.first_seq, derived=False))
        self._open_steps.append(open_step)
        if step.identity is None:
            self._show_open_step(open_step)
        else:
            self._open_step_of[step.identity] = open_step

    def _show_open_step(self, open_step: OpenStep) -> None:
        one = open_step.step
        if isinstance(one, ToolStep):
            self._steps.show(open_step.text, one.step(open_step.text.number, self._fold.tools.answers))
        else:
            self._steps.show(open_step.text, self._fold.recorded_step(one), messages=one.messages)

    def _show_recorded_steps(self, identities: Iterable[str]) -> None:
        for identity in identities:
            if identity in self._open_step_of:
                self._show_open_step(self._open_step_of[identity])
            else:
                self._carry_over.reopen(identity)

    def _show_tool_steps(self, steps: Iterable[ToolStep]) -> None:
        for step in steps:
            open_step = self._open_step_of.get(step)
            if open_step is None and step.settled:
                self._carry_over.reopen(step.identity)
            if step.executions:
                if open_step is None:
                    open_step = OpenStep(step, self._steps.begin(step.first_seq, derived=True))
                    self._open_step_of[step] = open_step
                    insort(self._open_steps, open_step, key=lambda one: one.text.first_seq)
                self._show_open_step(open_step)
            elif open_step is not None:
                self._steps.drop(open_step.text)
                self._open_steps.remove(open_step)
                del self._open_step_of[step]

    def _settle_steps(self) -> None:
        """Settle the steps that are complete, except the newest."""
        for open_step in self._open_steps[: -self._limits.min_open]:
            is_done = len(self._open_steps) > self._limits.max_waiting or not self._step_is_waiting(open_step)
            if is_done and not self._must_stay_open(open_step.step.identity, open_step.text):
                self._steps.settle(open_step.text)
                self._open_steps.remove(open_step)
                if isinstance(open_step.step, ToolStep):
                    open_step.step.settled = True
                    del self._open_step_of[open_step.step], self._fold.tools.steps.steps[open_step.step]
                elif open_step.step.identity is not None:
                    self._settled_step_ids.add(open_step.step.identity)
                    del self._open_step_of[open_step.step.identity], self._fold.steps_by_id[open_step.step.identity]

    def _step_is_waiting(self, open_step: OpenStep) -> bool:
        """Whether more is expected of a step. While changes of recorded steps are not shown yet, every step waits."""
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
        """Lay out the document's file; switch to deltas if it would be longer than the limit."""
        gaps = [*self._gaps, *(gap for shown in self._open_interactions.values() for gap in shown.gaps)]
        metrics = self._call_figures.metrics(self._steps.figures, self._fold.run.redactions)
        outline = self._fold.run.outline(self._status, self._first, metrics=metrics, gaps=gaps)
        layout = Layout()
        before = b"{\n" + self._texts.members(outline.head()) + b',\n"llm_interactions": ['
        layout.place(before, self._interactions)
        after = b"],\n" + self._texts.members(outline.tail(self.history)) + b"\n}\n"
        layout.place(b'],\n"agent_steps": [', self._steps.elements, after)
        if layout.size <= self._limit:
            return layout
        self._switch_to_deltas()
        return self.layout()

    def _spill_settled(self) -> None:
        """Move settled texts out of memory if there are too many: a long journal is read before anything is written."""
        arrays = (self._interactions, self._steps.elements)
        if sum(array.unwritten_bytes() for array in arrays) > self._limits.memory_bytes:
            self.spool.spill(arrays)
