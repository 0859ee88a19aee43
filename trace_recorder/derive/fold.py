"""The fold: makes a `Trajectory` from the records of a journal.

The result depends only on the records. Any of the records may be missing.

Every prefix of a journal can be folded. A record that cannot be read affects only the interactions that use it, and has
a gap in the trajectory. The records of one interaction have the same `interaction_id`. Interactions are in the order in
which they began. The readers in `dialects/` interpret the bodies that went over the wire, so a corrected reader also
improves old runs.

`add_all` only keeps the records of requests, responses and tools. `read_pending` reads the kept requests and responses
in their order. `match_tools` then finds the tool calls that tools and tool results belong to. The result is the same
whether records are read one by one or together, unless the fold `is_stale`.

If a fold has a `journal`, which is an open file, it keeps at most `max_kept_bytes` of the records of calls that have
ended. `put_away` drops the other records, and the fold reads them from the file again when it needs them. So the fold
needs little memory, however long the texts are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from itertools import chain, count
from operator import attrgetter
from typing import Any

from trace_recorder.background_work import yield_to_others
from trace_recorder.derive.call_records import ENDINGS, AddedRecord, CallRecords
from trace_recorder.derive.interactions import Duplicates, asks_for_stream, interaction_of, unreadable_gaps
from trace_recorder.derive.put_away_calls import PutAwayCall, PutAwayCalls
from trace_recorder.derive.requests import MAX_READINGS, RequestReader
from trace_recorder.derive.run_facts import RunFacts
from trace_recorder.derive.steps import RecordedStep, ToolStep, agent_key, step_of
from trace_recorder.derive.tool_executions import ToolExecutions
from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.json_access import as_text
from trace_recorder.dialects.manual import read_step
from trace_recorder.guard import try_call
from trace_recorder.storage.items.table import DiskBackedItems, ItemTable, JournalFile
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.checked_types import check_identity
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import ToolResult
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import AgentStep, Status, Trajectory


@dataclass(slots=True)
class Fold:
    """Takes records one after another. `trajectory` makes the trajectory of all records that were added.

    - `run`: the facts of the run itself
    - `table`: the messages of all requests and steps
    - `calls`: the records of each interaction, by its id
    - `tools`: the tool executions, and the tool results in requests
    - `steps`: the steps that the agent recorded
    - `steps_by_id`: the recorded steps that are `with` blocks, by their `step_id`
    - `duplicates`: finds interactions that were recorded by hand and captured too
    - `replayed_ids`: the ids of the interactions that were not made, because a recording gave their answers
    - `unreadable_ids`: the ids of the interactions that cannot be read; the trajectory has a gap for each
    - `is_stale`: whether tools were matched before the agent recorded its first step. Then these tools are in wrong
      steps. Make a new fold, and set its `tools.has_recorded_steps` to True before records are added.
    """

    journal: JournalFile | None = None
    max_kept_bytes: int = 0
    items: ItemTable = field(init=False)
    table: MessageTable = field(init=False)
    run: RunFacts = field(default_factory=RunFacts)
    calls: dict[str, CallRecords | PutAwayCall] = field(default_factory=dict)
    tools: ToolExecutions = field(default_factory=ToolExecutions)
    steps: list[RecordedStep] = field(default_factory=list)
    steps_by_id: dict[str, RecordedStep] = field(default_factory=dict)
    replayed_ids: set[str] = field(default_factory=set)
    unreadable_ids: set[str] = field(default_factory=set)
    duplicates: Duplicates = field(default_factory=Duplicates)
    _request_reader: RequestReader = field(init=False)
    _step_reader: RequestReader = field(init=False)
    _current: Record | None = None
    _pending: list[AddedRecord] = field(default_factory=list)
    _unmatched: list[tuple[Any, ...]] = field(default_factory=list)
    _interactions: dict[str, LLMInteraction] = field(default_factory=dict)
    is_stale: bool = False
    _has_matched: bool = False
    _away: PutAwayCalls = field(init=False)

    def __post_init__(self) -> None:
        self.items = ItemTable() if self.journal is None else DiskBackedItems(self.journal)
        self._away = PutAwayCalls(self.items, self.max_kept_bytes)
        self.table = MessageTable(puts_away=self.journal is not None)
        limit = math.inf if self.journal is None else MAX_READINGS
        self._request_reader = RequestReader(self.items, self.table, max_readings=limit)
        self._step_reader = RequestReader(self.items, self.table, readings=self._request_reader.readings)

    # ── adding records ───────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record | BadLine) -> None:
        """Add one record."""
        self.add_all([record])

    def add_all(self, records: Iterable[Record | BadLine]) -> None:
        """Add records one after another. A record of an unknown kind is skipped, because a later version wrote it."""
        remaining = iter(records)
        while not try_call(self._add_usable, self._skip_unusable, remaining):
            continue

    def _add_usable(self, records: Iterator[Record | BadLine]) -> bool:
        """Add records. Return True after the last record. Raises an exception if a record cannot be used."""
        run = self.run
        for record in records:
            if isinstance(record, BadLine):
                run.add_bad_line(record)
                continue
            self._current = record
            run.records += 1
            if record.seq == run.last_seq + 1 and not run.damaged_since and "redacted" not in record.data:
                run.last_seq += 1
            else:
                run.count(record)
            if record.kind == "item":  # the most frequent kind
                self.items.add_record(record)
            elif (handle := _HANDLERS.get(record.kind)) is not None:
                handle(self, record)
            self._current = None
        return True

    def _skip_unusable(self, error: Exception) -> bool:
        """Add a gap for the current record.

        If there is no current record, the iterator of records raised `error`: raise it again.
        """
        record, self._current = self._current, None
        if record is None:
            raise error
        self.run.add_unusable(record, error)
        return False

    def _add_to_call(self, record: Record) -> None:
        identity = record.data["interaction_id"]
        call = self.calls.get(identity)
        if call is None:
            check_identity(identity, "interaction_id")
            call = CallRecords(identity, self.items, record.seq, keeps_request=self.journal is None)
            if self.tools.steps.has_started and is_turn(as_text(record.data.get("api"))):
                self.tools.steps.close(agent_key(record.data))
            step = self._step_named_by(record) if "step_id" in record.data else None
            if step is not None and step.identity is not None:
                step.interactions.append(identity)
                self.tools.step_of_interaction[identity] = step.identity
        elif isinstance(call, PutAwayCall):
            call = self._away.continued(call, record)
        call.add(record)
        self.calls[identity] = call
        if "replayed_from" in record.data:
            self.replayed_ids.add(identity)
        self._interactions.pop(identity, None)
        begun = call.first.seq if call.continues is None else call.continues
        self._pending.append(AddedRecord(record, call, begun, call.request_data.get("attempt")))
        if "items" in record.data:
            self.items.add_base(record.seq, record.data["items"])

    def _step_named_by(self, record: Record) -> RecordedStep | None:
        """Return the step that the record's `step_id` names, or None if the record has no `step_id`.

        Begin the step if this is the first record with this `step_id`.
        """
        identity = record.data.get("step_id")
        if identity is None:
            return None
        if identity not in self.steps_by_id:
            self.steps_by_id[identity] = RecordedStep.begin(record)
            self._begin_step(record, self.steps_by_id[identity])
        return self.steps_by_id[identity]

    def _begin_step(self, record: Record, step: RecordedStep) -> None:
        self.steps.append(step)
        self.is_stale = self.is_stale or (self._has_matched and not self.tools.has_recorded_steps)
        self.tools.has_recorded_steps = True
        self.tools.steps.close(agent_key(record.data))

    def _add_step(self, record: Record) -> None:
        self.items.add_base(record.seq, record.data["items"])
        step_values = read_step(self._step_reader.messages_of_step(record.data), record.data, record.time)
        step = self._step_named_by(record)
        if step is None:
            self._begin_step(record, RecordedStep(step_values, record.seq))
            self._pending.append(AddedRecord(record))
        else:
            step.update(step_values)

    def _add_tool(self, record: Record) -> None:
        self.tools.start(record, self._step_named_by(record))
        self._pending.append(AddedRecord(record))

    # ── reading what was added ───────────────────────────────────────────────────────────────────────────────────

    def read_pending(self) -> None:
        """Read the requests and responses that were not read yet, in the order of their records."""
        pending, self._pending = self._pending, []
        for added in pending:
            record, call = added.record, added.call
            if call is None:
                match = self._match_tool if record.kind != "agent_step" else self._claim_calls
                self._unmatched.append((record, match, record))
                continue
            if "items" in record.data:
                self._read_request(call, record)
            if call.is_manual or record.kind in ENDINGS:
                self._read_response(call, added)
                yield_to_others()
            if self.journal is not None:
                self._away.newly_read[call.interaction_id] = call

    def match_tools(self) -> None:
        """Match the tools and tool results that were not matched yet. Only steps and their metrics need this."""
        unmatched, self._unmatched = iter(self._unmatched), []
        self._has_matched = self._has_matched or self.tools.steps.has_started
        while not try_call(self._match_usable, self._skip_unusable, unmatched):
            continue

    def _match_usable(self, unmatched: Iterator[tuple[Any, ...]]) -> bool:
        """Match tools and results. Return True at the end. Raises an exception if a record cannot be used."""
        for self._current, match, *arguments in unmatched:
            match(*arguments)
        self._current = None
        return True

    def _read_request(self, latest: CallRecords, record: Record) -> None:
        """Read the new messages of a request. `match_tools` later matches the tool results in the request."""
        call = latest if latest.request_data is record.data else latest.attempt_at(record)
        data = call.request_data
        call.incremental = try_call(self._request_reader.read, _ignore, call.dialect, data)
        if call.incremental is not None:
            results: Sequence[ToolResult] = call.incremental.results
        else:
            results = try_call(lambda: call.new_tool_results, lambda _: [])
        if results or "parent_execution_id" in data or asks_for_stream(data, data.get("body")):
            self._unmatched.append((record, self.tools.read_request, call.interaction_id, data, results))

    def _read_response(self, latest: CallRecords, added: AddedRecord) -> None:
        """Read a response, and find out whether it was recorded twice. `match_tools` later uses its tool calls.

        An attempt that came to its end after the next attempt had begun has no response.
        """
        interaction: LLMInteraction | None = None
        record, identity = added.record, latest.interaction_id
        is_newest = added.newest_attempt in (None, record.data.get("attempt", 0))
        if is_newest and identity not in self.unreadable_ids:
            has_others = record is not latest.newest or len(latest.requests) > 1
            interaction = self._make_interaction(latest.attempt_at(record) if has_others else latest)
        if interaction is not None and (
            not interaction.answered or (interaction.api is None and self.duplicates.has(interaction))
        ):
            interaction = None
        duplicates = self.duplicates.add(interaction) if interaction is not None and interaction.response.id else {}
        arguments = identity, interaction, latest.first_seq, added.begun, duplicates
        self._unmatched.append((record, self.tools.read_response, *arguments))

    def _match_tool(self, record: Record) -> None:
        self.tools.read_record(record, self._step_named_by(record))

    def _claim_calls(self, record: Record) -> None:
        """Read the tool calls in the record of a step without a `with` block."""
        self.tools.claim(read_step(None, record.data, record.time).tool_calls)

    # ── interactions ─────────────────────────────────────────────────────────────────────────────────────────────

    def put_away(self) -> None:
        """Drop the records of calls that have ended, beyond the first `max_kept_bytes` of them.

        Call `read_pending` and `match_tools` before this method.
        """
        for identity in self._away.put_away(self.calls):
            self._interactions.pop(identity, None)

    def interactions(self) -> Iterator[LLMInteraction]:
        """Yield the interactions in the order in which they began, without duplicates. Each is made on demand."""
        return filter(None, map(self._shown_interaction, [*self.calls.values()]))

    def first_made(self) -> LLMInteraction | None:
        """Return the first interaction that was made. If a recording gave all answers, return the first interaction."""
        made = (call for identity, call in self.calls.items() if identity not in self.replayed_ids)
        return next(filter(None, map(self._shown_interaction, chain(made, self.calls.values()))), None)

    def _shown_interaction(self, call: CallRecords | PutAwayCall) -> LLMInteraction | None:
        """Return an interaction, or None if it cannot be read, or was recorded by hand and captured too."""
        shown = self._interactions.get(call.interaction_id) or self.interaction(call)
        return shown if shown is not None and (shown.api is not None or not self.duplicates.has(shown)) else None

    def interaction(self, call: CallRecords | PutAwayCall) -> LLMInteraction | None:
        """Make an interaction once from its records. If the records cannot be read, add a gap and return None."""
        identity = call.interaction_id
        interaction = self._interactions.get(identity)
        if identity in self.unreadable_ids or (interaction is not None and interaction.source is call):
            return interaction
        return self._make_interaction(self._away.whole(call))

    def _make_interaction(self, call: CallRecords) -> LLMInteraction | None:
        identity = call.interaction_id
        interaction = try_call(interaction_of, partial(self._note_unreadable, call), call)
        if interaction is not None and self.calls.get(identity) is call and call.continues is None:
            self._interactions[identity] = interaction
        return interaction

    def _note_unreadable(self, call: CallRecords, error: Exception) -> None:
        self.unreadable_ids.add(call.interaction_id)
        self.match_tools()
        self.tools.detach(call.interaction_id)
        self.run.add_unusable(call.first, error)

    # ── the trajectory ───────────────────────────────────────────────────────────────────────────────────────────

    def trajectory(self, status: Status) -> Trajectory:
        """Return the trajectory of all records so far. `status` is used if the journal has no finalize record."""
        return replace(self.run.outline(status, None), **self.interaction_fields(), **self.step_fields())

    def interaction_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that depend on its interactions, but not on `match_tools`."""
        self.read_pending()
        interactions = [*self.interactions()]
        outline = self.run.outline("unknown", self.first_made())
        return {"llm_interactions": interactions, "provider": outline.provider, "model": outline.model}

    def step_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that depend on its steps, or on all of its records."""
        self.read_pending()
        self.match_tools()
        interactions = [*self.interactions()]
        steps = [step for _, step in self.interactions_and_steps() if step is not None]
        return {
            "agent_steps": steps,
            "metrics": metrics_of(interactions, steps, self.run.redactions),
            "gaps": (*self.run.all_gaps(), *unreadable_gaps(interactions)),
        }

    def interactions_and_steps(self) -> Iterator[tuple[LLMInteraction | None, AgentStep | None]]:
        """Yield pairs of an interaction and a step in the order in which they began. One member or both may be None.

        If the agent recorded no steps, each interaction other than an embedding has a step, and both are yielded as one
        pair. So the records of each interaction are read once for both. Tools that ran outside of all steps have steps
        of their own.
        """
        for call in self.calls.values():
            if (
                isinstance(call, CallRecords) and call.ending is None
            ):  # if an open call cannot be read, its tools must be in `tools.steps` before the steps are listed
                self._shown_interaction(call)
        recorded: list[RecordedStep | ToolStep] = [*self.steps, *self.tools.steps.steps]
        place, numbers = attrgetter("first_seq"), count(1)
        for begun in merge(sorted(recorded, key=place), [*self.calls.values()], key=place):
            interaction = step = None
            if isinstance(begun, RecordedStep):
                step = self.make_recorded_step(begun)
            elif isinstance(begun, ToolStep):
                step = begun.step(next(numbers), self.tools.answers)
            else:
                interaction = self._shown_interaction(begun)
                if interaction is not None and not self.steps and is_turn(interaction.api):
                    identity = begun.interaction_id
                    answers, executions = self.tools.answers.get(identity, {}), self.tools.executions.get(identity, ())
                    step = step_of(next(numbers), interaction, answers, executions)
            is_numbered_by_us = step is not None and step.derived and self.tools.has_recorded_steps
            # A summary belongs to the step with the number that the agent gave, and not to a step that we numbered.
            if self.run.summaries and step is not None and not is_numbered_by_us:
                step = self.run.with_summary(step)
            yield interaction, step

    def make_recorded_step(self, step: RecordedStep) -> AgentStep:
        """Make a step that the agent recorded, with the interactions and tools of its block."""
        calls = [self.calls[identity] for identity in step.interactions if identity in self.calls]
        shown = [*filter(None, map(self._shown_interaction, calls))]
        attached = chain.from_iterable(self.tools.executions.get(call.interaction_id, ()) for call in shown)
        return step.step(shown, self.tools.answers, [tool for tool in attached if tool.requested_by])


def _ignore(_: Exception) -> None:
    """Return None. If a record that the request needs is missing, `CallRecords.has_request` then returns False."""


_HANDLERS: Mapping[str, Callable[[Fold, Record], object]] = {
    "start": lambda fold, record: fold.run.add_start(record),
    "llm_request": Fold._add_to_call,
    "llm_stream": Fold._add_to_call,
    "llm_response": Fold._add_to_call,
    "llm_error": Fold._add_to_call,
    "llm_interaction": Fold._add_to_call,
    "step_start": Fold._step_named_by,
    "agent_step": Fold._add_step,
    "tool_call": Fold._add_tool,
    "tool_result": Fold._add_tool,
    "annotation": lambda fold, record: fold.run.add_annotation(record),
    "redaction": lambda fold, record: fold.run.apply_redaction(record),
    "reward": lambda fold, record: fold.run.add_reward(record),
    "gap": lambda fold, record: fold.run.add_gap(record),
    "finalize": lambda fold, record: fold.run.add_end(record),
}
