"""Writes a `ForeignRun`, a run that another tool recorded, as the lines of a journal.

`load` folds these lines in memory, and `trace-recorder import` writes the same lines to a file. Secrets are masked as
in every journal. The messages of a conversation are consecutive items. So a call refers to its prompt by one range, and
the work is linear in the size of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import singledispatchmethod

from trace_recorder.facts import (
    AgentStepFact,
    AnnotationFact,
    Fact,
    FinalizeFact,
    GapFact,
    ItemFact,
    LLMInteractionFact,
    RewardFact,
    SourceRecordFact,
    StartFact,
    ToolCallFact,
    ToolResultFact,
)
from trace_recorder.imports.foreign.exchanges import ExchangeRecords
from trace_recorder.imports.foreign.run import (
    MAIN,
    Annotation,
    Call,
    ForeignConversation,
    ForeignRun,
    HttpExchange,
    Kept,
    Members,
    Missing,
    Score,
    SourceStep,
    Summary,
    ToolRun,
)
from trace_recorder.imports.foreign.stated_values import seconds_between, stated_time
from trace_recorder.storage.journal_lines import Records, encode_lines
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.storage.redaction.text_masking import default_redactor, masks_in
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload, without_none

IMPORTED_FROM = "imported_from"
"""The member of a run's metadata that says where the run comes from.

It is an object with `format`, `id`, `file`, and facts about the tool.
"""


def journal_lines(run: ForeignRun) -> Iterator[bytes]:
    """Yield the lines of a run's journal: its start, its events, and its end with the status."""
    writer = _JournalWriter(run.format)
    start, end = run.times()
    yield from writer.record(_start(run), start)
    executions = (getattr(event, "agent", MAIN).parent_execution_id for event in run.events)
    last_events = {execution: position for position, execution in enumerate(executions) if execution is not None}
    # The result of an execution that started sub-agents is written after the last event of these agents.
    for position, event in enumerate(run.events):
        yield from writer.lines(event)
        if isinstance(event, ToolRun) and last_events.get(event.execution_id, 0) > position:
            writer.open_executions.setdefault(last_events[event.execution_id], []).append(event)
        elif isinstance(event, ToolRun):
            yield from writer.result(event)
        for tool_run in writer.open_executions.pop(position, ()):
            yield from writer.result(tool_run)
    outcome = FinalizeFact(
        status=run.status,
        success=run.success,
        execution_time=seconds_between(start, end),
        final_result=run.final_result,
        error=run.error,
    )
    yield from writer.record(outcome, end)


def _start(run: ForeignRun) -> StartFact:
    origin = {"format": run.format, "id": run.identity, **run.source}
    return StartFact(
        schema=SCHEMA,
        version=VERSION,
        trajectory_id=run.identity,
        parent=run.parent,
        provider=run.provider,
        model=run.model,
        max_steps=run.max_steps,
        task=run.task,
        metadata={**run.metadata, IMPORTED_FROM: origin},
    )


@dataclass(slots=True)
class _ItemList:
    """The items of a list of messages or tools: their numbers as ranges."""

    ranges: list[list[int]]

    def first(self, length: int) -> list[list[int]]:
        """Return the ranges of the first `length` elements."""
        ranges: list[list[int]] = []
        remaining = length
        for first, last in self.ranges:
            if remaining <= 0:
                break
            ranges.append([first, min(last, first + remaining - 1)])
            remaining -= last - first + 1
        return ranges


