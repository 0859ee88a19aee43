"""Makes one run from the spans of one trace: its calls, tools and agents in the order of time.

The source may state a call twice: a framework and its client have both recorded the call (`tree.py`), or the call's
stream ended in a separate span. The run has such a call once. An agent's span may state the sums of the agent's calls.
These sums are not read, so no token is counted twice. The members of a span for which a run has no member are kept
unchanged in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from trace_recorder.dialects.call_ids import number_calls
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import Call, Event, ForeignRun, Histories, Members, TimedFact, ToolRun
from trace_recorder.formats.spans.attribute_names import genai, mcp, openinference
from trace_recorder.formats.spans.reading.payloads import read_input
from trace_recorder.formats.spans.reading.span import (
    ForeignSpan,
    SpanReading,
    add_own_facts,
    merged,
    scores,
    take_origin,
)
from trace_recorder.formats.spans.reading.tree import Node, Tree, tree_of
from trace_recorder.formats.spans.reading.unread_content import unread_content
from trace_recorder.formats.spans.reading.vocabularies.frameworks import read_logfire, read_openllmetry, read_vercel
from trace_recorder.formats.spans.reading.vocabularies.genai import read_events, read_genai
from trace_recorder.formats.spans.reading.vocabularies.openinference import read_openinference
from trace_recorder.formats.spans.reading.vocabularies.services import (
    read_atof,
    read_langfuse,
    read_langsmith,
    read_mlflow,
)
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import Status

_VOCABULARIES = (
    *(read_atof, read_mlflow, read_langsmith, read_langfuse, read_genai, read_events, read_openinference),
    *(read_openllmetry, read_vercel, read_logfire),
)
"""All vocabularies, the more specific first.

