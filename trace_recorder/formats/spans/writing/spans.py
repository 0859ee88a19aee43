"""A run as spans: a span for the main agent, and inside it spans for its steps, calls, tools and sub-agents.

`plan_spans` returns which spans a run has, how they are nested, and which of them can no longer change. `plan_spans`
reads no messages. `PlannedSpan.make` makes a span. So a run is exported span by span, with one prompt in memory. While
a run is being recorded, exporters send only the spans that can no longer change.

A delivered span cannot be changed. A reward becomes an event in the span of its step or run, if that span is not
delivered yet. Otherwise `plan_additions` makes a span `evaluate NAME` inside that span, with the same event. An
annotation becomes an attribute of the run's own span, or else a span `annotate KEY`. Each reward and each annotation
has an id. By this id, an exporter knows whether the reward or annotation was delivered before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from trace_recorder.dialects.dialect import is_in_progress
from trace_recorder.figures.content.kinds import INTERLEAVING, NAMES, THOUGHTS
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import SIDES, ContentSupport, FormatSupport, count_unsupported_contents
from trace_recorder.formats.spans.writing.messages import prompt_of
from trace_recorder.formats.spans.writing.span import Attributes, AttributeValue, Span, SpanKind
from trace_recorder.formats.spans.writing.span_maker import Conventions, SpanMaker
from trace_recorder.formats.spans.writing.tree import SpanTree, annotation_id, reward_id
from trace_recorder.reading.relations.prompt_relations import relations_of, turns_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import PARENT_CONTEXT
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.version import __version__

_SUPPORTED: FormatSupport = {
    **dict.fromkeys(SIDES, ContentSupport.of(THOUGHTS, NAMES, locations=("part", "images"))),
    "answers": ContentSupport.of(THOUGHTS, INTERLEAVING, locations=("part", "images", "images made")),
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

    `conventions` chooses the names and forms of attributes: OpenTelemetry's, OpenInference's, both, or Langfuse's. If
    `content` is False, prompts, answers, arguments and results are left out. Each call has its whole prompt, as the
    conventions require, so the size grows with the square of the number of calls. If `new_messages` is True, a call has
    only the messages after the prompt of the earlier call that its prompt extends.
    """
    if content:
        count_unsupported_contents(turns_of(trajectory), left_out, _SUPPORTED)
    maker = SpanMaker.of(conventions, content=content)
    for planned in plan_spans(trajectory, maker, new_messages=new_messages):
        yield planned.make()


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span of a run that has not been made yet.

    `is_final` is True if later records of the run cannot change the span. `addition_ids` are the ids of the rewards and
    annotations in the span.
    """

    span_id: str
    kind: Literal["agent", "step", "call", "tool", "addition"]
    is_final: bool
    make: Callable[[], Span]
    addition_ids: tuple[str, ...] = ()


def plan_spans(trajectory: Trajectory, maker: SpanMaker, *, new_messages: bool = False) -> list[PlannedSpan]:
    """Return a plan of each span that the run has so far. No span is made.

    If `maker` was used for an earlier state of the run, the same messages are not encoded again.
    """
    maker = maker.for_run(trajectory)
    tree = SpanTree.of(trajectory, maker.ids)
    return [*_SpanPlanner(tree, maker, new_messages, tree.addition_ids()).spans()]


@dataclass(frozen=True, slots=True)
class _SpanPlanner:
    """Decides which spans are final, and how each is made."""

    tree: SpanTree
    maker: SpanMaker
    new_messages: bool
    addition_ids: Mapping[str, Sequence[str]]

    @property
    def _has_ended(self) -> bool:
        return self.tree.trajectory.status not in {"running", "unknown"}

    def spans(self) -> Iterator[PlannedSpan]:
        """Yield the spans of the run, of its agents and steps, and of the calls and tools in them."""
        tree = self.tree
        make_run = partial(self.maker.run, tree.root)
        yield PlannedSpan(tree.root, "agent", self._has_ended, make_run, (*self.addition_ids[tree.root],))
        for key, agent in tree.agents.items():
            span = tree.agent_span(key)
            make = partial(self.maker.sub_agent, span, tree.parent_of_agent(agent), agent)
            yield PlannedSpan(span, "agent", self._has_ended, make)
        yield from self._steps()
        yield from self._calls()
        for tool in tree.tools:
            span = tree.tool_span(tool)
            yield PlannedSpan(span, "tool", True, partial(self.maker.tool, span, tree.parent_of_tool(tool), tool))
            for number, call in enumerate(tool.inner):
                inner = tree.server_call_span(tool, number)
                yield PlannedSpan(inner, "tool", True, partial(self.maker.server_call, inner, span, call))

    def _steps(self) -> Iterator[PlannedSpan]:
        newest: set[str | None] = set()
        planned = []
        for step in reversed(self.tree.steps):
            is_over = step.duration_seconds is not None or key_of_agent(step) in newest
            is_waiting = step.llm_response is not None and is_in_progress(step.llm_response)
            is_final = self._has_ended or (is_over and not is_waiting)
            newest.add(key_of_agent(step))
            span = self.tree.step_span(step)
            make = partial(self.maker.step, span, self.tree.agent_span(key_of_agent(step)), step)
            planned.append(PlannedSpan(span, "step", is_final, make, (*self.addition_ids.get(span, ()),)))
        yield from reversed(planned)

    def _calls(self) -> Iterator[PlannedSpan]:
        """Yield the calls.

        A failed call is final when its agent has made a later call, because until then the failed call may be retried.
        A call that the provider answers in the background is final when its answer is final.
        """
        latest: dict[str | None, LLMInteraction] = {key_of_agent(call): call for call in self.tree.calls}
        by_id = {call.interaction_id: call for call in self.tree.calls}
        for call in self.tree.calls:
            key = key_of_agent(call)
            is_over = (call.answered and call.complete and call.error is None) or latest[key] is not call
            is_final = self._has_ended or (is_over and not is_in_progress(call.response))
            make = partial(self._make_call, call, by_id)
            yield PlannedSpan(self.tree.call_span(call), "call", is_final, make)

    def _make_call(self, call: LLMInteraction, by_id: Mapping[str, LLMInteraction]) -> Span:
        tree, extended = self.tree, None
        if self.new_messages:
            relation = relations_of(tree.trajectory).of(call)
            if relation.kind != "refers" and relation.comparison.extends:
                extended = by_id.get(relation.base or "")
        prompt = prompt_of(call, extended)
        return self.maker.call(tree.call_span(call), tree.parent_of_call(call), call, prompt)


def plan_additions(tree: SpanTree, maker: SpanMaker) -> Iterator[PlannedSpan]:
    """Yield a span for each reward, and, if the maker writes contents, for each annotation.

    The caller skips the spans that were delivered before.
    """
    for number, (reward, span) in enumerate(zip(tree.trajectory.rewards, tree.spans_of_rewards(), strict=True)):
        identity = reward_id(tree.ids, number, reward)
        yield PlannedSpan(identity, "addition", True, partial(maker.reward, identity, span, reward))
    if not maker.content:
        return
    for key, value in tree.trajectory.annotations.items():
        if key != PARENT_CONTEXT:
            identity = annotation_id(tree.ids, key, value)
            yield PlannedSpan(identity, "addition", True, partial(maker.annotation, identity, tree.root, key))


SCOPE = "trace_recorder"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
KINDS: Mapping[SpanKind, int] = {"internal": 1, "client": 3}
_FAILED = 2


@view
def to_otlp(
    left_out: LeftOut,
    trajectory: Trajectory,
    conventions: Conventions = "genai",
    *,
    content: bool = True,
    new_messages: bool = False,
    service_name: str = "trace_recorder",
) -> Iterator[dict[str, Payload]]:
    """Yield a run as OTLP JSON, an object for each span. The arguments are those of `to_spans`."""
    spans, report = to_spans.with_report(trajectory, conventions, content=content, new_messages=new_messages)
    resource = {"attributes": [_key_value("service.name", service_name)]}
    scope = {"name": SCOPE, "version": __version__}
    for span in spans:
        yield {
            "resourceSpans": [
                {
                    "resource": resource,
                    "scopeSpans": [{"scope": scope, "spans": [_span(span)], "schemaUrl": SCHEMA_URL}],
                    "schemaUrl": SCHEMA_URL,
                }
            ]
        }
    left_out.update(report)


def _span(span: Span) -> dict[str, Payload]:
    status: dict[str, Payload] = {}
    if span.error is not None:
        status["code"] = _FAILED
    if span.error:
        status["message"] = span.error
    events = [
        {"timeUnixNano": str(event.time), "name": event.name, "attributes": _attributes(event.attributes)}
        for event in span.events
    ]
    return without_none(
        traceId=span.trace_id,
        spanId=span.span_id,
        parentSpanId=span.parent_id or None,
        name=span.name,
        kind=KINDS[span.kind],
        startTimeUnixNano=str(span.start),
        endTimeUnixNano=str(span.end),
        attributes=_attributes(span.attributes),
        events=events or None,
        status=status,
        flags=1,
    )


def _attributes(attributes: Attributes) -> list[Payload]:
    return [_key_value(name, value) for name, value in attributes.items()]


def _key_value(name: str, value: AttributeValue) -> dict[str, Payload]:
    return {"key": name, "value": _value(value)}


def _value(value: AttributeValue) -> dict[str, Payload]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [*map(_value, value)]}}
    return {"stringValue": value}
