"""The OpenAI Responses dialect: items become turns, and a stream is read like a whole response."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from trace_recorder.dialects import openai_responses
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    Usage,
)

STREAM = (Path(__file__).parent / "data" / "openai_responses.sse").read_text()
FINAL = json.loads(STREAM.rpartition("data: ")[2])["response"]
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather", "arguments": '{"city": "Oslo"}'}
WEATHER = ToolCall("call_a", "weather", {"city": "Oslo"}, extra={"id": "fc_1"})
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Ok.", "annotations": []}],
}


def test_a_request_is_read():
    """Instructions are the system's message, for this request only. A text is the user's, and tools are flat."""
    tools = [{"type": "function", "name": "f", "description": "d", "parameters": {}}, {"type": "web_search"}]
    body = {"model": "m", "instructions": "Be brief.", "input": "Rain?", "tools": tools, "store": False}
    assert openai_responses.read_request(body) == RequestReading(
        [Message("system", "Be brief."), Message("user", "Rain?")],
        [Tool("f", "d", {}, tools[0]), Tool("web_search", raw=tools[1])],
        {"model": "m", "store": False},
        "m",
        instructions=1,
    )


def test_a_turn_of_several_items_is_one_message():
    """The thinking, text and calls of a turn are one message, and the next turn's are a second one."""
    second = {"type": "function_call", "call_id": "call_b", "name": "f", "arguments": ""}
    output = {"type": "function_call_output", "call_id": "call_a", "output": "rain"}
    items = [{"role": "user", "content": "Rain?"}, REASONING, SAID, CALL, second, output, REASONING, SAID]
    turn = Message("assistant", "Ok.", reasoning="Hm.", extra={"reasoning": [REASONING], "id": "msg_1"})
    assert openai_responses.read_request({"input": items}).messages == [
        Message("user", "Rain?"),
        replace(turn, tool_calls=(WEATHER, ToolCall("call_b", "f", {}))),
        Message("tool", "rain", call_id="call_a"),
        turn,
    ]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([SAID, SAID], 2),
        ([SAID, REASONING], 2),
        ([CALL, SAID], 2),
        ([CALL, REASONING], 2),
        ([REASONING, REASONING, SAID], 1),
        ([REASONING, CALL, CALL], 1),
        ([REASONING, {"role": "user", "content": "x"}], 2),
    ],
)
def test_items_keep_their_order(items, expected):
    """Consecutive items become one message only in the order thinking, text, calls, in which a message is read."""
    assert len(openai_responses.read_request({"input": items}).messages) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "file_id": "f"}],
            },
            Message("user", [{"type": "text", "text": "see"}, {"type": "input_image", "file_id": "f"}]),
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "x"}],
                "id": "o",
            },
            Message("tool", "x", call_id="c", extra={"id": "o"}),
        ),
        (
            {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
            Message("tool", [{"type": "computer_screenshot"}], call_id="c", extra={"type": "computer_call_output"}),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "{}", "id": "ct"},
            Message(
                "assistant", tool_calls=(ToolCall("c", "sql", "{}", extra={"type": "custom_tool_call", "id": "ct"}),)
            ),
        ),
        (
            {"type": "local_shell_call", "call_id": "c", "id": "ls", "action": {"command": ["ls"]}},
            Message(
                "assistant",
                tool_calls=(
                    ToolCall(
                        "c",
                        "local_shell_call",
                        {"action": {"command": ["ls"]}},
                        extra={"type": "local_shell_call", "id": "ls"},
                    ),
                ),
            ),
        ),
        (SEARCH, Message("assistant", [SEARCH])),
        ({"id": "msg_1"}, Message("assistant", [{"id": "msg_1"}])),
        (
            {"type": "mcp_approval_response", "approve": True},
            Message("user", [{"type": "mcp_approval_response", "approve": True}]),
        ),
        ("hi", Message("user", "hi")),
    ],
)
def test_items_become_calls_messages_and_parts(item, expected):
    """Calls of the caller's tools and their outputs are calls and tool messages. A server's own tools stay parts."""
    assert openai_responses.read_message(item) == [expected]


def test_calls_without_ids_get_ids():
    """A call whose id is null gets a made-up id, and the result without an id is paired with it."""
    items = [{**CALL, "call_id": None}, {"type": "function_call_output", "output": "rain"}]
    assert openai_responses.read_request({"input": items}).messages == [
        Message("assistant", tool_calls=(replace(WEATHER, call_id="call_0", call_id_made_up=True),)),
        Message("tool", "rain", call_id="call_0"),
    ]