If two vocabularies state a fact differently, the vocabulary that comes first counts.
"""
_CANCELLED = ("CancelledError", "KeyboardInterrupt", "AbortError")
_OF_THE_RUN = (openinference.SESSION, "user.id", genai.CONVERSATION)
"""Attributes of spans that are about the run as a whole."""

_MAX_NAMES = 12
"""A gap lists at most this many names of spans, and says how many more there are."""


def traces(spans: Iterable[ForeignSpan]) -> Iterator[list[ForeignSpan]]:
    """Yield the spans of each trace, in the order in which the traces appear.

    If a span occurs twice, the last occurrence counts.
    """
    by_trace: dict[str, dict[str, ForeignSpan]] = {}
    for span in spans:
        _add(by_trace.setdefault(span.trace_id, {}), span)
    yield from ([*trace.values()] for trace in by_trace.values())


def _add(trace: dict[str, ForeignSpan], span: ForeignSpan) -> None:
    """Add a span to a trace.

    A span without an end does not replace the same span with an end. A pending span of Logfire announces a later span.
    The pending span is read as the later span, without an end.
    """
    if span.attributes.get("logfire.span_type") == "pending_span":
        span.span_id, span.parent_id, span.end = span.parent_id or span.span_id, None, ""
        parent = as_text(span.attributes.get("logfire.pending_parent_id"))
        if parent and parent.strip("0"):
            span.parent_id = parent
    earlier = trace.get(span.span_id)
    if earlier is None or span.end or not earlier.end:
        trace[span.span_id] = span


def run_of(spans: Iterable[ForeignSpan]) -> ForeignRun:
    """Return the run of one trace, which has at least one span."""
    ordered = sorted(spans, key=lambda span: span.start or span.end)
    tree = tree_of(_joined_streams([(span, _read_span(span)) for span in ordered]))
    root = tree.root
    first = min((node for node in tree.nodes if node.reading.kind == "call"), key=_start_of, default=None)
    run = ForeignRun(
        identity=root.span.trace_id,
        task=_task(tree, first),
        start_time=min((node.span.start for node in tree.nodes if node.span.start), default=""),
        end_time=max((node.span.end for node in tree.nodes), default=""),
        status=_status(root),
        final_result=next((node.reading.output for node in _tops(tree) if node.reading.output is not None), None),
        source=without_none(scopes=[*dict.fromkeys(node.span.scope for node in tree.nodes if node.span.scope)] or None),
        metadata=_metadata(tree),
    )
    if first is not None:
        run.provider, run.model = first.reading.provider, first.reading.model
    if run.status in {"failed", "interrupted"}:
        run.error = _error(root)
    run.session = as_text(run.metadata.get(openinference.SESSION, run.metadata.get(genai.CONVERSATION)))
    add_own_facts(run, root.span)
    all_scores = [score for node in tree.nodes for score in scores(node.span)]
    run.events = [*_events(tree), *run.events, *all_scores]  # `_events` is called last, because it keeps unread parts
    run.events += unread_content(tree.nodes)
    if not any(node.reading.kind for node in tree.nodes):
        run.status, run.error = "unknown", None
        run.events.append(_unknown(tree))
    return run


def _read_span(span: ForeignSpan) -> SpanReading:
    """Return the meaning of a span. If several vocabularies read the span, their readings complete each other."""
    readings = (read(span) for read in _VOCABULARIES)
    return merged(reading for reading in readings if reading is not None)


def _unknown(tree: Tree) -> TimedFact:
    """Return the gap of a trace without a span in a known vocabulary.

    Each name is masked before the names are joined, because a secret may not be recognised with other text behind it.
    """
    names = [*dict.fromkeys(default_redactor(node.span.name) for node in tree.nodes)]
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed = f"{listed} and {len(names) - _MAX_NAMES} more"
    why = f"no span has attributes of a known vocabulary; the names of the spans are: {listed}"
    return TimedFact.gap(what="the meaning of the spans", why=why)


def _joined_streams(pairs: list[tuple[ForeignSpan, SpanReading]]) -> list[tuple[ForeignSpan, SpanReading]]:
    """Join each span that has only the end of a streamed call to the span in which the call began.

    Return the remaining spans.
    """
    if not any(reading.continues for _, reading in pairs):
        return pairs
    kept: list[tuple[ForeignSpan, SpanReading]] = []
    open_calls: dict[str, list[int]] = {}
    for span, reading in pairs:
        key = to_json([span.parent_id, reading.model, [message.to_document() for message in reading.messages or ()]])
        waiting = open_calls.setdefault(key, [])
        if reading.continues and waiting:
            _join_stream(kept, waiting.pop(0), span, reading)
            continue
        if reading.kind == "call" and reading.response is None and not reading.continues and not span.failed:
            waiting.append(len(kept))
        kept.append((span, reading))
    return kept


def _join_stream(
    kept: list[tuple[ForeignSpan, SpanReading]], position: int, span: ForeignSpan, reading: SpanReading
) -> None:
    first_span, request = kept[position]
    first_span.end = max(first_span.end, span.end)
    first_span.more |= without_none(stream_span=span.unread_parts() or None)
    joined = merged([request, reading])
    joined.continues = False
    kept[position] = first_span, joined


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _events(tree: Tree) -> Iterator[Event]:
    histories, stated_ids = Histories(), _stated_ids(tree)
    for node in sorted(tree.nodes, key=_start_of):
        if node.reading.kind == "call":
            yield _call(node, tree, histories)
        elif node.reading.kind == "tool" and not _is_inside_tool(node):
            yield _tool_run(node, tree, stated_ids)
        yield from _kept(node)


def _start_of(node: Node) -> str:
    return node.span.start or node.span.end


def _call(node: Node, tree: Tree, histories: Histories) -> Call:
    span, reading = node.span, node.reading
    conversation, length = None, 0
    if reading.messages is not None:
        conversation, length = histories.add([message.to_document() for message in reading.messages])
    origin = take_origin(span, reading)
    call = Call(
        time=span.start,
        conversation=conversation,
        api=reading.api or "",
        length=length,
        response=_response(node),
        provider=reading.provider,
        model=reading.model or reading.response_model,
        tools=reading.tools or (),
        parameters=reading.parameters,
        interaction_id=span.span_id,
        agent=tree.agent_of(node),
        duration_seconds=span.seconds_until(span.end),
        time_to_first_token_seconds=reading.first_token_seconds,
        stream=reading.stream,
        complete=bool(span.end),
        replayed_from=origin,
    )
    if _has_failed(node):
        call.error = _error(node)
    if reading.first_token:
        call.time_to_first_token_seconds = span.seconds_until(reading.first_token)
    if not span.end:
        call.ended_by = "the source has no end of it"
    return call


def _response(node: Node) -> Members | None:
    reading = node.reading
    facts = (reading.response, reading.usage, reading.finish_reason, reading.response_id)
    if all(fact is None for fact in facts) and (_has_failed(node) or not node.span.end):
        return None
    response = reading.response or LLMResponse()
    whole = replace(
        response,
        tool_calls=number_calls(response.tool_calls),
        usage=reading.usage or Usage(),
        finish_reason=reading.finish_reason or response.finish_reason,
        model=reading.response_model or response.model,
        id=reading.response_id or response.id,
        given=None,
    )
    document = whole.to_document()
    choices = document.pop("choices", None)  # a member `choices` would be read as OpenAI's choices
    if choices is not None:
        document["extra"] = {**document.get("extra", {}), "choices": choices}
    return document


def _stated_ids(tree: Tree) -> set[str] | None:
    """Return the ids that the source states for tool calls, or None if every tool call has such an id.

    A framework may give its tools made-up ids that no tool call has. If a tool call has no id, a tool whose id is not
    in the returned set is matched to a tool call by name.
    """
    calls = [call for node in tree.nodes if node.reading.response for call in node.reading.response.tool_calls]
    if all(call.call_id and not call.call_id_made_up for call in calls):
        return None
    return {call.call_id for call in calls if call.call_id and not call.call_id_made_up}


def _tool_run(node: Node, tree: Tree, stated_ids: set[str] | None) -> ToolRun:
    span, reading = node.span, node.reading
    run = ToolRun(
        time=span.start,
        name=reading.name or span.name or "unnamed",
        arguments=reading.input,
        execution_id=span.span_id,
        ended=span.end or None,
        result=reading.output,
        duration_seconds=span.seconds_until(span.end),
        agent=tree.agent_of(node),
    )
    if stated_ids is None or reading.call_id in stated_ids:
        run.call_id = reading.call_id
    if span.end:
        run.success = not _has_failed(node)
    if _has_failed(node):
        run.error = _error(node)["message"]
    return run


def _is_inside_tool(node: Node) -> bool:
    """Return whether a span is a request to an MCP server inside a tool. Such a request is a part of the tool."""
    return node.tool is not None and mcp.METHOD in node.span.attributes


def _has_failed(node: Node) -> bool:
    if node.reading.failed is not None:
        return node.reading.failed
    return bool(node.span.failed)


def _error(node: Node) -> Members:
    """Return the error of a span from its exception, or otherwise from its status."""
    exception = next((event.attributes for event in node.span.events if event.name == genai.EXCEPTION_EVENT), {})
    kind = exception.get(genai.EXCEPTION_TYPE) or node.reading.error_type or "error"
    why = exception.get(genai.EXCEPTION_MESSAGE) or node.reading.error or node.span.status_message
    return {"type": str(kind), "message": str(why or kind)}


def _kept(node: Node) -> Iterator[TimedFact]:
    """Yield the parts of a span for which a run has no member.

    If the span is neither a call nor a tool, yield the whole span.
    """
    span, reading = node.span, node.reading
    remaining = span.unread_parts()
    members = without_none(
        span_id=span.span_id, parent_id=span.parent_id, name=span.name or None, scope=span.scope or None
    )
    if reading.kind in {"call", "tool"} and not _is_inside_tool(node):
        if reading.kind == "call" and reading.messages is None and reading.input is not None:
            remaining["input"] = reading.input
        if reading.kind == "tool" and reading.call_id is not None:
            members["call_id"] = reading.call_id
        if remaining:
            yield TimedFact.unread(what="more of a span", value={**members, **remaining}, time=span.start)
        return
    more = without_none(
        end=span.end or None,
        failed=span.failed,
        status_message=span.status_message,
        input=reading.input,
        output=reading.output,
    )
    what = "span"
    if reading.kind is not None:
        what = f"{reading.kind} span"
    yield TimedFact.unread(what=what, value={**members, **more, **remaining}, time=span.start)


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tops(tree: Tree) -> Iterator[Node]:
    """Yield the spans that may have the task and the result of the run: its root, and its main agent's spans."""
    nodes = chain([tree.root], (node for node in tree.nodes if node in tree.main))
    return (node for node in nodes if node.reading.kind in {None, "agent"})


