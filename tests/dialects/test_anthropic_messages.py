"""The Anthropic Messages dialect: blocks become messages and calls, events become the message, and no content
is lost.
"""

from __future__ import annotations

import json
from pathlib import Path

from trace_recorder.dialects.anthropic_messages import join_stream, read_message, read_request, read_response
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Tool, ToolCall, Usage

DATA = Path(__file__).parent / "data"
START = {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}}


def sse(*events: dict) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def delta(index: int | None, **members: object) -> dict:
    return {"type": "content_block_delta", "index": index, "delta": members}


def start(index: int, **block: object) -> dict:
    return {"type": "content_block_start", "index": index, "content_block": block}


def test_a_request_is_read():
    """The system prompt comes first, tools are flat, and everything else is a parameter."""
    declared = {"name": "f", "description": "does f", "input_schema": {"type": "object"}}
    body = {
        "model": "claude-x",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [declared, {"type": "web_search_20250305", "name": "web_search"}, {"type": "bash"}],
        "temperature": None,
    }
    reading = read_request(body)
    assert (reading.messages, reading.tools, reading.parameters, reading.model) == (
        [Message("system", body["system"]), Message("user", "Hi")],
        [
            Tool("f", "does f", {"type": "object"}, declared),
            Tool("web_search", raw={"type": "web_search_20250305", "name": "web_search"}),
            Tool("bash", raw={"type": "bash"}),
        ],
        {"model": "claude-x", "max_tokens": 5, "temperature": None},
        "claude-x",
    )


def test_tool_results_become_messages_before_other_contents():
    """A user message becomes a tool message for each result, in order, and one message for its other contents."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "42"}]},
        {"type": "tool_result", "tool_use_id": "t2", "content": "no such file", "is_error": True},
        {"type": "text", "text": "Go on."},
        image,
    ]
    assert read_message({"role": "user", "content": blocks}) == [
        Message("tool", "42", call_id="t1"),
        Message("tool", "no such file", call_id="t2", extra={"is_error": True}),
        Message("user", [{"type": "text", "text": "Go on."}, image]),
    ]


def test_thinking_and_calls_are_separated_from_the_content():
    """An assistant's thinking becomes the reasoning, with its signature beside it. A tool use becomes a tool call."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}, "cache_control": {"type": "ephemeral"}}
    calls = (ToolCall("t1", "f", {"a": 1}, extra={"cache_control": {"type": "ephemeral"}}),)
    blocks = [thinking, {"type": "text", "text": "Well."}, use]
    assert read_message({"role": "assistant", "content": blocks}) == [
        Message("assistant", "Well.", calls, reasoning="Hm.", extra={"content": [thinking]})
    ]


def test_a_response_is_read():
    """Texts are joined, the counts are the provider's, and other members are in `extra`."""
    cited = {"type": "text", "text": "blue", "citations": [{"cited_text": "b"}]}
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "It is ", "citations": None}, cited],
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 0, "service_tier": "standard"},
        "container": {"id": "box"},
    }
    usage = Usage(3, 4, cache_read_input_tokens=0, extra={"service_tier": "standard"})
    choice = Choice(0, "It is blue", finish_reason="end_turn")
    assert read_response(body) == LLMResponse(
        content="It is blue",
        finish_reason="end_turn",
        usage=usage,
        model="claude-x",
        id="msg_1",
        choices=(choice,),
        extra={"container": {"id": "box"}, "content": [cited]},
    )


def test_made_up_ids_continue_those_of_the_request():
    """A call without an id gets the next number after the request's made-up ids."""
    use = {"type": "tool_use", "id": None, "name": "f", "input": None}
    calls = (ToolCall("call_2", "f", {}, call_id_made_up=True),)
    assert read_response({"content": [use]}, made_up_ids=2).tool_calls == calls


def test_a_stream_of_every_kind_of_block_is_joined():
    """Signed and redacted thinking, server tools, citations, interleaved calls and both usages are in the joined
    message.
    """
    joined = join_stream((DATA / "anthropic_everything.sse").read_text(encoding="utf-8"))
    response = read_response(joined.body)
    assert (joined.ended, joined.events, joined.error) == (True, 33, None)
    assert response.extra["content"] == [
        {"type": "thinking", "thinking": "First thought. ", "signature": "c2lnMQ=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "thinking", "thinking": "Second.", "signature": "c2lnMg=="},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sky"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [{"type": "web_search_result", "url": "https://sky.example", "title": "Sky"}],
        },
        {
            "type": "text",
            "text": "blue.",
            "citations": [{"type": "web_search_result_location", "url": "https://sky.example", "cited_text": "blue"}],
        },
    ]
    assert (response.content, response.reasoning, response.finish_reason) == (
        "It is blue.",
        "First thought. Second.",
        "tool_use",
    )
    assert response.tool_calls == (ToolCall("toolu_1", "paint", {"colour": "blue"}), ToolCall("toolu_2", "rest", {}))
    assert response.usage == Usage(
        input_tokens=13,
        output_tokens=99,
        cache_creation_input_tokens=5,
        cache_read_input_tokens=7,
        reasoning_tokens=40,
        extra={"service_tier": "standard", "server_tool_use": {"web_search_requests": 1}},
    )


def test_incomplete_arguments_stay_text():
    """If a tool call's arguments are cut off, the received part is kept as text."""
    grown = delta(0, type="input_json_delta", partial_json='{"path": "/tm')
    joined = join_stream(sse(START, start(0, type="tool_use", id="t", name="f", input={}), grown))
    calls = (ToolCall("t", "f", '{"path": "/tm'),)
    assert (joined.ended, read_response(joined.body).tool_calls) == (False, calls)


def test_blocks_with_the_same_index_stay_separate():
    """A server may start every block at index 0. Each start gives a separate block."""
    events = [
        *(start(0, type="text", text=""), delta(0, type="text_delta", text="a")),
        *(start(0, type="text", text="b"), delta(0, type="text_delta", text="c")),
    ]
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "bc"}]
    assert join_stream(sse(START, *events)).body["content"] == blocks


def test_a_delta_without_its_start_begins_a_block():
    """If a stream is joined from its middle, the deltas without a start are read too."""
    joined = join_stream(sse(delta(4, type="text_delta", text="a"), delta(None, type="thinking_delta", thinking="b")))
    blocks = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}]
    assert joined == JoinedStream({"content": blocks}, ended=False, events=2)


def test_unknown_members_are_kept():
    """Unknown texts of deltas are joined. A member of the message keeps its last value that is not null."""
    events = [
        start(0, type="novelty", a=1),
        *(delta(0, type="novelty_delta", b="x"), delta(0, type="novelty_delta", b="y")),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "context_management": {"edits": []}},
        {"type": "message_delta", "delta": {"stop_reason": None}},
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"latency": 2}},
    ]
    assert join_stream(sse(START, *events)).body == {
        "role": "assistant",
        "content": [{"type": "novelty", "a": 1, "b": "xy"}],
        "usage": {"input_tokens": 1},
        "stop_reason": "end_turn",
        "context_management": {"edits": []},
        "amazon-bedrock-invocationMetrics": {"latency": 2},
    }


def test_an_error_in_a_stream_is_the_stream_s_error():
    """The text before an error event is kept beside the error."""
    error = {"type": "overloaded_error", "message": "Overloaded"}
    events = [START, start(0, type="text", text="He"), {"type": "error", "error": error}]
    joined = join_stream(sse(*events))
    assert (joined.error, joined.ended, read_response(joined.body).content) == (error, False, "He")
