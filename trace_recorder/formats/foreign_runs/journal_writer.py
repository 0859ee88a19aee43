"""Writes a `ForeignRun`, a run that another tool recorded, as the lines of a journal.

`load` folds these lines in memory, and `trace-recorder import` writes the same lines to a file. This file decides the
order of the facts, and gives calls and executions ids that are unique in the run. `storage/fact_writer.py` writes the
facts. The messages of a conversation are consecutive items. So a call refers to its prompt by one range, and the work
is linear in the size of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trace_recorder.facts import Fact, FinalizeFact, Itemized, StartFact
from trace_recorder.formats.foreign_runs.exchanges import ForeignExchangeFacts
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    Call,
    Event,
    ForeignConversation,
    ForeignRun,
    HttpExchange,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.stated_values import stated_seconds, stated_time
from trace_recorder.storage.items.shared_lists import ListPrefix
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.storage.journal_text import JournalText
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.json_text import NotJsonError
from trace_recorder.values.jsonable import to_json

IMPORTED_FROM = "imported_from"
"""The member of a run's metadata that says where the run comes from.

It is an object with `format`, `id`, `file`, and facts about the tool.
"""


def journal_lines(run: ForeignRun) -> Iterator[bytes]:
    """Yield the lines of a run's journal: its start, its events, and its end with the status."""
    writer = _JournalWriter(run.format)
    start, end = run.times()
    yield from writer.lines_of_fact(_start(run), start)
    executions = (getattr(event, "agent", MAIN).parent_execution_id for event in run.events)
    last_events = {execution: position for position, execution in enumerate(executions) if execution is not None}
    # The result of an execution that started sub-agents is written after the last event of these agents.
    for position, event in enumerate(run.events):
        yield from writer.lines_of(event)
        if isinstance(event, ToolRun) and last_events.get(event.execution_id, 0) > position:
            writer.open_executions.setdefault(last_events[event.execution_id], []).append(event)
        elif isinstance(event, ToolRun):
            yield from writer.lines_of_result(event)
        for tool_run in writer.open_executions.pop(position, ()):
            yield from writer.lines_of_result(tool_run)
    outcome = FinalizeFact(
        status=run.status,
        success=run.success,
        execution_time=stated_seconds(start, end),
        final_result=run.final_result,
        error=run.error,
    )
    yield from writer.lines_of_fact(outcome, end)


def _start(run: ForeignRun) -> StartFact:
    origin = {"format": run.format, "id": run.identity, **run.source}
    return StartFact(
        schema=SCHEMA,
        version=VERSION,
        trajectory_id=run.identity,
        parent=run.parent,
        session=run.session,
        provider=run.provider,
        model=run.model,
        max_steps=run.max_steps,
        task=run.task,
        metadata={**run.metadata, IMPORTED_FROM: origin},
    )


@dataclass(slots=True)
class _JournalWriter:
    """A writer of the journal lines of one run."""

    format: str
    calls: int = 0
    interaction_ids: dict[str, int] = field(default_factory=dict)
    """The ids of the calls so far. Each value counts the calls that have this id in the source."""
    tools: dict[str, ForeignConversation] = field(default_factory=dict)
    """The tools that calls offer, by their JSON: a list like that of messages."""
    open_executions: dict[int, list[ToolRun]] = field(default_factory=dict)
    """Executions whose result is not yet written, by the position of the last event of their sub-agents."""
    execution_ids: dict[int, str] = field(default_factory=dict)
    _journal: JournalText = field(init=False)
    _exchanges: ForeignExchangeFacts = field(init=False)

    def __post_init__(self) -> None:
        redaction = Redaction(default_redactor, {})
        self._journal, self._exchanges = JournalText(redaction), ForeignExchangeFacts(redaction)

    def lines_of_fact(self, fact: Fact, time: str) -> Iterator[bytes]:
        """Return the line of a fact."""
        return self._journal.lines_of(fact, stated_time(time))

    def lines_of(self, event: Event) -> Iterator[bytes]:
        """Return the lines of an event. The result of an execution is not among them."""
        match event:
            case Call():
                return self._lines_of_call(event)
            case HttpExchange():
                return self._lines_of_exchange(event)
            case ToolRun():
                identity = event.execution_id or f"execution-{len(self.execution_ids) + 1}"
                self.execution_ids[id(event)] = identity
                return self.lines_of_fact(event.began_fact(identity), event.time)
            case TimedFact(fact, time, lists) if isinstance(fact, Itemized):
                return self._lines_with_lists(fact, lists, {}, time)
            case TimedFact(fact, time):
                return self.lines_of_fact(fact, time)

    def lines_of_result(self, run: ToolRun) -> Iterator[bytes]:
        """Yield the line of an execution's result, if the execution has a result."""
        if run.ended is not None:
            yield from self.lines_of_fact(run.ended_fact(self.execution_ids[id(run)]), run.ended)

    def _lines_of_call(self, call: Call) -> Iterator[bytes]:
        lists = {"messages": None, "tools": self._tools(call)}
        if call.conversation is not None:
            lists["messages"] = ListPrefix(call.conversation, call.length)
        parameters: Members = {"parameters": call.parameters} if call.parameters else {}
        fact = call.fact(self._interaction_id(call.interaction_id), self.format)
        return self._lines_with_lists(fact, lists, parameters, call.time)

    def _lines_with_lists(
        self, fact: Itemized, lists: Mapping[str, ListPrefix | None], others: Members, time: str
    ) -> Iterator[bytes]:
        return self._journal.lines_with_lists(fact, lists, others, stated_time(time))

    def _lines_of_exchange(self, exchange: HttpExchange) -> Iterator[bytes]:
        """Yield the lines of an exchange, whose own members are masked as little as those of captured calls."""
        facts = self._exchanges.facts_of(exchange, self._interaction_id(exchange.interaction_id))
        time, ended = stated_time(exchange.time), stated_time(exchange.ended or exchange.time)
        try:
            yield from self._journal.lines_with_body(facts.request, facts.body, time, "foreign members")
        except NotJsonError:
            yield from self._journal.lines_of(self._exchanges.with_text(facts), time, "foreign members")
        for fact in facts.answer:
            yield from self._journal.lines_of(fact, ended, "foreign members")

    def _interaction_id(self, stated_id: str | None) -> str:
        """Return an id for the next call: the id that the source states, or a made-up id.

        A number is appended if an earlier call has the same id.
        """
        self.calls += 1
        identity = stated_id or f"call-{self.calls}"
        times = self.interaction_ids.get(identity, 0) + 1
        while (unused_id := identity if times == 1 else f"{identity}-{times}") in self.interaction_ids:
            times += 1
        self.interaction_ids |= {unused_id: 1} | {identity: times}
        return unused_id

    def _tools(self, call: Call) -> ListPrefix | None:
        """Return the tools of a call. Calls with equal tools have the same list."""
        if not call.tools:
            return None
        key = to_json(call.tools)
        if key not in self.tools:
            self.tools[key] = ForeignConversation()
            self.tools[key].own += call.tools
        return ListPrefix(self.tools[key], len(call.tools))
