"""Values that an agent records by hand, read in the common form."""

from __future__ import annotations

import pytest

from trace_recorder.dialects.dialect import DIALECTS
from trace_recorder.dialects.manual import message_of_agent, read_tool, read_usage
from trace_recorder.values.messages import Payload, Usage
from trace_recorder.values.structs import replace


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"input_tokens": 0, "output_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"input_tokens": 0, "prompt_tokens": 7}, Usage(0, extra={"prompt_tokens": 7})),
        ({"input_tokens": None, "prompt_tokens": 7}, Usage(7)),
        ({"cache_read_input_tokens": 0, "reasoning_tokens": 0, "cost": 0}, Usage(None, None, None, 0, 0, 0)),
        ({"total_tokens": 3}, Usage(extra={"total_tokens": 3})),
    ],
)
def test_a_zero_is_a_count_and_a_missing_number_is_unknown(given: dict[str, Payload], expected: Usage) -> None:
    """A stated 0 is 0 under each of its names. A count that is not stated is None."""
    assert read_usage(given) == expected


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
FUNCTION = {"name": "read", "description": "Read a file."}
DECLARED: dict[str, list[Payload]] = {
    "openai-chat": [{"type": "function", "function": {**FUNCTION, "parameters": SCHEMA}}],
    "openai-responses": [{"type": "function", **FUNCTION, "parameters": SCHEMA}, {"type": "web_search"}],
    "anthropic-messages": [{**FUNCTION, "input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "web_search"}],
    "google-generate": [
        {"functionDeclarations": [{**FUNCTION, "parametersJsonSchema": SCHEMA}]},
        {"google_search": {}},
    ],
    "ollama-chat": [{"type": "function", "function": {**FUNCTION, "parameters": SCHEMA}}],
    "bedrock-converse": [
        {"toolSpec": {**FUNCTION, "inputSchema": {"json": SCHEMA}}},
        {"systemTool": {"name": "nova_grounding"}},
        {"cachePoint": {"type": "default"}},
    ],
}


@pytest.mark.parametrize("api", DECLARED)
def test_a_document_has_the_tools_of_its_requests(api: str) -> None:
    """A tool that is read from its declaration alone, as from a document, equals the tool of the request."""
    body = {"toolConfig": {"tools": DECLARED[api]}} if api == "bedrock-converse" else {"tools": DECLARED[api]}
    tools = DIALECTS[api].read_request(body).tools

    assert (tools[0].name, tools[0].parameters) == ("read", SCHEMA)
    assert [read_tool(tool.raw) for tool in tools] == tools


ASKED = {"id": "call_1", "name": "read", "arguments": {"path": "a.py"}}
FUNCTION_CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "I read.", "tool_calls": [ASKED]},
        {"role": "assistant", "content": None, "tool_calls": [FUNCTION_CALL, {}, None, "read"]},
        {"role": "tool", "tool_call_id": "call_1", "content": "print(1)"},
        {"role": "tool", "tool_call_id": "", "name": "", "content": [{"type": "text", "text": "1"}]},
        {"role": "model", "tool_call_id": 3, "name": ["read"], "tool_calls": {"a": 1}, "content": {"a": 1}},
        {"content": "no role", "name": "read"},
        {"role": None, "tool_calls": []},
    ],
)
def test_a_message_with_usual_members_is_read_as_any_other(message: dict[str, Payload]) -> None:
    """A member that is null makes no difference, although the message then has an unusual member."""
    unusual = {**message, "reasoning": None}
    assert replace(message_of_agent(unusual), given=message) == message_of_agent(message)


@pytest.mark.parametrize(
    "counts", [{"input_tokens": 3, "output_tokens": 4}, {"output_tokens": 0}, {"input_tokens": True}, {}]
)
def test_plain_counts_are_read_as_any_others(counts: dict[str, Payload]) -> None:
    """A count that is null makes no difference."""
    assert read_usage({**counts, "reasoning_tokens": None}) == read_usage(counts)
