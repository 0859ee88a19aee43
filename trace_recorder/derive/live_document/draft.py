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

from trace_recorder.derive.fold import DOUBLES, Fold, keep_newest, unreadable
from trace_recorder.derive.interactions import Call
from trace_recorder.derive.live_document import renderer as texts
from trace_recorder.derive.live_document.buffer import Layout, Piece, Pieces
from trace_recorder.derive.live_document.renderer import Spelled, Texts
from trace_recorder.derive.live_document.steps import StaleDraftError, StepText, StepTexts, Told
from trace_recorder.derive.steps import is_step
from trace_recorder.derive.tool_matching import MarkedStep, ToolStep
from trace_recorder.storage import journal_reader
from trace_recorder.storage.items.disk_backed import DiskBackedItems, JournalFile
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.metrics import Counts, Tally, interaction_counts
from trace_recorder.values.trajectory import Gap, History, Status

Key = TypeVar("Key")

NEWEST = 8
"""So many interactions, and as many steps, are not settled yet, whatever their state."""
WAITING = 256
"""So many may wait for their end, another attempt, or their tools; the oldest beyond are settled as they are."""
DRAFTS = 32
"""After so many drafts of one journal nothing is settled any more: this run is not like others."""
BLOCK = 128 * 1024
"""The journal is read in parts of so many bytes."""
IN_MEMORY = 4 * BLOCK
"""Of so many bytes settled texts that were not written yet are kept in memory; more go into a file without a name."""


@dataclass(slots=True)
class _Shown:
    """An interaction that is not settled: its piece, the step that derives from it, and what it adds.

    `response` is the text that it has in both.
    """

    call: Call
    piece: Piece
    step: StepText | None = None
    one: LLMInteraction | None = None
    response: bytes | None = None
    figures: Counts = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


@dataclass(slots=True)
class _Given:
    """A step that the agent recorded, or of tools that ran outside of these, and that is not settled."""

    mark: MarkedStep | ToolStep
    text: StepText