def _status(root: Node) -> Status:
    if root.span.parent_id or not root.span.end:
        return "unknown"
    if not _has_failed(root):
        return "completed"
    if _error(root)["type"].endswith(_CANCELLED):
        return "interrupted"
    return "failed"


def _task(tree: Tree, first: Node | None) -> str | None:
    """Return the task of the run: its input, or otherwise the first message of the user."""
    run_input = next((node.reading.input for node in _tops(tree) if node.reading.input), None)
    if run_input is not None:
        return task_of(run_input)
    if first is None:
        return None
    return _question_in(first.reading.messages or ())


def task_of(value: Payload) -> str | None:
    """Return the input of a run as a text: a text itself, the first message of the user, or the input's JSON."""
    if isinstance(value, str):
        return value
    messages = read_input(value).messages
    if messages:
        return _question_in(messages)
    return to_json(value)


def _question_in(messages: Iterable[Message]) -> str | None:
    """Return the text of the first message of the user, or None."""
    return next((_text(message.content) for message in messages if message.role == "user"), None)


def _text(content: Payload) -> str | None:
    """Return a content that is a text, or the first text among its parts."""
    if isinstance(content, str):
        return content
    texts = (as_text(as_dict(part).get("text")) for part in as_list(content))
    return next((text for text in texts if text is not None), None)


def _metadata(tree: Tree) -> Members:
    metadata: Members = {}
    for name in _OF_THE_RUN:
        values = (node.span.attributes.get(name) for node in tree.nodes)
        known = [value for value in values if value is not None]
        if known:
            metadata[name] = known[0]
    return metadata
