"""Trae Agent's own document: the members that Trae Agent writes, in the same order, and no other members.

Our document has all of these members and more. This view is for readers that refuse unknown members. Additions, such as
attempts and rewards, are left out. `input_messages` is the complete prompt. A document without `schema_version` is read
as a run of Trae Agent, if no journal is beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.figures.call_figures import REPLAYED_FROM
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter, LeftOut, view
from trace_recorder.formats.left_out import (
    ARGUMENTS,
    OTHER_CALLS,
    SIDES,
    STEP_NOTES,
    UNANSWERED,
    UNREQUESTED_TOOLS,
    ContentSupport,
    FormatSupport,
    count_all_but,
    count_unsupported_contents,
)
from trace_recorder.formats.own_documents import is_document, read_document
from trace_recorder.formats.shared_document import SharedMessages, interaction_documents
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import AgentStep, Trajectory

_ROOT = (
    *("task", "start_time", "end_time", "provider", "model", "max_steps", "llm_interactions", "agent_steps"),
    *("success", "final_result", "execution_time"),
)
_INTERACTION = ("timestamp", "provider", "model", "input_messages", "response", "tools_available")
_RESPONSE = ("content", "model", "finish_reason", "usage", "tool_calls")
_USAGE = (
    *("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    "reasoning_tokens",
)
_STEP = (
    *("step_number", "timestamp", "state", "llm_messages", "llm_response", "tool_calls", "tool_results"),
    *("reflection", "error"),
)
_SUPPORTED: FormatSupport = dict.fromkeys(SIDES, ContentSupport.of(locations=("part", "beside a text")))
"""Parts of messages in requests are written as they were sent. Answers have only texts and tool calls."""
_CALL = ("call_id", "name", "arguments")
_RESULT = ("call_id", "success", "result", "error", "name")


@view
def to_trae(left_out: LeftOut, trajectory: Trajectory) -> dict[str, Payload]:
    """Return a run as the document that Trae Agent itself would have written, except that timestamps have offsets.

    A message that several calls sent is the same object in all of them, so do not change the object.
    """
    document = _only({**trajectory.head(), **trajectory.tail("inline")}, _ROOT)
    messages = SharedMessages(lambda message: [*_messages(message.to_document())])
    document["llm_interactions"] = [
        _interaction(call, left_out) for call in interaction_documents(trajectory, messages)
    ]
    count_unsupported_contents(turns_of(trajectory), left_out, _SUPPORTED)
    document["agent_steps"] = [_step(step) for step in trajectory.agent_steps]
    count_all_but(trajectory, left_out, UNANSWERED, ARGUMENTS, OTHER_CALLS, STEP_NOTES, UNREQUESTED_TOOLS)
    return document


def _only(members: Mapping[str, Payload], names: Iterable[str]) -> dict[str, Payload]:
    return {name: members.get(name) for name in names}


def _interaction(members: Mapping[str, Payload], left_out: LeftOut) -> dict[str, Payload]:
    left_out.add("errors of calls", members.get("error") is not None)
    interaction = _only(members, _INTERACTION)
    interaction["input_messages"] = members.get("input_messages", [])
    interaction["response"] = {}
    if members["response"]:
        interaction["response"] = _response(members["response"])
    if REPLAYED_FROM in members:
        interaction["response"].pop("usage", None)
        left_out.add("marks of calls that were not made, and the usage of their answers")
    return interaction


def _response(response: Mapping[str, Payload]) -> dict[str, Payload]:
    members = _only(response, _RESPONSE) | {"content": _text(response.get("content"))}
    usage = as_dict(response.get("usage"))
    if usage:
        members["usage"] = {name: usage[name] for name in _USAGE if name in usage}
    else:
        del members["usage"]
    members["tool_calls"] = _each_only(response.get("tool_calls"), _CALL)
    return members


def _messages(message: Mapping[str, Payload]) -> Iterator[dict[str, Payload]]:
    """Yield a message in Trae's form, with at most one tool call or result.

    Each further tool call becomes a message of its own.
    """
    common = {"role": message.get("role"), "content": _text(message.get("content"))}
    if isinstance(message.get("tool_result"), dict) and message["tool_result"]:
        yield common | {"tool_result": _only(message["tool_result"], _RESULT)}
    elif message.get("role") == "tool":
        result = {"call_id": message.get("call_id") or "", "success": True, "result": common["content"], "error": None}
        yield {"role": "user", "content": None, "tool_result": result | {"name": message.get("name")}}
    else:
        listed = as_list(message.get("tool_calls")) or [message.get("tool_call")]
        calls = [call for call in listed if isinstance(call, dict) and call]
        if calls:
            common["tool_call"] = _only(calls[0], _CALL)
        yield common
        for call in calls[1:]:
            yield {"role": message.get("role"), "content": None, "tool_call": _only(call, _CALL)}


def _text(content: Payload) -> Payload:
    """Return a content in Trae's form: a text or a list of parts. Any other content is written as JSON."""
    if content is None or isinstance(content, str | list):
        return content
    return json.dumps(content, ensure_ascii=False)


def _step(recorded: AgentStep) -> dict[str, Payload]:
    step = recorded.to_document()
    members = _only(step, _STEP)
    if step.get("llm_response"):
        members["llm_response"] = _response(step["llm_response"])
        if recorded.interaction is not None and recorded.interaction.is_replayed:
            members["llm_response"].pop("usage", None)
    members["llm_messages"] = [
        part for message in step.get("llm_messages") or () for part in _messages(message)
    ] or None
    members["tool_calls"] = _each_only(step.get("tool_calls"), _CALL)
    members["tool_results"] = _each_only(step.get("tool_results"), _RESULT)
    if "lakeview_summary" in step:
        members["lakeview_summary"] = step["lakeview_summary"]
    return members


def _each_only(elements: Payload, names: Iterable[str]) -> list[Payload] | None:
    """Return the objects in a list, each with only these members, or None if the list has no objects."""
    return [_only(element, names) for element in as_list(elements) if isinstance(element, dict)] or None


def _is_trae_document(source: Source) -> bool:
    return is_document(source) and "schema_version" not in source.document


FORMAT = Format(
    name="trae-agent",
    reader=FormatReader(recognizes=_is_trae_document, read=partial(read_document, "trae-agent"), counting=WHOLE),
    writer=FormatWriter(kind="documents", view=to_trae),
    export_name="trae",
)