@dataclass(slots=True)
class _JournalWriter:
    """A writer of the journal lines of one run. It numbers the run's records, items and executions."""

    format: str
    seq: int = 1
    numbers: dict[str, int] = field(default_factory=lambda: {"n": 0, "s": 0})
    """The number that the next item gets, for list elements ("n") and for large strings ("s")."""
    calls: int = 0
    interaction_ids: dict[str, int] = field(default_factory=dict)
    """The ids of the calls so far. Each value counts the calls that have this id in the source."""
    executions: int = 0
    conversations: dict[int, tuple[ForeignConversation, _ItemList]] = field(default_factory=dict)
    tool_lists: dict[str, _ItemList] = field(default_factory=dict)
    written: dict[int, tuple[int, Payload]] = field(default_factory=dict)
    open_executions: dict[int, list[ToolRun]] = field(default_factory=dict)
    """Executions whose result is not yet written, by the position of the last event of their sub-agents."""
    execution_ids: dict[int, str] = field(default_factory=dict)
    exchanges: ExchangeRecords = field(init=False)

    def __post_init__(self) -> None:
        self.exchanges = ExchangeRecords(self.numbers)

    def record(self, fact: Fact, time: str) -> Iterator[bytes]:
        """Yield the line of a fact, with the secrets in all of its members masked."""
        own, foreign = fact.members()
        text = _json_of({**own, **foreign})
        masked = default_redactor(text)
        if count := masks_in(text, masked):
            masked = f'{masked[:-1]},"redacted":{count}}}'
        yield from encode_lines([(fact.kind, masked)], self.seq, stated_time(time))
        self.seq += 1

    @singledispatchmethod
    def lines(self, event: object) -> Iterator[bytes]:
        """Yield the records of one event."""
        raise TypeError(f"{type(event).__name__} is not an event of a run")

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

    @lines.register
    def _(self, call: Call) -> Iterator[bytes]:
        identity = self._interaction_id(call.interaction_id)
        lists: Members = {}
        if call.conversation is not None:
            messages = yield from self._conversation(call.conversation, call.time)
            lists["messages"] = messages.first(call.length)
        tools = yield from self._tools(call)
        if tools is not None:
            lists["tools"] = tools.ranges
        fact = LLMInteractionFact(
            **call.agent.members(),
            **without_none(
                api=self.format if call.api == "" else call.api,
                error=call.error,
                duration_seconds=call.duration_seconds,
                time_to_first_token_seconds=call.time_to_first_token_seconds,
                stream=call.stream,
                complete=None if call.complete else False,
                ended_by=call.ended_by,
                replayed_from=call.replayed_from and call.replayed_from.to_document(),
            ),
            interaction_id=identity,
            provider=call.provider,
            model=call.model,
            items=lists,
            response=call.response,
            body=dict.fromkeys(("messages", "tools")) | without_none(parameters=call.parameters or None),
        )
        yield from self.record(fact, call.time)

    @lines.register
    def _(self, exchange: HttpExchange) -> Iterator[bytes]:
        request, answer = self.exchanges.records(exchange, self._interaction_id(exchange.interaction_id))
        yield from self._lines_of(request, exchange.time, then=self.exchanges.mark_written)
        yield from self._lines_of(answer, exchange.ended or exchange.time)

    def _lines_of(self, records: Records, time: str, then: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """Yield the journal lines of masked records. Call `then` with the number of the last record."""
        yield from encode_lines(records, self.seq, stated_time(time))
        self.seq += len(records)
        if then is not None:
            then(self.seq - 1)

    @lines.register
    def _(self, run: ToolRun) -> Iterator[bytes]:
        self.executions += 1
        self.execution_ids[id(run)] = run.execution_id or f"execution-{self.executions}"
        yield from self.record(ToolCallFact(**self._execution(run), arguments=run.arguments), run.time)

    def result(self, run: ToolRun) -> Iterator[bytes]:
        """Yield the record of an execution's result, if the execution has a result."""
        if run.ended is not None:
            failed = None if run.error is None else {"type": "", "message": run.error}
            fact = ToolResultFact(
                **self._execution(run),
                **without_none(error=failed, duration_seconds=run.duration_seconds),
                success=run.success,
                result=run.result,
            )
            yield from self.record(fact, run.ended)

    def _execution(self, run: ToolRun) -> Members:
        names = {"execution_id": self.execution_ids[id(run)], "name": run.name}
        return {**names, **without_none(call_id=run.call_id), **run.agent.members()}

    @lines.register
    def _(self, step: SourceStep) -> Iterator[bytes]:
        items: Members = {}
        if step.conversation is not None:
            messages = yield from self._conversation(step.conversation, step.time)
            items = {"llm_messages": messages.first(step.length)}
        stated = dict.fromkeys(("llm_response", "tool_calls", "tool_results", "reflection", "error"))
        members: Members = stated | step.members
        fact = AgentStepFact(
            **step.agent.members(),
            **members,
            step_number=step.step_number,
            state=step.state,
            items=items,
            body={"llm_messages": None},
        )
        yield from self.record(fact, step.time)

    @lines.register
    def _(self, annotation: Annotation) -> Iterator[bytes]:
        yield from self.record(AnnotationFact(key=annotation.key, value=annotation.value), annotation.time)

    @lines.register
    def _(self, summary: Summary) -> Iterator[bytes]:
        yield from self.record(AnnotationFact(lakeview_step=summary.step_number, value=summary.value), summary.time)

    @lines.register
    def _(self, score: Score) -> Iterator[bytes]:
        fact = RewardFact(
            name=score.name,
            value=score.value,
            weight=score.weight,
            step_number=score.step_number,
            explanation=score.explanation,
        )
        yield from self.record(fact, score.time)

    @lines.register
    def _(self, missing: Missing) -> Iterator[bytes]:
        yield from self.record(
            GapFact(time=stated_time(missing.time), what=missing.what, why=missing.why), missing.time
        )

    @lines.register
    def _(self, kept: Kept) -> Iterator[bytes]:
        yield from self.record(SourceRecordFact(what=kept.what, value=kept.value), kept.time)

    def _conversation(self, conversation: ForeignConversation, time: str) -> Generator[bytes, None, _ItemList]:
        """Yield records of the messages that are not yet written as items.

        Return the list of all items of the conversation.
        """
        new: list[ForeignConversation] = []
        while id(conversation) not in self.conversations:
            new.append(conversation)
            if conversation.base is None:
                break
            conversation = conversation.base
        for link in reversed(new):
            ranges: list[list[int]] = []
            if link.base is not None:
                ranges = self.conversations[id(link.base)][1].first(link.base_length)
            items = yield from self._items(link.own, ranges, time)
            self.conversations[id(link)] = link, items
            conversation = link
        return self.conversations[id(conversation)][1]

    def _tools(self, call: Call) -> Generator[bytes, None, _ItemList | None]:
        if not call.tools:
            return None
        key = to_json(call.tools)
        if key not in self.tool_lists:
            self.tool_lists[key] = yield from self._items([*call.tools], [], call.time)
        return self.tool_lists[key]

    def _items(self, elements: list[Payload], ranges: list[list[int]], time: str) -> Generator[bytes, None, _ItemList]:
        """Yield records of the elements that are not yet written as items.

        Return the list of all elements: those with the numbers in `ranges`, and these.

        An element that several lists share is written once.
        """
        for element in elements:
            if id(element) not in self.written:
                number = self.numbers["n"]
                yield from self.record(ItemFact(n=number, value=element), time)
                self.written[id(element)] = number, element
                self.numbers["n"] += 1
            number, _ = self.written[id(element)]
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
        return _ItemList(ranges)


_dump = make_json_writer(",", ":", allow_nan=False)


def _json_of(data: Mapping[str, Payload]) -> str:
    """Return data as JSON text. A value that JSON lacks, such as NaN, becomes a description."""
    try:
        text = _dump(data)
        text.encode()  # raises for a lone surrogate
    except (ValueError, RecursionError):
        return to_json(data)
    return text
