"""A run as spans: one for the run's agent, and under it its steps, calls, tools and sub-agents.

`plan_spans` says which spans a run has, how they are nested, and which of them will not change any more while the run
goes on; it reads no message. `PlannedSpan.make` makes one. So a run is exported span by span, each as large as its own
prompt, and a run that goes on is sent as far as it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.call_chains import turns_of
from trace_recorder.views.conversations.chained_call import agent_key
from trace_recorder.views.conversations.steps_as_calls import call_of_step
from trace_recorder.views.left_out import ContentSupport, FormatSupport, count_unsupported_contents
from trace_recorder.views.otlp.agents import AgentRecords, Agents
from trace_recorder.views.otlp.made import Conventions, SpanMaker
from trace_recorder.views.otlp.prompts import prompt_of
from trace_recorder.views.otlp.span import Span, SpanIds
from trace_recorder.views.otlp.tools import ToolRun, tool_runs
from trace_recorder.views.view import LeftOut, view

_PARTS = ContentSupport.of("thoughts", "names of speakers", locations=("part", "images"))
_SUPPORTED: FormatSupport = {
    "instructions": _PARTS,
    "questions": _PARTS,
    "tool results": _PARTS,
    "answers": ContentSupport.of("thoughts", "interleaved thoughts, texts and calls", locations=("part", "images")),
}


@view
def to_spans(
    left_out: LeftOut,
    trajectory: Trajectory,
    conventions: Conventions = "genai",
    *,
    content: bool = True,
    new_messages: bool = False,
) -> Iterator[Span]:
    """Yield the spans of a run: its agents, its steps, its calls, its tools.

    `conventions` are those of OpenTelemetry, of OpenInference, or both. Without `content` there is nothing in them that
    anyone said or that a tool gave. Each call has its whole prompt, as the conventions want it, which makes more text
    the longer a run is; with `new_messages` it has what is new since the call before.
    """
    if content:
        count_unsupported_contents(turns_of(trajectory), left_out, _SUPPORTED)
    maker = SpanMaker.of(conventions, content=content)
    for planned in plan_spans(trajectory, maker, new_messages=new_messages):
        yield planned.make()


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span that can be made. `is_final` is whether it will be the same however the run goes on."""

    span_id: str
    kind: Literal["agent", "step", "call", "tool"]
    is_final: bool
    make: Callable[[], Span]


def plan_spans(trajectory: Trajectory, maker: SpanMaker, *, new_messages: bool = False) -> list[PlannedSpan]:
    """Return the spans of a run as far as it has come. None is made yet.

    A `maker` that made spans of an earlier state of the run encodes no message again.
    """
    return [*_Plan(trajectory, maker.at(trajectory), new_messages).spans()]


