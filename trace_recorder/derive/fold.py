"""The fold: a journal's records → a `Trajectory`. A pure function of the records, whatever is missing of them.

Every prefix of a journal folds. A record that cannot be read costs the interactions that use it, which then say so
in `gaps`, and no other. What belongs together is known by `interaction_id`; the order is that in which the
interactions began. Readers give the meaning of what went over the wire; they can be mended, and old runs read better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from operator import itemgetter
from typing import TypeVar

from trace_recorder.derive.interactions import ENDINGS, Call, asks_for_stream, interaction_of, stated_error
from trace_recorder.derive.requests import Readings
from trace_recorder.derive.steps import is_step, step_of
from trace_recorder.derive.tool_executions import Executions
from trace_recorder.derive.tool_matching import MarkedStep, ToolStep, agent_key
from trace_recorder.dialects.json_access import as_int
from trace_recorder.dialects.manual import read_step
from trace_recorder.guard import try_call
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.metrics import Tally, metrics_of
from trace_recorder.values.trajectory import AgentStep, Gap, Reward, Status, Trajectory

Kept = TypeVar("Kept")

MISSING = "lines of the journal"
"""What a gap says that is told of numbers, or of an end, which are not there."""
DOUBLES = 4096
"""Of so many captured responses a draft knows the ids, lest one is recorded by hand too."""
TOLD_LINES = 1000
"""So many damaged lines are told one by one; more are counted."""


@dataclass(slots=True)
class Fold:
    """Takes records one after another; `trajectory()` gives what they say so far.

    `calls` are the interactions' records, `changed` the ids of those of which there is more than when it was emptied
    last, `executions` what is known of their tools, `captured` the ids of captured responses, `handed_over` those of
    responses that were recorded by hand, each with its interactions', `doubles` the ids of those interactions that
    were captured too. `steps` are those that the agent recorded, `marked` those with a block by their ids. `masked`
    counts the secrets that records say were masked in them.
    """

    items: ItemTable = field(default_factory=ItemTable)
    render: Callable[[Message], bytes] = lambda _: b""
    calls: dict[str, Call] = field(default_factory=dict)
    executions: Executions = field(default_factory=Executions)
    start: Record | None = None
    end: Record | None = None
    steps: list[MarkedStep] = field(default_factory=list)
    marked: dict[str, MarkedStep] = field(default_factory=dict)
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
    handed_over: dict[str, dict[str, None]] = field(default_factory=dict)
    doubles: dict[str, None] = field(default_factory=dict)
    readings: Readings = field(init=False)
    _last: int = 0
    _damaged: int = 0
    _bad_lines: int = 0
    _more_lines: int = 0
    _more_bytes: int = 0
    _heard: list[tuple[Call | None, Record]] = field(default_factory=list)
    _made: dict[str, LLMInteraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.readings = Readings(self.items, self.render)

    @property
    def changed(self) -> dict[str, None]:
        """The ids of the interactions of which there is more than when it was emptied last."""
        return self.executions.changed

    @property
    def changed_marks(self) -> dict[str, None]:
        """The ids of the steps with blocks of which there is more than when it was emptied last."""
        return self.executions.changed_marks

    def add(self, record: Record | BadLine) -> None:
        """Take one record. A kind that is not known is passed over: it is of a later version."""
        if isinstance(record, BadLine):
            self._bad_line(record)
            return
        self.records += 1
        self._look_for_missing(record)
        if redacted := as_int(record.data.get("redacted")):
            self.masked.add({"redactions": redacted})
        take = _TAKE.get(record.kind)
        if take is not None:
            try_call(partial(take, self, record), partial(self._gap, record))

    @property
    def ends_in_damage(self) -> bool:
        """Whether the newest line is damaged, and not only torn: it is told of already."""
        return self._damaged > 0 and self.torn is None

    def _look_for_missing(self, record: Record) -> None:
        """Tell of numbers that are not there, where there are more of them than damaged lines since the last one."""
        last, damaged = self._last, self._damaged
        if isinstance(record.seq, int):
            missing = record.seq - last - 1
            self._last, self._damaged = record.seq, 0
            if missing > damaged:
                which = f"record {last + 1} is" if missing == 1 else f"records {last + 1} to {record.seq - 1} are"
                self.gaps.append(Gap(record.time, MISSING, f"{which} missing"))

    def _bad_line(self, line: BadLine) -> None:
        self._damaged += 1
        if line.torn:
            self.torn = line
        elif self._bad_lines < TOLD_LINES:
            self._bad_lines += 1
            self.gaps.append(
                Gap(None, "a damaged line of the journal", f"{line.length} bytes at {line.offset}: {line.why}")
            )
        else:
            self._more_lines, self._more_bytes = self._more_lines + 1, self._more_bytes + line.length

    def _gap(self, record: Record, error: Exception) -> None:
        why = f"record {record.seq}: {type(error).__name__}: {error}"
        self.gaps.append(Gap(record.time, f"a {record.kind} record could not be used", why))

    def _item(self, record: Record) -> None:
        self.items.add_record(record)

    def _call(self, record: Record) -> None:
        identity = record.data["interaction_id"]
        call = self.calls.get(identity)
        if call is None:
            call = self.calls[identity] = Call(identity, self.items, record.seq)
            if record.data.get("api") != "embeddings":
                self.executions.steps.end(agent_key(record.data))
            mark = self._mark(record)
            if mark is not None and mark.identity is not None:
                mark.interactions.append(identity)
                self.executions.mark_of[identity] = mark.identity
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
            self._begin_step(record, self.marked[identity])
        self.changed_marks[identity] = None
        return self.marked[identity]

    def _begin_step(self, record: Record, step: MarkedStep) -> None:
        self.steps.append(step)
        self.executions.has_marks = True
        self.executions.steps.end(agent_key(record.data))

    def _step(self, record: Record) -> None:
        self.items.add_base(record.seq, record.data["items"])
        told = read_step(self.items.expand(record.data), record.data, record.time)
        mark = self._mark(record)
        if mark is None:
            self._begin_step(record, MarkedStep(told, record.seq))
            self._heard.append((None, record))
        else:
            mark.tell(told)

    def _tool(self, record: Record) -> None:
        self.executions.begin(record, self._mark(record))
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
                read = self._read_tool if record.kind != "agent_step" else self._read_told
                try_call(partial(read, record), partial(self._gap, record))
                continue
            if "items" in record.data:
                try_call(partial(self._read_request, call, record), lambda _: None)
            if call.by_hand or record.kind in ENDINGS:
                try_call(partial(self._read_response, call, record), partial(self._gap, record))
            breathe()

    def _read_request(self, whole: Call, record: Record) -> None:
        """Read a request as far as it is new, and give what it brings back from tools to those who asked."""
        call = whole if whole.begin is record.data else whole.until(record)
        call.known = try_call(partial(self.readings.read, call.interaction_id, call.begin), lambda _: None)
        streams = asks_for_stream(call.begin)
        self.executions.host(call.begin.get("parent_execution_id"))
        self.executions.request(call.interaction_id, agent_key(call.begin), call.new_tool_results, streams=streams)

    def _read_response(self, whole: Call, record: Record) -> None:
        call = whole.until(record)
        during = self.executions.ended(call.interaction_id)
        one = self.interaction(call) if call is whole else self._make(call)
        if one is None or not one.answered or self.is_double(one):
            return
        if one.api is None and one.response.id:
            same = self.handed_over.setdefault(one.response.id, {})
            same[one.interaction_id] = None
            keep_newest(same, DOUBLES)
        elif one.response.id:
            self.captured[one.response.id] = None
            for double in self.handed_over.pop(one.response.id, ()):
                left = self.executions.leave(double, one.agent_id or one.agent)
                during.uses |= {name: use for name, use in left.uses.items() if use.since > call.since}
                during.results += left.results
                self.doubles[double] = self.changed[double] = None
        self.executions.response(one, call.first.seq, during)

    def _read_tool(self, record: Record) -> None:
        self.executions.read(record, self._mark(record))

    def _read_told(self, record: Record) -> None:
        """Read of which calls a step tells that has no block."""
        self.executions.tell(read_step({}, record.data, record.time).tool_calls)

    def is_double(self, one: LLMInteraction) -> bool:
        """Whether an interaction was recorded by hand that was captured too."""
        return one.api is None and one.response.id in self.captured

    def forget(self, identity: str, one: LLMInteraction | None) -> None:
        """Let go of an interaction's records: nothing more is to come of it."""
        del self.calls[identity]
        self._made.pop(identity, None)
        self.executions.forget(identity, one)

    def interactions(self) -> list[LLMInteraction]:
        """The interactions, in the order in which they began; one recorded by hand that was captured too, once."""
        made = [one for call in self.calls.values() if (one := self.interaction(call)) is not None]
        return [one for one in made if not self.is_double(one)]

    def interaction(self, call: Call) -> LLMInteraction | None:
        """An interaction, made of its records once; what no reader can make sense of is a gap."""
        identity = call.interaction_id
        if identity in self._made:
            return self._made[identity]
        made = self._make(call)
        if made is not None:
            self._made[identity] = made
        return made

    def _make(self, call: Call) -> LLMInteraction | None:
        identity = call.interaction_id
        if identity in self.senseless:
            return None

        def give_up(error: Exception) -> None:
            self.senseless.add(identity)
            self.readings.forget(identity)
            self.executions.leave(identity)
            self._gap(call.first, error)

        return try_call(partial(interaction_of, call), give_up)

    def trajectory(self, status: Status) -> Trajectory:
        """What the records say; `status` is that of a journal without an end."""
        self.bring_up()
        interactions = self.interactions()
        steps = [*self._steps(interactions)]
        return replace(
            self.outline(status, interactions[0] if interactions else None),
            metrics=metrics_of(interactions, steps, self.masked),
            llm_interactions=interactions,
            agent_steps=[self.summarised(step) for step in steps],
            gaps=(*self.all_gaps(), *unreadable(interactions)),
        )

    def _steps(self, interactions: Iterable[LLMInteraction]) -> Iterator[AgentStep]:
        """The steps in the order in which they began: those that the agent recorded, or else one for each call."""
        places: list[tuple[int, MarkedStep | ToolStep | LLMInteraction]]
        if self.steps:
            places = [(mark.since, mark) for mark in self.steps]
        else:
            places = [(self.calls[one.interaction_id].since, one) for one in interactions if is_step(one)]
        numbers = count(1)
        for _, place in sorted(
            [*places, *((one.since, one) for one in self.executions.steps.steps)], key=itemgetter(0)
        ):
            if isinstance(place, MarkedStep):
                yield self.step(place)
            elif isinstance(place, ToolStep):
                yield place.step(next(numbers), self.executions.answers)
            else:
                yield self.derived(next(numbers), place)

    def shown_by(self, identity: str) -> Mapping[object, None]:
        """The steps that show something of an interaction, by id or themselves: its own, and those of its tools."""
        own = self.executions.mark_of.get(identity)
        return {**({own: None} if own else {}), **self.executions.shown_with(identity)}

    def derived(self, number: int, one: LLMInteraction) -> AgentStep:
        """The step that derives from an interaction."""
        answers = self.executions.answers.get(one.interaction_id, {})
        return step_of(number, one, answers, self.executions.uses.get(one.interaction_id, ()))

    def step(self, mark: MarkedStep) -> AgentStep:
        """A step that the agent recorded, with what was inside its block."""
        calls = [self.calls[identity] for identity in mark.interactions if identity in self.calls]
        made = [one for call in calls if (one := self.interaction(call)) is not None and not self.is_double(one)]
        asked = [use for one in made for use in self.executions.uses.get(one.interaction_id, ()) if use.asker]
        return mark.step(made, self.executions.answers, asked)

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
            gaps=self.all_gaps(),
        )

    def all_gaps(self) -> tuple[Gap, ...]:
        """What the journal says is missing, and what of it cannot be read."""
        if not self._more_lines:
            return tuple(self.gaps)
        more = Gap(None, "damaged lines of the journal", f"{self._more_lines} more, {self._more_bytes} bytes")
        return (*self.gaps, more)

    def summarised(self, step: AgentStep) -> AgentStep:
        """A step with the summary that was added to it, if there is one.

        Where the agent numbers steps, it is none of those that it did not record.
        """
        if step.derived and self.executions.has_marks:
            return step
        summary = self.summaries.get(to_json(step.step_number)) if self.summaries else None
        return replace(step, extra={**step.extra, "lakeview_summary": summary}) if summary is not None else step


def keep_newest(ids: dict[str, Kept], most: int) -> None:
    """Let go of the oldest beyond so many."""
    while len(ids) > most:
        del ids[next(iter(ids))]


def unreadable(interactions: Iterable[LLMInteraction]) -> list[Gap]:
    """Say of which interactions the request cannot be put together again, or the stream not be unpacked."""
    gaps = []
    for one in interactions:
        if not one.source.has_request():
            why = "a record that it needs is damaged or missing"
            gaps.append(Gap(one.timestamp, f"the request of {one.interaction_id}", why))
        if isinstance(one.source, Call) and one.source.is_damaged:
            gaps.append(Gap(one.timestamp, f"the stream of {one.interaction_id}", "it cannot be unpacked"))
    return gaps


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