class Draft:
    """The document of one journal, as far as `read_on` has read it.

    `history` is how it is written; beyond `limit` bytes, with deltas. `status` is that of a run without an end on file.
    """

    def __init__(
        self, path: Path, history: History, told: Told, limit: float = math.inf, status: Status = "running"
    ) -> None:
        self._path = path
        self._spool: IO[bytes] | None = None
        self._file = JournalFile(path)
        self._read = 0
        self._long = 0
        self.history = history
        self._texts = Texts(history, may_shorten=limit < math.inf)
        self._told = told
        told.drafts += 1
        self._limit = limit
        self._status = status
        self._fold = Fold(DiskBackedItems(self._file), texts.message)
        self._fold.executions.has_marks = told.marks
        self._interactions = Pieces()
        self._steps = StepTexts(told, self._fold.summarised)
        self._shown: dict[str, _Shown] = {}
        self._given: list[_Given] = []
        self._marks: dict[object, _Given] = {}
        self._marks_settled: set[str] = set()
        self._first: LLMInteraction | None = None
        self._gaps: list[Gap] = []
        self._of_calls = Tally()

    def is_in_place(self) -> bool:
        """Whether the file that is read still has the journal's name: a removed one is made again."""
        return self._file.is_in_place()

    def _close_spool(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()

    __del__ = _close_spool

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read_on(self, breathe: Callable[[], None]) -> None:
        """Take the whole records that have been written since, with a breath between any two of them.

        Raises StaleDraftError.
        """
        size = BLOCK
        while data := self._file.read(size, self._read):
            whole = data.rfind(b"\n") + 1
            for record in journal_reader.read(data[:whole], base=self._read):
                self._take(record)
                breathe()
            self._read += whole
            self._long = len(self._interactions)
            self._bring_up(breathe)
            if len(data) < size:
                break
            size = BLOCK if whole else size * 2

    def _take(self, record: Record | BadLine) -> None:
        if isinstance(record, Record):
            identity = record.data.get("interaction_id")
            if identity is not None and identity not in self._fold.calls and _goes_on(record):
                self._told.leave_open(identity)
            if record.data.get("step_id") in self._marks_settled:
                self._told.leave_open(record.data["step_id"])
        self._fold.add(record)
        if isinstance(record, Record) and "lakeview_step" in record.data:
            self._steps.summarise(record.data["lakeview_step"])
        for mark in self._fold.steps:
            self._give(mark)
        self._fold.steps.clear()

    # ── interactions, and the steps that are derived from them ───────────────────────────────────────────────────

    def _bring_up(self, breathe: Callable[[], None]) -> None:
        """Show what has changed, and settle what will not change any more."""
        fold = self._fold
        fold.bring_up(breathe)
        for step in _taken(fold.executions.steps.changed):
            self._show_tools(step)
        for identity in _taken(fold.changed):
            fold.changed_marks.update((step, None) for step in fold.shown_by(identity) if isinstance(step, str))
            call = fold.calls.get(identity)
            if call is None:
                self._change_settled(identity)
                continue
            one = fold.interaction(call)
            if one is None or fold.is_double(one):
                self._hide(identity)
            elif identity not in self._told.hidden:  # else it is read as if it were shown, until it turns out
                self._show(identity, one, call)
            breathe()
        for identity in _taken(fold.changed_marks):
            self._show_mark(identity)
        self._settle_steps()
        self._settle()
        keep_newest(fold.captured, DOUBLES)
        keep_newest(fold.handed_over, DOUBLES)
        keep_newest(fold.doubles, DOUBLES)
        self._spill()

    def _hide(self, identity: str) -> None:
        if identity in self._shown:
            self._start_without(identity)
        self._fold.forget(identity, None)

    def _change_settled(self, identity: str) -> None:
        """Start over for an interaction that was settled; one that turns out to be there twice is left out."""
        fold = self._fold
        if identity in self._told.hidden:
            return
        if identity in fold.doubles:
            self._start_without(identity)
        self._told.leave_open(identity)

    def _start_without(self, identity: str) -> None:
        self._told.hidden.add(identity)
        raise StaleDraftError(identity)

    def _show(self, identity: str, one: LLMInteraction, call: Call) -> None:
        shown = self._shown.get(identity)
        if shown is None:
            shown = self._shown[identity] = _Shown(call, self._interactions.add())
            self._first = self._first or one
            if not self._fold.executions.has_marks and is_step(one):
                shown.step = self._steps.begin(call.since, derived=True)
        shown.one = one
        self._long -= len(shown.piece)
        self._spell(shown, one)
        self._long += len(shown.piece)
        if self._long > self._limit:
            self._turn_to_deltas()
        shown.figures = self._of_calls.exchange(shown.figures, interaction_counts(one))
        shown.gaps = unreadable([one])
        self._show_step(shown)

    def _spell(self, shown: _Shown, one: LLMInteraction) -> None:
        spelled = self._texts.interaction(one, shown.call.known)
        shown.response = spelled.response
        _put(shown.piece, spelled)

    def _turn_to_deltas(self) -> None:
        """Write only what each request adds, from now on and in what is there."""
        self.history, self._texts, self._limit = "delta", Texts("delta"), math.inf
        self._interactions.shorten()
        for shown in self._shown.values():
            if shown.one is not None:
                self._spell(shown, shown.one)
        self._long = len(self._interactions)

    def _show_step(self, shown: _Shown) -> None:
        if shown.step is not None and shown.one is not None:
            self._steps.show(shown.step, self._fold.derived(shown.step.number, shown.one), shown.response)

    def _settle(self) -> None:
        """Settle what is finished, but for the newest, and the oldest of those that wait where these are too many."""
        open_ones = len(self._shown)
        for identity, shown in list(self._shown.items())[:-NEWEST] if self._settles() else ():
            if not self._marks.keys().isdisjoint(self._fold.shown_by(identity)):
                continue
            if (open_ones > WAITING or not self._waits(shown)) and not self._is_told(identity, shown.step):
                shown.piece.settled = True
                if shown.step is not None:
                    self._steps.settle(shown.step)
                self._gaps += shown.gaps
                self._fold.forget(identity, shown.one)
                del self._shown[identity]
                open_ones -= 1

    def _waits(self, shown: _Shown) -> bool:
        one = shown.one
        if one is None or one.error is not None or (shown.call.ending is None and not shown.call.by_hand):
            return True
        calls = one.response.tool_calls
        answers = self._fold.executions.answers.get(one.interaction_id, {})
        uses = self._fold.executions.uses.get(one.interaction_id, ())
        return any(call.call_id not in answers for call in calls) or any(use.ended is None for use in uses)

    def _is_told(self, identity: str, step: StepText | None) -> bool:
        if identity in self._told.unsettled:
            return True
        return step is not None and (self._steps.is_told(step) or self._is_behind_moving(step))

    def _is_behind_moving(self, step: StepText) -> bool:
        """Whether a derived step stands behind one that may still turn out to be none, or has once."""
        others = [one for one in self._given if isinstance(one.mark, ToolStep) and one.text.since < step.since]
        return step.since > self._told.moved or any(map(self._may_move, others))

    def _may_move(self, given: _Given) -> bool:
        step = given.mark
        return isinstance(step, ToolStep) and any(map(self._fold.executions.may_move, step.uses.values()))

    def _settles(self) -> bool:
        return self._told.drafts <= DRAFTS

    # ── steps that the agent recorded, and those of tools outside of them ────────────────────────────────────────

    def _give(self, mark: MarkedStep) -> None:
        if not self._told.marks:  # the first step that the agent recorded takes the place of all that were derived
            self._told.marks = True
            if self._fold.executions.steps.has_begun:
                raise StaleDraftError("derived steps")  # what ran outside is not of them any more
            self._steps = StepTexts(self._told, self._fold.summarised)
            for shown in self._shown.values():
                shown.step = None
        given = _Given(mark, self._steps.begin(mark.since, derived=False))
        self._given.append(given)
        if mark.identity is None:
            self._show_given(given)
        else:
            self._marks[mark.identity] = given

    def _show_given(self, given: _Given) -> None:
        if isinstance(given.mark, ToolStep):
            step = given.mark.step(given.text.number, self._fold.executions.answers)
        else:
            step = self._fold.step(given.mark)
        self._steps.show(given.text, step)

    def _show_mark(self, identity: str) -> None:
        if identity in self._marks:
            self._show_given(self._marks[identity])
        else:
            self._told.leave_open(identity)

    def _show_tools(self, step: ToolStep) -> None:
        given = self._marks.get(step)
        if given is None and step.settled:
            self._told.leave_open(step.identity)
        if step.uses:
            if given is None:
                given = self._marks[step] = _Given(step, self._steps.begin(step.since, derived=True))
                insort(self._given, given, key=lambda one: one.text.since)
            self._show_given(given)
        elif given is not None:
            self._steps.drop(given.text)
            self._given.remove(given)
            del self._marks[step]

    def _settle_steps(self) -> None:
        """Settle the steps that are finished, but for the newest."""
        for given in self._given[:-NEWEST] if self._settles() else ():
            if (len(self._given) > WAITING or not self._step_waits(given)) and not self._is_given_told(given):
                self._steps.settle(given.text)
                self._given.remove(given)
                if isinstance(given.mark, ToolStep):
                    given.mark.settled = True
                    del self._marks[given.mark], self._fold.executions.steps.steps[given.mark]
                elif given.mark.identity is not None:
                    self._marks_settled.add(given.mark.identity)
                    del self._marks[given.mark.identity], self._fold.marked[given.mark.identity]

    def _is_given_told(self, given: _Given) -> bool:
        if given.mark.identity in self._told.unsettled or self._steps.is_told(given.text):
            return True
        return given.text.since > self._told.moved or (bool(given.text.number) and self._is_behind_moving(given.text))

    def _step_waits(self, given: _Given) -> bool:
        """Whether more may come of it; while records are taken, nobody knows of what is inside a block."""
        if given.mark.identity is None:
            return False
        if self._fold.changed_marks or given.mark.waits():
            return True
        if self._may_move(given):
            return True
        return any(identity in self._shown and self._waits(self._shown[identity]) for identity in given.mark.needs())

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def layout(self) -> Layout:
        """What the document's file is to hold."""
        gaps = (*self._fold.all_gaps(), *self._gaps, *(gap for shown in self._shown.values() for gap in shown.gaps))
        metrics = self._of_calls.metrics(self._steps.figures, self._fold.masked)
        outline = replace(self._fold.outline(self._status, self._first), metrics=metrics, gaps=gaps)
        layout = Layout()
        layout.put(b"{\n" + texts.members(outline.head()) + b',\n"llm_interactions": [')
        self._interactions.lay_out(layout)
        layout.put(b'],\n"agent_steps": [')
        self._steps.pieces.lay_out(layout)
        layout.put(b"],\n" + texts.members(outline.tail(self.history)) + b"\n}\n")
        if layout.size <= self._limit:
            return layout
        self._turn_to_deltas()
        return self.layout()

    def written(self) -> None:
        """Hear that every piece has its span in the file that was written."""
        self._interactions.merge()
        self._steps.pieces.merge()
        self._close_spool()

    def _spill(self) -> None:
        """Put settled texts aside where they are too many: reading a long journal anew, none is written yet."""
        if self._interactions.fresh() + self._steps.pieces.fresh() <= IN_MEMORY:
            return
        if self._spool is None:
            self._spool = tempfile.TemporaryFile(dir=self._path.parent)  # noqa: SIM115 - it lives until it was copied
        for pieces in (self._interactions, self._steps.pieces):
            pieces.put_aside(self._spool.fileno())


def _goes_on(record: Record) -> bool:
    """Whether a record goes on with an interaction that began before."""
    return record.kind != "llm_interaction" and (record.kind != "llm_request" or record.data.get("attempt", 0) != 0)


def _taken(changed: dict[Key, None]) -> list[Key]:
    """What has changed, which is nothing any more."""
    keys = [*changed]
    changed.clear()
    return keys


def _put(piece: Piece, spelled: Spelled) -> None:
    piece.set(spelled.parts, spelled.own, spelled.cuts)