@dataclass(slots=True)
class _Plan:
    """The nesting of a run's spans."""

    trajectory: Trajectory
    maker: SpanMaker
    new_messages: bool
    ids: SpanIds = field(init=False)
    agents: Agents = field(init=False)
    _has_ended: bool = field(init=False)
    _step_of: dict[str, AgentStep] = field(init=False)
    _tools: list[ToolRun] = field(init=False)
    _calls_made: list[LLMInteraction] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = self.maker.ids
        self._has_ended = self.trajectory.status not in {"running", "unknown"}
        recorded = [step for step in self.trajectory.agent_steps if not step.derived]
        self._step_of = {name: step for step in recorded for name in _interactions_of(step)}
        self._calls_made = [*self.trajectory.llm_interactions]
        if not self._calls_made:
            self._take_steps_as_calls()
        self._tools = [*tool_runs(self.trajectory)]
        self.agents = Agents.of(self.trajectory)

    def _take_steps_as_calls(self) -> None:
        """Take the steps of a run without calls for calls, where they say what a model was shown or said."""
        for number, step in enumerate(self.trajectory.agent_steps, start=1):
            if not step.derived and (step.messages or step.llm_response):
                call = call_of_step(number, step)
                self._calls_made.append(call)
                self._step_of[call.interaction_id] = step

    def spans(self) -> Iterator[PlannedSpan]:
        """Yield the run's own span, those of its agents, of its steps, and of what happened in them."""
        root = self.ids.span_id("run")
        yield PlannedSpan(root, "agent", self._has_ended, partial(self.maker.run, root))
        for key, agent in self.agents.found.items():
            span = self.ids.span_id("agent", key)
            make = partial(self.maker.sub_agent, span, self._parent_of_agent(agent), agent)
            yield PlannedSpan(span, "agent", self._has_ended, make)
        yield from self._steps()
        yield from self._calls()
        for tool in self._tools:
            span = self.ids.span_id("tool", *tool.identity)
            make = partial(self.maker.tool, span, self._parent_of_tool(tool), tool)
            yield PlannedSpan(span, "tool", True, make)

    def _steps(self) -> Iterator[PlannedSpan]:
        newest: set[str | None] = set()
        found = []
        for step in reversed([step for step in self.trajectory.agent_steps if not step.derived]):
            is_final = self._has_ended or step.duration_seconds is not None or agent_key(step) in newest
            newest.add(agent_key(step))
            span = self._step_span(step)
            found.append(PlannedSpan(span, "step", is_final, partial(self._make_step, span, step)))
        yield from reversed(found)

    def _make_step(self, span: str, step: AgentStep) -> Span:
        return self.maker.step(span, self._agent_span(agent_key(step)), step)

    def _calls(self) -> Iterator[PlannedSpan]:
        """Yield the calls. One that failed is final when its agent went on: until then it may be tried again."""
        latest: dict[str | None, LLMInteraction] = {agent_key(one): one for one in self._calls_made}
        before: dict[str | None, LLMInteraction] = {}
        for one in self._calls_made:
            key = agent_key(one)
            is_over = one.answered and one.complete and one.error is None
            is_final = self._has_ended or is_over or latest[key] is not one
            span = self.ids.span_id("call", one.interaction_id)
            make = partial(self._make_call, span, one, before.get(key) if self.new_messages else None)
            yield PlannedSpan(span, "call", is_final, make)
            before[key] = one

    def _make_call(self, span: str, one: LLMInteraction, before: LLMInteraction | None) -> Span:
        step = self._step_of.get(one.interaction_id)
        is_inside = step is not None and agent_key(step) == agent_key(one)
        parent = self._step_span(step) if step and is_inside else self._agent_span(agent_key(one))
        return self.maker.call(span, parent, one, prompt_of(one, before))

    # ── what a span is in ────────────────────────────────────────────────────────────────────────────────────────

    def _agent_span(self, key: str | None) -> str:
        return self.ids.span_id("agent", key) if key is not None else self.ids.span_id("run")

    def _step_span(self, step: AgentStep) -> str:
        return self.ids.span_id("step", str(step.step_number), step.timestamp, agent_key(step) or "")

    def _parent_of_agent(self, agent: AgentRecords) -> str:
        """Return the tool that an agent was started in, or else the step, or else the agent that started it."""
        if agent.execution_id is not None:
            tool = next((tool for tool in self._tools if tool.execution_id == agent.execution_id), None)
            if tool is not None:
                return self.ids.span_id("tool", *tool.identity)
        step = self._step_of.get(agent.first.interaction_id) if isinstance(agent.first, LLMInteraction) else None
        if step is not None and agent_key(step) != agent.key:
            return self._step_span(step)
        parent = agent.first.parent_agent_id
        return self._agent_span(parent if parent in self.agents.found and parent != agent.key else None)

    def _parent_of_tool(self, tool: ToolRun) -> str:
        return self._agent_span(agent_key(tool.step)) if tool.step.derived else self._step_span(tool.step)


def _interactions_of(step: AgentStep) -> list[str]:
    own = [step.interaction.interaction_id] if step.interaction else []
    return [*step.interaction_ids, *own]
