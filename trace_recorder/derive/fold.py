"""The fold: the records of a journal → a `Trajectory`. A pure function of the records, whatever is missing of them.

Every prefix of a journal folds. A record that cannot be read costs only the interactions that use it, and `gaps` says
so. Records of one interaction are joined by `interaction_id`; interactions are in the order in which they began. What
went over the wire is interpreted by the readers in `dialects/`, so a corrected reader also improves old runs.

`add_all` only files records; `read_pending` reads what was added since, in the order of the records, and `match_tools`
finds the calls of the tools in what was read. It makes no difference whether records are read one by one or together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any, TypeVar

from trace_recorder.background_work import yield_to_others
from trace_recorder.derive.call_records import ENDINGS, CallRecords
from trace_recorder.derive.interactions import Duplicates, asks_for_stream, interaction_of
from trace_recorder.derive.message_prefix import Render
from trace_recorder.derive.requests import MAX_PREFIXES, RequestReader
from trace_recorder.derive.run_facts import RunFacts
from trace_recorder.derive.step_messages import StepReader
from trace_recorder.derive.tool_executions import ToolExecutions
from trace_recorder.derive.tool_matching import RecordedStep, ToolStep, agent_key, is_step, step_of
from trace_recorder.dialects.dialect import is_embedding
from trace_recorder.dialects.manual import read_step
from trace_recorder.guard import try_call
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import ToolResult
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import AgentStep, Gap, Status, Trajectory

Value = TypeVar("Value")


@dataclass(slots=True)
class Fold:
    """Takes records one after another; `trajectory()` returns what they say so far.

    - `render`: writes a message of a request as JSON; then only these texts are kept, and not the messages
    - `run`: the facts of the run itself
    - `calls`: the records of each interaction, by its id
    - `tools`: the tool executions, and the tool results that later requests carry
    - `steps`: the steps that the agent recorded; `steps_by_id`: those of them that are blocks with a `step_id`
    - `duplicates`: which interactions were recorded by hand and captured too
    - `unreadable_ids`: the ids of interactions that cannot be read; each has a gap
    - `max_prefixes`: how many conversations are remembered for reading requests
    - `changed`, `changed_steps`: the ids of the interactions and steps that changed since these were last cleared
    - `hidden`: the ids of interactions that the document leaves out, so that no other can be a delta to them
    """

    items: ItemTable = field(default_factory=ItemTable)
    render: Render | None = None
    run: RunFacts = field(default_factory=RunFacts)
    calls: dict[str, CallRecords] = field(default_factory=dict)
    tools: ToolExecutions = field(default_factory=ToolExecutions)
    steps: list[RecordedStep] = field(default_factory=list)
    steps_by_id: dict[str, RecordedStep] = field(default_factory=dict)
    unreadable_ids: set[str] = field(default_factory=set)
    duplicates: Duplicates = field(default_factory=Duplicates)
    max_prefixes: int = MAX_PREFIXES
    hidden: Collection[str] = ()
    changed: dict[str, None] = field(init=False)
    changed_steps: dict[str, None] = field(init=False)
    _request_reader: RequestReader = field(init=False)
    _step_reader: StepReader = field(init=False)
    _adding: Record | None = None
    _pending: list[tuple[CallRecords | None, Record]] = field(default_factory=list)
    _unmatched: list[tuple[Any, ...]] = field(default_factory=list)
    _interactions: dict[str, LLMInteraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed, self.changed_steps = self.tools.changed, self.tools.changed_steps
        keep = self.render or MessageTable()
        self._request_reader = RequestReader(self.items, keep, max_prefixes=self.max_prefixes)
        self._step_reader = StepReader(self.items, keep, self._request_reader.readings)

    # ── adding records ───────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record | BadLine) -> None:
        """Add one record."""
        self.add_all([record])

    def add_all(self, records: Iterable[Record | BadLine]) -> None:
        """Add records one after another. A record of an unknown kind is skipped: a later version wrote it."""
        remaining = iter(records)
        while not try_call(self._add_usable, self._skip_unusable, remaining):
            continue

    def _add_usable(self, records: Iterator[Record | BadLine]) -> bool:
        """Add records, up to one that cannot be used, which raises; return True after the last one."""
        run = self.run
        for record in records:
            if isinstance(record, BadLine):
                run.add_bad_line(record)
                continue
            self._adding = record
            run.records += 1
            if record.seq == run.last_seq + 1 and not run.damaged_since and "redacted" not in record.data:
                run.last_seq += 1
            else:
                run.count(record)
            if record.kind == "item":  # the most frequent kind
                self.items.add_record(record)
            elif (handle := _HANDLERS.get(record.kind)) is not None:
                handle(self, record)
            self._adding = None
        return True

    def _skip_unusable(self, error: Exception) -> bool:
        """Add a gap for the record that is being added. Raise the error if it came from the source of the records."""
        record, self._adding = self._adding, None
        if record is None:
            raise error
        self.run.add_unusable(record, error)
        return False

    def _add_to_call(self, record: Record) -> None:
        identity = record.data["interaction_id"]
        call = self.calls.get(identity)
        if call is None:
            call = CallRecords(identity, self.items, record.seq, keeps_request=self.render is None)
            self.calls[identity] = call
            if self.tools.steps.has_started and not is_embedding(record.data.get("api")):
                self.tools.steps.close(agent_key(record.data))
            step = self._recorded_step(record) if "step_id" in record.data else None
            if step is not None and step.identity is not None:
                step.interactions.append(identity)
                self.tools.step_of_interaction[identity] = step.identity
        call.add(record)
        self._interactions.pop(identity, None)
        self.changed[identity] = None
        self._pending.append((call, record))
        if "items" in record.data:
            self.items.add_base(record.seq, record.data["items"])

    def _recorded_step(self, record: Record) -> RecordedStep | None:
        """Return the step that a record names by its `step_id`. The first record that names it begins the step."""
        identity = record.data.get("step_id")
        if identity is None:
            return None
        if identity not in self.steps_by_id:
            self.steps_by_id[identity] = RecordedStep.begin(record)
            self._begin_step(record, self.steps_by_id[identity])
        self.changed_steps[identity] = None
        return self.steps_by_id[identity]

    def _begin_step(self, record: Record, step: RecordedStep) -> None:
        self.steps.append(step)
        self.tools.has_recorded_steps = True
        self.tools.steps.close(agent_key(record.data))

    def _add_step(self, record: Record) -> None:
        self.items.add_base(record.seq, record.data["items"])
        begun = self.steps_by_id.get(record.data.get("step_id", ""))
        reading, messages = self._step_reader.read(record, begun.first_seq if begun else record.seq)
        stated = read_step(messages, record.data, record.time)
        step = self._recorded_step(record)
        if step is None:
            self._begin_step(record, RecordedStep(stated, record.seq, messages=reading))
            self._pending.append((None, record))
        else:
            step.update(stated)
            self._step_reader.took(step, reading, messages)

    def _add_tool(self, record: Record) -> None:
        self.tools.start(record, self._recorded_step(record))
        self._pending.append((None, record))

    def render_only_new(self) -> None:
        """From now on, only the messages that a request or a step adds are rendered: the document is one of deltas."""
        self._request_reader.needs_all_texts = False
        self._step_reader.render_only_new()

    # ── reading what was added ───────────────────────────────────────────────────────────────────────────────────

    def read_pending(self) -> None:
        """Read the requests and responses that were added since the last call, in the order of their records."""
        pending, self._pending = self._pending, []
        for call, record in pending:
            if call is None:
                match = Fold._match_tool if record.kind != "agent_step" else Fold._claim_calls
                self._unmatched.append((record, match, record))
                continue
            if "items" in record.data:
                self._read_request(call, record)
            if call.is_manual or record.kind in ENDINGS:
                self._read_response(call, record)
            yield_to_others()

    def match_tools(self) -> None:
        """Find the call of each tool, and of each tool result, in what was read since the last call of this method.

        Only steps, their figures and the live document need that.
        """
        unmatched, self._unmatched = self._unmatched, []
        for record, match, *arguments in unmatched:
            try_call(match, partial(self.run.add_unusable, record), self, *arguments)

    def _read_request(self, whole: CallRecords, record: Record) -> None:
        """Read what is new in a request; the tool results that it carries are left to `match_tools`."""
        call = whole if whole.request_data is record.data else whole.as_of(record)
        data = call.request_data
        call.incremental = try_call(self._request_reader.read, _ignore, call.interaction_id, call.dialect, data)
        if call.interaction_id in self.hidden:
            self._request_reader.forget(call.interaction_id)
        if call.incremental is not None:
            results: Sequence[ToolResult] = call.incremental.results
        else:
            results = try_call(lambda: call.new_tool_results, lambda _: [])
        if results or "parent_execution_id" in data or asks_for_stream(data, data.get("body")):
            self._unmatched.append((record, Fold._match_request, call.interaction_id, data, results))

    def _match_request(self, identity: str, data: Mapping[str, Any], results: Sequence[ToolResult]) -> None:
        """Assign the tool results that a request carries to the calls that they answer."""
        self.tools.add_sub_agent(data.get("parent_execution_id"))
        streams = asks_for_stream(data, data.get("body"))
        self.tools.read_request(identity, agent_key(data), results, streams=streams)

    def _read_response(self, whole: CallRecords, record: Record) -> None:
        """Read a response, and whether it was recorded twice; its tool calls are left to `match_tools`."""
        call = whole if whole.newest is record else whole.as_of(record)
        one = self.interaction(call)
        if one is not None and one.api is None and self.duplicates.has(one):
            self._request_reader.forget(one.interaction_id)
            one = None
        answered = one if one is not None and one.answered else None
        duplicates = self.duplicates.add(answered) if answered is not None and answered.response.id else {}
        self.changed.update(duplicates)
        self._unmatched.append((record, Fold._match_response, call, answered, duplicates))

    def _match_response(self, call: CallRecords, one: LLMInteraction | None, duplicates: Iterable[str]) -> None:
        """Read the tool calls of a response, if there is one, and what came while its stream was open.

        What was attached to its `duplicates` may belong to it.
        """
        during = self.tools.end_stream(call.interaction_id)
        if one is None:
            return
        for duplicate in duplicates:
            left = self.tools.detach(duplicate, one.agent_id or one.agent)
            later = {name: tool for name, tool in left.executions.items() if tool.first_seq > call.first_seq}
            during.executions |= later
            during.results += left.results
        self.tools.read_response(one, call.first.seq, during)

    def _match_tool(self, record: Record) -> None:
        self.tools.read_record(record, self._recorded_step(record))

    def _claim_calls(self, record: Record) -> None:
        """Read which tool calls a step without a block names."""
        self.tools.claim(read_step(None, record.data, record.time).tool_calls)

    # ── interactions ─────────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, identity: str, one: LLMInteraction | None) -> None:
        """Drop the records of an interaction that is complete. `one` is its value, if it was read."""
        del self.calls[identity]
        self._interactions.pop(identity, None)
        self.tools.forget(identity, one)

    def interactions(self) -> list[LLMInteraction]:
        """Return the interactions in the order in which they began, without duplicates."""
        made = [self._interactions.get(name) or self.interaction(call) for name, call in self.calls.items()]
        return [one for one in made if one is not None and (one.api is not None or not self.duplicates.has(one))]

    def interaction(self, call: CallRecords) -> LLMInteraction | None:
        """Return the value of an interaction, built once. None, with a gap, if its records cannot be read."""
        identity = call.interaction_id
        made = self._interactions.get(identity)
        if identity in self.unreadable_ids or (made is not None and made.source is call):
            return made
        made = try_call(interaction_of, partial(self._note_unreadable, call), call)
        if made is not None and self.calls.get(identity) is call:  # not one as it was before its newest record
            self._interactions[identity] = made
        return made

    def _note_unreadable(self, call: CallRecords, error: Exception) -> None:
        self.unreadable_ids.add(call.interaction_id)
        self._request_reader.forget(call.interaction_id)
        self.match_tools()
        self.tools.detach(call.interaction_id)
        self.run.add_unusable(call.first, error)

    # ── the trajectory ───────────────────────────────────────────────────────────────────────────────────────────

    def trajectory(self, status: Status) -> Trajectory:
        """Build the trajectory from all records so far; `status` is used if the journal has no end."""
        return replace(self.run.outline(status, None), **self.interaction_fields(), **self.step_fields())

    def interaction_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that need its interactions, but not which tool ran for which call."""
        self.read_pending()
        interactions = self.interactions()
        outline = self.run.outline("unknown", interactions[0] if interactions else None)
        return {"llm_interactions": interactions, "provider": outline.provider, "model": outline.model}

    def step_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that need its steps, or all of its records."""
        self.read_pending()
        interactions = self.interactions()
        self.match_tools()
        steps = [*self._steps(interactions)]
        return {
            "agent_steps": [self.with_summary(step) for step in steps] if self.run.summaries else steps,
            "metrics": metrics_of(interactions, steps, self.run.redactions),
            "gaps": (*self.run.all_gaps(), *unreadable_gaps(interactions)),
        }

    def _steps(self, interactions: Iterable[LLMInteraction]) -> Iterator[AgentStep]:
        """Yield the steps in the order in which they began: those that the agent recorded, or else one for each call.

        Tools that ran outside of these have steps of their own among them.
        """
        found: list[tuple[int, RecordedStep | ToolStep | LLMInteraction]]
        if self.steps:
            found = [(step.first_seq, step) for step in self.steps]
        else:
            found = [(self.calls[one.interaction_id].first_seq, one) for one in interactions if is_step(one)]
        found += [(step.first_seq, step) for step in self.tools.steps.steps]
        numbers = count(1)
        for _, one in sorted(found, key=itemgetter(0)):
            if isinstance(one, RecordedStep):
                yield self.recorded_step(one)
            elif isinstance(one, ToolStep):
                yield one.step(next(numbers), self.tools.answers)
            else:
                yield self.derived_step(next(numbers), one)

    def derived_step(self, number: int, one: LLMInteraction) -> AgentStep:
        """Make the step that is derived from an interaction."""
        identity = one.interaction_id
        return step_of(number, one, self.tools.answers.get(identity, {}), self.tools.executions.get(identity, ()))

    def recorded_step(self, step: RecordedStep) -> AgentStep:
        """Make a step that the agent recorded, with the interactions and tools of its block."""
        calls = [self.calls[identity] for identity in step.interactions if identity in self.calls]
        read = [one for call in calls if (one := self.interaction(call)) is not None]
        made = [one for one in read if one.api is not None or not self.duplicates.has(one)]
        attached = (execution for one in made for execution in self.tools.executions.get(one.interaction_id, ()))
        return step.step(made, self.tools.answers, [one for one in attached if one.requested_by])

    def with_summary(self, step: AgentStep) -> AgentStep:
        """Add to a step the summary that was recorded for its number.

        If the agent numbers its steps itself, a derived step has no summary: the number means another step.
        """
        if step.derived and self.tools.has_recorded_steps:
            return step
        return self.run.with_summary(step)


def _ignore(_: Exception) -> None:
    """Leave a request that cannot be read as it is: `CallRecords.has_request` says so."""


def drain(changed: dict[Value, None]) -> list[Value]:
    """Return the keys of a dict and clear it."""
    keys = [*changed]
    changed.clear()
    return keys


def unreadable_gaps(interactions: Iterable[LLMInteraction]) -> list[Gap]:
    """Return a gap for each request that cannot be put together and each stream that cannot be unpacked."""
    gaps = []
    for one in interactions:
        if not one.source.has_request():
            why = "a record that it needs is damaged or missing"
            gaps.append(Gap(one.timestamp, f"the request of {one.interaction_id}", why))
        if isinstance(one.source, CallRecords) and one.source.is_damaged:
            gaps.append(Gap(one.timestamp, f"the stream of {one.interaction_id}", "it cannot be unpacked"))
    return gaps


_HANDLERS: Mapping[str, Callable[[Fold, Record], object]] = {
    "start": lambda fold, record: fold.run.add_start(record),
    "llm_request": Fold._add_to_call,
    "llm_stream": Fold._add_to_call,
    "llm_response": Fold._add_to_call,
    "llm_error": Fold._add_to_call,
    "llm_interaction": Fold._add_to_call,
    "step_start": Fold._recorded_step,
    "agent_step": Fold._add_step,
    "tool_call": Fold._add_tool,
    "tool_result": Fold._add_tool,
    "annotation": lambda fold, record: fold.run.add_annotation(record),
    "redaction": lambda fold, record: fold.run.apply_redaction(record),
    "reward": lambda fold, record: fold.run.add_reward(record),
    "gap": lambda fold, record: fold.run.add_gap(record),
    "finalize": lambda fold, record: fold.run.add_end(record),
}
