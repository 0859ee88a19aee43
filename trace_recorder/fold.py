"""The fold: a journal's records → a `Trajectory`. A pure function of the records, whatever is missing of them.

Every prefix of a journal folds. A record that cannot be read costs the interactions that use it, which then say so
in `gaps`, and no other. What belongs together is known by `interaction_id`; the order is that in which the
interactions began. Readers give the meaning of what went over the wire; they can be mended, and old runs read better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from trace_recorder.conversation import Message, Payload, ToolResult
from trace_recorder.guard import attempt
from trace_recorder.interaction import ENDINGS, Call, asks_for_stream, interaction_of, stated_error
from trace_recorder.item_table import ItemTable
from trace_recorder.journal import BadLine, Record
from trace_recorder.marked import Asking, MarkedStep, ToolUse, agent_key
from trace_recorder.metrics import Tally, metrics_of
from trace_recorder.plain import to_json
from trace_recorder.providers.by_hand import read_step
from trace_recorder.providers.shape import as_int
from trace_recorder.reading import Readings
from trace_recorder.stepping import OpenCalls, is_step, step_of
from trace_recorder.trajectory import AgentStep, Gap, LLMInteraction, Reward, Status, Trajectory


@dataclass(slots=True)
class _During:
    """What came while a stream was open, for calls that nobody knows yet: a caller may go on before it has its end."""

    uses: dict[str, ToolUse] = field(default_factory=dict)
    results: list[tuple[Hashable, ToolResult]] = field(default_factory=list)


@dataclass(slots=True)
class Fold:
    """Takes records one after another; `trajectory()` gives what they say so far.

    `calls` are the interactions' records, `answers` the results of the tool calls that each made, `uses` the
    executions of tools after each, `changed` the ids of those of which there is more than when it was emptied last,
    `captured` the ids of captured responses, `handed_over` those of responses that were recorded by hand, each with
    its interaction's. `marked` are the steps with a block by their ids, `mark_of` the step of
    an interaction, `changed_marks` the ids of the steps of which there is more. `masked` counts the secrets that
    records say were masked in them.
    """

    items: ItemTable = field(default_factory=ItemTable)
    render: Callable[[Message], bytes] = lambda _: b""
    calls: dict[str, Call] = field(default_factory=dict)
    answers: dict[str, dict[str, ToolResult]] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    start: Record | None = None
    end: Record | None = None
    steps: list[MarkedStep] = field(default_factory=list)
    marked: dict[str, MarkedStep] = field(default_factory=dict)
    mark_of: dict[str, str] = field(default_factory=dict)
    changed_marks: dict[str, None] = field(default_factory=dict)
    uses: dict[str, list[ToolUse]] = field(default_factory=dict)
    summaries: dict[str, Payload] = field(default_factory=dict)
    annotations: dict[str, Payload] = field(default_factory=dict)
    rewards: list[Reward] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    torn: BadLine | None = None
    records: int = 0
    _annotated: dict[int, str] = field(default_factory=dict)
    masked: Tally = field(default_factory=lambda: Tally({"redactions": 0}))
    senseless: set[str] = field(default_factory=set)
    captured: dict[str, None] = field(default_factory=dict)
    handed_over: dict[str, str] = field(default_factory=dict)
    readings: Readings = field(init=False)
    open_calls: OpenCalls = field(default_factory=OpenCalls)
    asking: Asking = field(default_factory=Asking)
    _running: dict[str, ToolUse] = field(default_factory=dict)
    _during: dict[str, _During] = field(default_factory=dict)
    _heard: list[tuple[Call | None, Record]] = field(default_factory=list)
    _made: dict[str, LLMInteraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.readings = Readings(self.items, self.render)

    def add(self, record: Record | BadLine) -> None:
        """Take one record. A kind that is not known is passed over: it is of a later version."""
        if isinstance(record, BadLine):
            self._bad_line(record)
            return
        self.records += 1
        if redacted := as_int(record.data.get("redacted")):
            self.masked.add({"redactions": redacted})
        take = _TAKE.get(record.kind)
        if take is not None:
            attempt(partial(take, self, record), partial(self._gap, record))

    def _bad_line(self, line: BadLine) -> None:
        if line.torn:
            self.torn = line
        else:
            self.gaps.append(
                Gap(None, "a damaged line of the journal", f"{line.length} bytes at {line.offset}: {line.why}")
            )

    def _gap(self, record: Record, error: Exception) -> None:
        why = f"record {record.seq}: {type(error).__name__}: {error}"
        self.gaps.append(Gap(record.time, f"a {record.kind} record could not be used", why))

    def _item(self, record: Record) -> None:
        self.items.add_record(record)

    def _call(self, record: Record) -> None:
        identity = record.data["interaction_id"]
        call = self.calls.get(identity)
        if call is None:
            call = self.calls[identity] = Call(identity, self.items)
            mark = self._mark(record)
            if mark is not None and mark.identity is not None:
                mark.interactions.append(identity)
                self.mark_of[identity] = mark.identity
        call.add(record)
        self._made.pop(identity, None)
        self.changed[identity] = None
        self._heard.append((call, record))
        if "items" in record.data:
            self.items.add_base(record.seq, record.data["items"])

    def _mark(self, record: Record) -> MarkedStep | None:
        """The step with a block that a record names, which begins with the first record that does."""
        identity = record.data.get("step_id")
        if identity is None:
            return None
        if identity not in self.marked:
            self.marked[identity] = MarkedStep.begun(record)
            self.steps.append(self.marked[identity])
        self.changed_marks[identity] = None
        return self.marked[identity]

    def _step(self, record: Record) -> None:
        self.items.add_base(record.seq, record.data["items"])
        told = read_step(self.items.expand(record.data), record.data, record.time)
        mark = self._mark(record)
        if mark is None:
            self.steps.append(MarkedStep(told))
        else:
            mark.tell(told)

    def _tool(self, record: Record) -> None:
        self._mark(record)
        self._heard.append((None, record))

    def _annotation(self, record: Record) -> None:
        if "lakeview_step" in record.data:
            self.summaries[to_json(record.data["lakeview_step"])] = record.data["value"]
        else:
            self.annotations[record.data["key"]] = record.data["value"]
            self._annotated[record.seq] = record.data["key"]

    def _redaction(self, record: Record) -> None:
        """Put what a record says now, without what became known as a secret later, in the place of what it said."""
        of, data = record.data["of"], record.data
        if self.start is not None and of == self.start.seq:
            said: dict[str, Payload] = {name: data[name] for name in ("task", "metadata") if name in data}
            self.start = self.start._replace(data={**self.start.data, **said})
        elif self._annotated.get(of) in self.annotations and self._is_last(of):
            self.annotations[self._annotated[of]] = data["value"]

    def _is_last(self, seq: int) -> bool:
        """Whether no later record gave the annotation of this one another value."""
        return not any(later > seq and key == self._annotated[seq] for later, key in self._annotated.items())

    def _reward(self, record: Record) -> None:
        given = {name: value for name, value in record.data.items() if name != "redacted"}
        self.rewards.append(Reward(**given, timestamp=record.time))

    def _recorded_gap(self, record: Record) -> None:
        self.gaps.append(Gap(record.data.get("time") or record.time, record.data["what"], record.data["why"]))

    def _start(self, record: Record) -> None:
        self.start = self.start or record

    def _end(self, record: Record) -> None:
        self.end = record

    def bring_up(self, breathe: Callable[[], None] = lambda: None) -> None:
        """Have every request and every response that has come read, in order, with a breath between any two."""
        heard, self._heard = self._heard, []
        for call, record in heard:
            if call is None:
                attempt(partial(self._read_use, record), partial(self._gap, record))
                continue
            if "items" in record.data:
                attempt(partial(self._read_request, call), lambda _: None)
            if call.by_hand or record.kind in ENDINGS:
                self._read_response(call)
            breathe()

    def _read_request(self, call: Call) -> None:
        """Read a request as far as it is new, and give what it brings back from tools to those who asked."""
        call.known = attempt(partial(self.readings.read, call.interaction_id, call.begin), lambda _: None)
        agent = agent_key(call.begin)
        unclaimed = self._give(agent, call.new_results)
        for during in self._during.values():
            during.results += ((agent, result) for result in unclaimed)
        if asks_for_stream(call.begin):
            self._during[call.interaction_id] = _During()

    def _give(self, agent: Hashable, results: Iterable[ToolResult]) -> list[ToolResult]:
        """Give what a request brings back from tools to those who asked; return what nobody has asked for yet."""
        unclaimed = []
        for asker, result in self.open_calls.answer(agent, results):
            if asker is None:
                unclaimed.append(result)
                continue
            answers = self.answers.setdefault(asker, {})
            if result.call_id not in answers:
                answers[result.call_id] = result
                self.asking.answered(asker, result.call_id)
                self.changed[asker] = None
        return unclaimed

    def _read_response(self, call: Call) -> None:
        during = self._during.pop(call.interaction_id, _During())
        one = self.interaction(call)
        if one is None or one.response is None or self.is_double(one):
            return
        if one.api is None and one.response.id:
            self.handed_over[one.response.id] = one.interaction_id
        elif one.response.id:
            self.captured[one.response.id] = None
            if one.response.id in self.handed_over:
                self.changed[self.handed_over[one.response.id]] = None
        self.open_calls.ask(one.interaction_id, one.agent_id or one.agent, one.response.tool_calls)
        if is_step(one):
            self.asking.ask(one, call.first.seq, self.mark_of.get(one.interaction_id))
            for use in during.uses.values():
                self._find_late(use, one.interaction_id)
            for agent, result in during.results:
                self._give(agent, [result])  # what nobody asked for waits with the other streams already

    def _find_late(self, use: ToolUse, identity: str) -> None:
        """Find the call for which a tool ran before the end of the stream that may have asked for it."""
        if use.asker is None:
            self.asking.find(use)
            self._attach(use, identity if self._last_before(use) == identity else use.after)
            self.changed[identity] = None

    def _read_use(self, record: Record) -> None:
        """Read one record of a tool's execution, and find out for which call it was run."""
        identity = record.data["execution_id"]
        use = self._running.get(identity)
        if use is None:
            use = self._running[identity] = ToolUse(identity, record.seq, record.data)
            mark = self._mark(record)
            if mark is not None:
                mark.uses.append(use)
        if use.asker is None:
            self.asking.find(use)
            self._attach(use, use.after or self._last_before(use))
            for during in () if use.asker else self._during.values():
                during.uses[identity] = use
        if record.kind == "tool_result":
            use.ended = record.data
            del self._running[identity]
            if use.failed:
                self.asking.reopen(use)
        for asker in filter(None, (use.asker, use.after)):
            self.changed[asker] = None

    def _attach(self, use: ToolUse, last: str | None) -> None:
        """Have it stand with the interaction that asked, or else with the last one of its agent."""
        before, use.after = use.after, use.asker or last
        if before != use.after and before in self.uses:
            self.uses[before].remove(use)
            self.changed[before] = None
        if before != use.after and use.after is not None:
            self.uses.setdefault(use.after, []).append(use)

    def _last_before(self, use: ToolUse) -> str | None:
        return None if "step_id" in use.begun else self.asking.newest(use)

    def is_double(self, one: LLMInteraction) -> bool:
        """Whether an interaction was recorded by hand that was captured too."""
        return one.api is None and one.response is not None and one.response.id in self.captured

    def forget(self, identity: str, one: LLMInteraction | None) -> None:
        """Let go of an interaction's records: nothing more is to come of it."""
        del self.calls[identity]
        self._made.pop(identity, None)
        self.answers.pop(identity, None)
        self.uses.pop(identity, None)
        self.mark_of.pop(identity, None)
        self._during.pop(identity, None)
        self.asking.answered(identity)
        if one is not None and one.response is not None:
            self.open_calls.forget(identity, one.agent_id or one.agent, one.response.tool_calls)

    def interactions(self) -> list[LLMInteraction]:
        """The interactions, in the order in which they began; one recorded by hand that was captured too, once."""
        made = [one for call in self.calls.values() if (one := self.interaction(call)) is not None]
        return [one for one in made if not self.is_double(one)]

    def interaction(self, call: Call) -> LLMInteraction | None:
        """An interaction, made of its records once; what no reader can make sense of is a gap."""
        identity = call.interaction_id
        if identity in self._made or identity in self.senseless:
            return self._made.get(identity)

        def give_up(error: Exception) -> None:
            self.senseless.add(identity)
            self.readings.forget(identity)
            self._gap(call.first, error)

        made = attempt(partial(interaction_of, call), give_up)
        if made is not None:
            self._made[identity] = made
        return made

    def trajectory(self, status: Status) -> Trajectory:
        """What the records say; `status` is that of a journal without an end."""
        self.bring_up()
        interactions = self.interactions()
        steps = [self.step(mark) for mark in self.steps] or [
            self.derived(number, one) for number, one in enumerate(filter(is_step, interactions), start=1)
        ]
        return replace(
            self.outline(status, interactions[0] if interactions else None),
            metrics=metrics_of(interactions, steps, self.masked),
            llm_interactions=interactions,
            agent_steps=[self.summarised(step) for step in steps],
            gaps=(*self.gaps, *unreadable(interactions)),
        )

    def marks_of(self, identity: str) -> set[str]:
        """The ids of the steps that show something of an interaction: its own, and those in which its tools ran."""
        ran = {use.begun.get("step_id") for use in self.uses.get(identity, ()) if use.asker}
        return {step for step in (self.mark_of.get(identity), *ran) if step is not None}

    def derived(self, number: int, one: LLMInteraction) -> AgentStep:
        """The step that derives from an interaction."""
        return step_of(number, one, self.answers.get(one.interaction_id, {}), self.uses.get(one.interaction_id, ()))

    def step(self, mark: MarkedStep) -> AgentStep:
        """A step that the agent recorded, with what was inside its block."""
        calls = [self.calls[identity] for identity in mark.interactions if identity in self.calls]
        made = [one for call in calls if (one := self.interaction(call)) is not None and not self.is_double(one)]
        asked = [use for one in made for use in self.uses.get(one.interaction_id, ()) if use.asker]
        return mark.step(made, self.answers, asked)

    def outline(self, status: Status, first: LLMInteraction | None) -> Trajectory:
        """What the records say of the run itself, without its interactions and steps, of which `first` is the first."""
        begun: Mapping[str, Payload] = self.start.data if self.start else {}
        ended: Mapping[str, Payload] = self.end.data if self.end else {}
        return Trajectory(
            trajectory_id=begun.get("trajectory_id"),
            task=begun.get("task"),
            status=ended.get("status", status),
            success=ended.get("success"),
            final_result=ended.get("final_result"),
            error=stated_error(ended.get("error")),
            provider=begun.get("provider") or (first.provider if first else None),
            model=begun.get("model") or (first.model if first else None),
            max_steps=begun.get("max_steps"),
            start_time=self.start.time if self.start else None,
            end_time=self.end.time if self.end else None,
            execution_time=ended.get("execution_time"),
            metadata=begun.get("metadata") or {},
            annotations=self.annotations,
            rewards=tuple(self.rewards),
            gaps=tuple(self.gaps),
        )

    def summarised(self, step: AgentStep) -> AgentStep:
        """A step with the summary that was added to it, if there is one."""
        summary = self.summaries.get(to_json(step.step_number)) if self.summaries else None
        return replace(step, extra={**step.extra, "lakeview_summary": summary}) if summary is not None else step


def unreadable(interactions: Iterable[LLMInteraction]) -> list[Gap]:
    """Say of which interactions the request cannot be put together again."""
    return [
        Gap(one.timestamp, f"the request of {one.interaction_id}", "a record that it needs is damaged or missing")
        for one in interactions
        if not one.source.is_whole()
    ]


_TAKE: Mapping[str, Callable[[Fold, Record], object]] = {
    "start": Fold._start,
    "item": Fold._item,
    "llm_request": Fold._call,
    "llm_stream": Fold._call,
    "llm_response": Fold._call,
    "llm_error": Fold._call,
    "llm_interaction": Fold._call,
    "step_start": Fold._mark,
    "agent_step": Fold._step,
    "tool_call": Fold._tool,
    "tool_result": Fold._tool,
    "annotation": Fold._annotation,
    "redaction": Fold._redaction,
    "reward": Fold._reward,
    "gap": Fold._recorded_gap,
    "finalize": Fold._end,
}
