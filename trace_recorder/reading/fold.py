"""The fold: makes a `Trajectory` from the facts of a journal.

The result depends only on the facts. Any of them may be missing, so every prefix of a journal can be folded. A record
that cannot be read affects only the interactions that use it, and has a gap in the trajectory. The facts of one
interaction have the same `interaction_id`. Interactions are in the order in which they began. The readers in
`dialects/` interpret the bodies that went over the wire, so a corrected reader also improves old runs.

`RunFold` takes the facts of the run itself. All other facts wait until somebody asks for items, calls or steps. Then
each fact is read once, in its order:

    add ─► RunFacts
        ─► ItemTable
        ─► websockets: what the model had on each connection
        ─► calls: CallFacts, with requests in the table of messages ─┐
        ─► tools: ToolExecutions, matched to the calls               ├─► interactions_and_steps ─► trajectory
        ─► steps: RecordedStep                                      ─┘

A fold may have a `journal`, which is an open file. Such a fold reads facts at once, and keeps at most `max_kept_bytes`
of the calls that have ended. It reads the others from the file again. So it needs little memory, however long the texts
are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from itertools import chain, count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.manual import read_step
from trace_recorder.facts import (
    AgentStepFact,
    Fact,
    InStep,
    ItemFact,
    Itemized,
    LLMErrorFact,
    LLMInteractionFact,
    LLMRequestFact,
    LLMResponseFact,
    LLMStreamFact,
    MCPEndFact,
    MCPMessageFact,
    StepStartFact,
    ToolCallFact,
    ToolResultFact,
    WebsocketEndFact,
    WebsocketFramesFact,
    WebsocketStartFact,
)
from trace_recorder.guard import try_call
from trace_recorder.reading.call_facts import CallFact, CallFacts
from trace_recorder.reading.interactions import Duplicates, interaction_of, unreadable_gaps
from trace_recorder.reading.mcp_calls import MCPCalls, SampledCalls
from trace_recorder.reading.open_calls import AskedTools
from trace_recorder.reading.put_away_calls import PutAwayCall, PutAwayCalls
from trace_recorder.reading.requests import MAX_READINGS, RequestReader
from trace_recorder.reading.run_fold import RunFold
from trace_recorder.reading.steps import RecordedStep, agent_key, step_of
from trace_recorder.reading.tool_executions import ToolExecutions
from trace_recorder.reading.tool_steps import ToolStep
from trace_recorder.storage.items.table import DiskBackedItems, ItemTable, JournalFile
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import ToolResult
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import AgentStep, Status, Trajectory

if TYPE_CHECKING:
    from trace_recorder.reading.table_prompts import IncrementalReading
    from trace_recorder.reading.websockets import RunWebsockets, WebsocketFact


@dataclass(slots=True)
class Fold(RunFold):
    """Takes facts one after another. `trajectory` makes the trajectory of all facts that were added.

    - `items`, `table`: the items of the journal, and the messages of all requests and steps that were read
    - `calls`: the facts of each interaction, by its id
    - `steps`: the steps that the agent recorded
    """

    journal: JournalFile | None = None
    max_kept_bytes: int = 0
    table: MessageTable = field(init=False)
    _items: ItemTable = field(init=False)
    _calls: dict[str, CallFacts | PutAwayCall] = field(default_factory=dict)
    _tools: ToolExecutions = field(default_factory=ToolExecutions)
    _mcp: MCPCalls = field(default_factory=MCPCalls)
    _sampled: SampledCalls = field(default_factory=SampledCalls)
    _websockets: RunWebsockets | None = None
    """What is known of the run's websockets, if it has any."""
    _steps: list[RecordedStep] = field(default_factory=list)
    _steps_by_id: dict[str, RecordedStep] = field(default_factory=dict)
    """The recorded steps that are `with` blocks, by their `step_id`."""
    _interactions: dict[str, LLMInteraction] = field(default_factory=dict)
    """The interactions that were made, without those that got more facts since."""
    _replayed_ids: set[str] = field(default_factory=set)
    """The interactions that were not made, because a recording gave their answers."""
    _unreadable_ids: set[str] = field(default_factory=set)
    """The interactions that cannot be read. The trajectory has a gap for each."""
    _duplicates: Duplicates = field(default_factory=Duplicates)
    _away: PutAwayCalls = field(init=False)
    _request_reader: RequestReader = field(init=False)
    _step_reader: RequestReader = field(init=False)

    def __post_init__(self) -> None:
        self._items = ItemTable() if self.journal is None else DiskBackedItems(self.journal)
        self._away = PutAwayCalls(self._items, self.max_kept_bytes)
        self.table = MessageTable(puts_away=self.journal is not None)
        limit = math.inf if self.journal is None else MAX_READINGS
        self._request_reader = RequestReader(self._items, self.table, max_readings=limit)
        self._step_reader = RequestReader(self._items, self.table, readings=self._request_reader.readings)

    def connection_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory with connections to MCP servers and to models."""
        self._read_waiting()
        websockets = () if self._websockets is None else self._websockets.values()
        return {"mcp_servers": self._mcp.servers(), "websockets": websockets}

    @property
    def items(self) -> ItemTable:
        """The items of the journal."""
        self._read_waiting()
        return self._items

    @property
    def calls(self) -> Mapping[str, CallFacts | PutAwayCall]:
        """The facts of each interaction, by its id, in the order in which they began."""
        self._read_waiting()
        return self._calls

    @property
    def steps(self) -> Sequence[RecordedStep]:
        """The steps that the agent recorded, in the order in which they began."""
        self._read_waiting()
        return self._steps

    def add(self, records: Iterable[Record | BadLine]) -> None:
        """Add records one after another. A record of an unknown kind is skipped, because a later version wrote it."""
        RunFold.add(self, records)
        if self.journal is not None:
            self._read_waiting()
            for identity in self._away.put_away(self._calls):
                self._interactions.pop(identity, None)

    # ── reading facts ────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_waiting(self) -> None:
        """Read the facts that wait, in their order."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            self._each_usable(self._read_all, iter(waiting))

    def _read_all(self, records: Iterator[Record | BadLine]) -> bool:
        """Read records. Return True after the last record. Raises an exception if a record cannot be used."""
        for record in records:
            if not isinstance(record, Record):
                continue
            self._current, fact = record, record.fact
            if isinstance(fact, ItemFact):  # the most frequent kind
                self._items.add(fact, record.offset, record.length)
            elif (read := _READ.get(type(fact))) is not None:
                read(self, record, fact)
                if isinstance(fact, Itemized) and fact.items is not None:
                    self._items.add_base(record.seq, fact.items)
            self._current = None
        return True

    def _call_of(self, record: Record, fact: CallFact) -> CallFacts:
        """Add a fact to its call, and return the call. Begin the call if this is its first fact."""
        identity = fact.interaction_id
        call = self._calls.get(identity)
        if call is None:
            call = CallFacts(identity, self._items, record.seq, record.time, self.journal is None)
            if not isinstance(fact, Itemized):  # its request is missing, and so is the name of its agent
                self._tools.steps.close(None)
            else:
                if self._tools.steps.open and is_turn(fact.api):
                    self._tools.steps.close(agent_key(fact))
                if fact.step_id is not None:
                    self._put_into_step(record, fact)
        elif isinstance(call, PutAwayCall):
            call = self._away.continued(call, record)
        call.add(record, fact)
        self._calls[identity] = call
        if self.journal is not None:
            self._away.newly_read[identity] = call
        self._interactions.pop(identity, None)
        if not isinstance(fact, LLMRequestFact) and fact.replayed_from is not None:
            self._replayed_ids.add(identity)
        return call

    def _put_into_step(self, record: Record, fact: LLMRequestFact | LLMInteractionFact) -> None:
        step = self._step_named_by(record, fact)
        if step is not None and step.identity is not None:
            step.interactions.append(fact.interaction_id)
            self._tools.step_of_interaction[fact.interaction_id] = step.identity

    def _step_named_by(self, record: Record, fact: InStep) -> RecordedStep | None:
        """Return the step that the fact's `step_id` names, or None if the fact has no `step_id`.

        Begin the step if this is the first fact with this `step_id`.
        """
        identity = fact.step_id
        if identity is None:
            return None
        step = self._steps_by_id.get(identity)
        if step is None:
            step = self._steps_by_id[identity] = RecordedStep.begin(record, fact)
            self._begin_step(fact, step)
        return step

    def _begin_step(self, fact: InStep, step: RecordedStep) -> None:
        self._steps.append(step)
        self._tools.steps.close(agent_key(fact))

    def _read_step(self, record: Record, fact: AgentStepFact) -> None:
        """Read the values that the agent gave for a step, with or without a `with` block."""
        values = read_step(self._step_reader.messages_of_step(fact), fact, record.time)
        step = self._step_named_by(record, fact)
        if step is None:
            self._begin_step(fact, RecordedStep(values, record.seq))
            self._tools.claim(record.seq, values.tool_calls)
        else:
            step.update(values)

    def _read_request(self, record: Record, sent: LLMRequestFact | LLMInteractionFact) -> CallFacts | None:
        """Read the new messages of a request, and match the tool results in it.

        Return its call, or None if the request only prepares the server for a later one, which is no call.
        """
        websockets = None
        if isinstance(sent, LLMRequestFact) and sent.connection_id is not None:
            websockets = self._on_websockets()
            if websockets.read_warm_up(record, sent):
                return None
        call = self._call_of(record, sent)
        if websockets is not None and isinstance(sent, LLMRequestFact):
            call.incremental = try_call(websockets.read_request, _unreadable_request, call, sent)
        else:
            call.incremental = try_call(self._request_reader.read, _unreadable_request, call.newest.dialect, sent)
        if call.incremental is None:
            results = try_call(lambda: call.new_tool_results, _no_results)
        else:
            results = [*call.incremental.results]
        if results or sent.parent_execution_id is not None or call.newest.asks_for_stream:
            self._tools.read_request(call, sent, results)
        return call

    def _read_by_hand(self, record: Record, fact: LLMInteractionFact) -> None:
        """Read a call that the agent recorded by hand."""
        call = self._read_request(record, fact)
        if call is not None:
            self._read_response(call)

    def _read_part(self, record: Record, part: LLMStreamFact) -> None:
        """Read a part of a stream. The stream is assembled when it has ended, or when somebody asks for its call."""
        if self._websockets is None or not self._websockets.read_warm_up(record, part):
            self._call_of(record, part)

    def _read_ending(self, record: Record, ending: LLMResponseFact | LLMErrorFact) -> None:
        """Read the end of an exchange. An attempt that ended after the next one had begun has no response."""
        if self._websockets is not None and self._websockets.read_warm_up(record, ending):
            return
        call = self._call_of(record, ending)
        if self._websockets is not None:
            self._set_prompt(call, self._websockets.read_response(call))
        self._read_response(call, is_newest=ending.attempt == call.newest.number)

    def _set_prompt(self, call: CallFacts, prompt: IncrementalReading | None) -> None:
        """Set the prompt of a call, which became known only after its request. Match the tool results in it."""
        if prompt is None or call.sent is None:
            return
        call.set_prompt(prompt)
        if prompt.results:
            self._tools.read_request(call, call.sent, [*prompt.results])

    def _read_websocket(self, record: Record, fact: WebsocketFact) -> None:
        """Read the beginning or the end of a websocket, or messages that belong to no response."""
        websockets = self._on_websockets()
        websockets.read(record, fact)
        while websockets.changed:
            self._interactions.pop(websockets.changed.pop(), None)

    def _on_websockets(self) -> RunWebsockets:
        """Return what is known of the run's websockets."""
        if self._websockets is None:
            from trace_recorder.reading.websockets import RunWebsockets  # noqa: PLC0415 - few runs have websockets

            self._websockets = RunWebsockets(self._items, self.table, self._request_reader)
        return self._websockets

    def _read_tool(self, record: Record, fact: ToolCallFact | ToolResultFact) -> None:
        """Read the call or the result of a tool."""
        self._tools.read_tool(record, fact, self._step_named_by(record, fact))

    def _read_mcp_message(self, record: Record, fact: MCPMessageFact) -> None:
        """Read a message between a client and an MCP server. A call of a tool is an execution of the tool."""
        step = self._step_named_by(record, fact)
        for tool, call in self._mcp.read(record, fact):
            self._tools.read_server_call(record, tool, step, call)
        sampled = self._sampled.read_message(record, fact, self._mcp.connections[fact.connection_id])
        if sampled is not None:
            self._interactions.pop(sampled, None)
            self._tools.note_agent_in(self._sampled.inside[sampled])

    def _read_mcp_end(self, record: Record, fact: MCPEndFact) -> None:
        """Read the end of a connection to an MCP server. It ends the tools that the server has not answered."""
        for tool, call in self._mcp.read_end(record, fact):
            self._tools.read_server_call(record, tool, None, call)
        self._sampled.end_connection(fact.connection_id)

    def _read_response(self, call: CallFacts, *, is_newest: bool = True) -> None:
        """Read the tool calls of a response, and find out whether it was recorded twice.

        If `is_newest` is False, the response is not the call's, because a later attempt has begun.
        """
        yield_to_others()
        identity, response = call.interaction_id, None
        if is_newest and identity not in self._unreadable_ids:
            response = try_call(call.read_response, partial(self._note_unreadable, call))
        is_manual = call.sent is None or call.sent.api is None
        if response is None or response.given == {} or (is_manual and self._duplicates.has(response.id)):
            self._tools.end_without_tools(identity)
            return
        if self._sampled.requests:  # a call of a method costs each call of a run
            self._sampled.read_response(call, response)
        duplicates = self._duplicates.add(call, response)
        if call.sent is not None and is_turn(call.sent.api):
            asked = AskedTools(identity, agent_key(call.sent), call.first_seq, response.tool_calls)
            self._tools.read_response(asked, duplicates)
            return
        self._tools.end_without_tools(identity)
        for duplicate in duplicates:
            self._tools.detach(duplicate)

    def _note_unreadable(self, call: CallFacts, error: Exception) -> None:
        self._unreadable_ids.add(call.interaction_id)
        self._tools.detach(call.interaction_id)
        kind = LLMRequestFact.kind if call.sent is None else call.sent.kind
        self.run.add_unusable_call(call.time, kind, call.first_seq, error)

    # ── interactions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def interactions(self) -> Iterator[LLMInteraction]:
        """Yield the interactions in the order in which they began, without duplicates. Each is made on demand."""
        return filter(None, map(self._shown_interaction, [*self.calls.values()]))

    def first_made(self) -> LLMInteraction | None:
        """Return the first interaction that was made. If a recording gave all answers, return the first interaction."""
        calls = self.calls
        made = (call for identity, call in calls.items() if identity not in self._replayed_ids)
        return next(filter(None, map(self._shown_interaction, chain(made, calls.values()))), None)

    def _shown_interaction(self, call: CallFacts | PutAwayCall) -> LLMInteraction | None:
        """Return an interaction, or None if it cannot be read, or was recorded by hand and captured too."""
        identity = call.interaction_id
        interaction = self._interactions.get(identity)
        if interaction is None and identity not in self._unreadable_ids:
            if isinstance(call, PutAwayCall) or identity in self._away.before:
                call = self._away.whole(call)
            if self._websockets is not None and call.incremental is None:
                note = partial(self._note_unreadable, call)
                self._set_prompt(call, try_call(self._websockets.prompt_of_successor, note, call))
            interaction = try_call(interaction_of, partial(self._note_unreadable, call), call)
            if interaction is not None and self._sampled.inside:
                interaction = self._sampled.placed(interaction)
            if interaction is not None and self._websockets is not None:
                interaction = self._websockets.with_interruption(interaction)
            if interaction is not None and call is self._calls.get(identity):
                self._interactions[identity] = interaction
        if interaction is None or (interaction.api is None and self._duplicates.has(interaction.response.id)):
            return None
        return interaction

    # ── the trajectory ───────────────────────────────────────────────────────────────────────────────────────────────

    def trajectory(self, status: Status) -> Trajectory:
        """Return the trajectory of all facts so far. `status` is used if no fact states how the run ended."""
        return replace(self.run.outline(status, None), **self.interaction_fields(), **self.step_fields())

    def interaction_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that depend on its interactions alone."""
        interactions = [*self.interactions()]
        provider, model = self.run.served_by(self.first_made())
        return {"llm_interactions": interactions, "provider": provider, "model": model}

    def step_fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that depend on its steps, or on all of its facts."""
        interactions = [*self.interactions()]
        steps = [step for _, step in self.interactions_and_steps() if step is not None]
        return {
            "agent_steps": steps,
            "metrics": metrics_of(interactions, steps, self.run.redactions),
            "gaps": (*self.run.all_gaps(), *unreadable_gaps(interactions)),
            **self.connection_fields(),
        }

    def interactions_and_steps(self) -> Iterator[tuple[LLMInteraction | None, AgentStep | None]]:
        """Yield pairs of an interaction and a step in the order in which they began. One member or both may be None.

        If the agent recorded no steps, each interaction other than an embedding has a step, and both are yielded as one
        pair. So the facts of each interaction are read once for both. Tools that ran outside of all steps have steps of
        their own.
        """
        calls = [*self.calls.values()]
        for call in calls:
            if isinstance(call, CallFacts) and call.newest.ending is None:
                self._shown_interaction(call)  # if it cannot be read, its tools are in no step of it
        has_steps = bool(self._steps)
        recorded: list[RecordedStep | ToolStep] = [*self._steps, *self._tools.tool_steps(has_recorded_steps=has_steps)]
        place, numbers = attrgetter("first_seq"), count(1)
        for begun in merge(sorted(recorded, key=place), calls, key=place):
            interaction = step = None
            if isinstance(begun, RecordedStep):
                step = self._make_recorded_step(begun)
            elif isinstance(begun, ToolStep):
                step = begun.step(next(numbers), self._tools.answers)
            else:
                interaction = self._shown_interaction(begun)
                if interaction is not None and not has_steps and is_turn(interaction.api):
                    identity = begun.interaction_id
                    answers, tools = self._tools.answers.get(identity, {}), self._tools.executions.get(identity, ())
                    step = step_of(next(numbers), interaction, answers, tools)
            is_numbered_by_us = step is not None and step.derived and has_steps
            # A summary belongs to the step with the number that the agent gave, and not to a step that we numbered.
            if self.run.summaries and step is not None and not is_numbered_by_us:
                step = self.run.with_summary(step)
            yield interaction, step

    def _make_recorded_step(self, step: RecordedStep) -> AgentStep:
        """Make a step that the agent recorded, with the interactions and tools of its block."""
        calls = [self._calls[identity] for identity in step.interactions if identity in self._calls]
        shown = [*filter(None, map(self._shown_interaction, calls))]
        attached = chain.from_iterable(self._tools.executions.get(call.interaction_id, ()) for call in shown)
        return step.step(shown, self._tools.answers, [tool for tool in attached if tool.requested_by])


def _unreadable_request(_: Exception) -> None:
    """Return None. If a record that the request needs is missing, `CallFacts.has_request` then returns False."""


def _no_results(_: Exception) -> list[ToolResult]:
    return []


_READ: Mapping[type[Fact], Callable[[Fold, Record, Any], object]] = {
    LLMRequestFact: Fold._read_request,
    LLMStreamFact: Fold._read_part,
    LLMResponseFact: Fold._read_ending,
    LLMErrorFact: Fold._read_ending,
    LLMInteractionFact: Fold._read_by_hand,
    StepStartFact: Fold._step_named_by,
    AgentStepFact: Fold._read_step,
    ToolCallFact: Fold._read_tool,
    ToolResultFact: Fold._read_tool,
    MCPMessageFact: Fold._read_mcp_message,
    MCPEndFact: Fold._read_mcp_end,
    WebsocketStartFact: Fold._read_websocket,
    WebsocketFramesFact: Fold._read_websocket,
    WebsocketEndFact: Fold._read_websocket,
}
"""The facts of calls, steps and tools, each with the method that reads them."""