def test_a_response_is_read():
    """Output items are read into one choice. Items with other members are kept unchanged."""
    weather = replace(WEATHER, extra={"id": "fc_1", "status": "completed"})
    usage = Usage(9, 8, None, 0, 4, extra={"total_tokens": 17})
    logprobs = {"logprobs": [{"token": "Let me ", "logprob": -0.1}, {"token": "see.", "logprob": -0.2}]}
    choice = Choice(0, "Let me see.", "Look out.", (weather,), "completed", extra=logprobs)
    assert openai_responses.read_response(FINAL) == LLMResponse(
        choice.content,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason="completed",
        usage=usage,
        model="gpt-5-2025",
        id="resp_1",
        choices=(choice,),
        extra={"object": "response", "output": FINAL["output"][:2]},
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []},
            LLMResponse(
                finish_reason="max_output_tokens",
                choices=(Choice(0, finish_reason="max_output_tokens"),),
                extra={"status": "incomplete"},
            ),
        ),
        (
            {"status": "failed", "error": {"code": "x"}, "output": []},
            LLMResponse(
                finish_reason="failed", choices=(Choice(0, finish_reason="failed"),), extra={"error": {"code": "x"}}
            ),
        ),
        ({"status": "in_progress", "output": []}, LLMResponse(choices=(Choice(0),), extra={"status": "in_progress"})),
        ({"error": {"code": "x"}}, LLMResponse(extra={"error": {"code": "x"}})),
        ({"output": "x", "usage": []}, LLMResponse(extra={"output": "x", "usage": []})),
        ([], LLMResponse()),
    ],
)
def test_the_reason_of_an_incomplete_response_is_read(body, expected):
    """The reason of an incomplete response is its finish reason. An unfinished status or an error is not."""
    assert openai_responses.read_response(body) == expected


def test_the_last_event_has_the_response_of_a_stream():
    """If the stream ended, the response in its last event is the body."""
    assert openai_responses.join_stream(STREAM) == JoinedStream(FINAL, ended=True, events=16)


def test_a_stream_without_its_last_event_is_joined():
    """Items are built from deltas: thinking, text with its annotations, and arguments."""
    joined = openai_responses.join_stream(STREAM[: STREAM.index("event: response.completed")])
    output: Payload = json.loads(json.dumps(FINAL["output"]).replace('"completed"', '"in_progress"'))
    assert (joined.ended, joined.events, joined.body["output"]) == (False, 15, output)


@pytest.mark.parametrize(("end", "ended"), [("", False), ("data: [DONE]\n\n", True), ("data: [DONE] \n\n", True)])
def test_a_gateway_may_end_a_stream_like_a_chat_stream(end, ended):
    """Without `response.completed`, the `[DONE]` of a chat stream ends the stream too."""
    text = 'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}\n\n'

    assert openai_responses.join_stream(text + end).ended is ended


def test_a_completed_event_without_output_is_completed():
    """If the last event lacks the items, as from some gateways, the items of earlier events are used."""
    last = 'data: {"type":"response.completed","response":{"id":"r","output":[]}}\n\n'
    joined = openai_responses.join_stream(
        'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}\n\n' + last
    )
    output = [{"content": [{"type": "output_text", "text": "a"}]}]
    assert joined == JoinedStream({"id": "r", "output": output}, ended=True, events=2)


@pytest.mark.parametrize(
    ("event", "ended", "error"),
    [
        ('event: error\ndata: {"type":"error","code":"x"}', False, {"type": "error", "code": "x"}),
        ('data: {"error":{"code":"x"}}', False, {"code": "x"}),
        ('data: {"type":"response.failed","response":{"error":{"code":"x"}}}', True, {"code": "x"}),
    ],
)
def test_an_error_in_a_stream_is_the_stream_s_error(event, ended, error):
    """An error event, or a failed response, is the stream's error, and is in the body."""
    assert openai_responses.join_stream(event) == JoinedStream({"error": error}, ended, 1, error)


@pytest.mark.parametrize(
    ("event", "item"),
    [
        ({"type": "response.custom_tool_call_input.delta", "delta": "SEL"}, {"type": "x", "input": "SEL"}),
        ({"type": "response.code_interpreter_call_code.done", "code": "1+1"}, {"type": "x", "code": "1+1"}),
        ({"type": "response.unheard_of_diff.delta", "delta": "+a"}, {"type": "x", "diff": "+a"}),
        ({"type": "response.web_search_call.searching"}, {"type": "x"}),
        (
            {"type": "response.refusal.delta", "delta": "No", "content_index": 3},
            {"type": "x", "content": [{"type": "refusal", "refusal": "No"}]},
        ),
        (
            {"type": "response.reasoning_summary_text.delta", "delta": "Hm", "summary_index": 0},
            {"type": "x", "summary": [{"type": "reasoning_summary_text", "text": "Hm"}]},
        ),
        (
            {"type": "response.output_text.delta", "delta": "a", "content_index": 0, "logprobs": [{"token": "a"}]},
            {"type": "x", "content": [{"type": "output_text", "text": "a", "logprobs": [{"token": "a"}]}]},
        ),
    ],
)
def test_a_delta_is_added_to_the_member_that_its_event_names(event, item):
    """The last word of an event's name is the member of the item or part."""
    added = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "x"}}
    text = "".join(f"data: {json.dumps(e)}\n\n" for e in (added, {"output_index": 0} | event))
    assert openai_responses.join_stream(text).body == {"output": [item]}


def test_every_prefix_of_a_stream_can_be_joined():
    """A stream can be cut off at any character. Its content is a beginning of the whole content."""
    contents = {
        openai_responses.read_response(openai_responses.join_stream(STREAM[:n]).body).content
        for n in range(len(STREAM))
    }
    assert contents == {None, "", "Let me ", "Let me see."}
