"""Providers that send every member of a union, with empty values: the member `type` decides the kind."""

from __future__ import annotations

import json

import pytest

from trace_recorder.dialects import (
    anthropic_messages,
    google_generate,
    google_interactions,
    ollama_chat,
    openai_chat,
    openai_completions,
    openai_responses,
)
from trace_recorder.dialects import manual as by_hand
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload, ToolCall

NO_FUNCTION = {"arguments": "", "name": ""}
NO_CUSTOM = {"input": "", "name": ""}
NO_AUDIO = {"data": "", "expires_at": 0, "id": "", "transcript": ""}
NONE = {"function_call": NO_FUNCTION, "refusal": "", "audio": NO_AUDIO, "name": "", "tool_call_id": ""}
FUNCTION = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"a": 1}'},
    "custom": NO_CUSTOM,
}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}, "function": NO_FUNCTION}
CALLS = (ToolCall("c1", "f", {"a": 1}), ToolCall("c2", "g", "free", extra={"type": "custom"}))
NO_CALL = {"id": "", "type": "function", "function": NO_FUNCTION, "custom": NO_CUSTOM}


def streamed(*chunks: Payload) -> bytes:
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()


def delta(**members: Payload) -> Payload:
    return {"choices": [{"index": 0, "delta": {"content": "", **NONE, **members}, "finish_reason": ""}]}


def test_empty_members_of_an_answer_are_ignored() -> None:
    """Empty members make no call, no refusal and no sound. An empty finish reason is absent."""
    message = {"role": "assistant", "content": "hi", "tool_calls": [], **NONE}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": ""}]}

    assert openai_chat.read_response(body) == LLMResponse("hi", choices=(Choice(0, "hi"),))


def test_empty_members_of_calls_are_ignored() -> None:
    """A function call has the function's arguments, a custom tool's call its text. An empty call is ignored."""
    message = {"role": "assistant", "content": None, "tool_calls": [FUNCTION, NO_CALL, CUSTOM], **NONE}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    choice = Choice(0, tool_calls=CALLS, finish_reason="tool_calls")

    assert openai_chat.read_response(body) == LLMResponse(
        tool_calls=CALLS, finish_reason="tool_calls", choices=(choice,)
    )


def test_a_call_without_a_type_is_read_by_its_nonempty_member() -> None:
    """If no type is given, the member that is not empty decides."""
    untyped = [{name: value for name, value in call.items() if name != "type"} for call in (FUNCTION, CUSTOM)]
    message = {"role": "assistant", "tool_calls": [untyped[0], {**untyped[1], "type": ""}]}

    [read] = openai_chat.read_message(message)
    assert [(call.name, call.arguments, call.extra) for call in read.tool_calls] == [
        ("f", {"a": 1}, {}),
        ("g", "free", {}),
    ]


def test_an_old_function_call_is_read_if_it_is_not_empty() -> None:
    """The member `function_call` of old messages is read as a tool call if it is not empty."""
    [read] = openai_chat.read_message({"role": "assistant", "function_call": {"name": "f", "arguments": ""}})

    assert read == Message("assistant", tool_calls=(ToolCall("", "f", {}),))


def test_empty_members_of_deltas_are_ignored() -> None:
    """Empty members of every delta make neither a call nor a refusal, and remove no arguments."""
    first = [{**FUNCTION, "index": 0, "function": {"name": "f", "arguments": ""}}, {**CUSTOM, "index": 1}]
    first[1]["custom"] = {"name": "g", "input": "fr"}
    more = {"id": "", "type": "", "custom": NO_CUSTOM, "function": {"name": "", "arguments": '{"a": 1}'}, "index": 0}
    rest = {"id": "", "type": "", "custom": {"name": "", "input": "ee"}, "function": NO_FUNCTION, "index": 1}
    end = {"choices": [{"index": 0, "delta": NONE, "finish_reason": "tool_calls"}]}
    chunks = [delta(role="assistant"), delta(tool_calls=first), delta(tool_calls=[more]), delta(tool_calls=[rest]), end]
    joined = join_stream("openai-chat", streamed(*chunks))

    assert joined is not None
    response = openai_chat.read_response(joined.body)
    assert (response.tool_calls, response.finish_reason, response.extra) == (CALLS, "tool_calls", {})


def test_empty_members_of_a_request_are_ignored() -> None:
    """An agent that sends such an answer back has the same calls in its request."""
    message = {"role": "assistant", "content": "hi", "tool_calls": [FUNCTION, CUSTOM], **NONE}

    assert openai_chat.read_message(message) == [Message("assistant", "hi", CALLS)]
    [handed_over] = by_hand.read_message({**message, "tool_call": {}})
    assert [(tool_call.call_id, tool_call.name, tool_call.arguments) for tool_call in handed_over.tool_calls] == [
        ("c1", "f", {"a": 1}),
        ("c2", "g", "free"),
    ]


def test_a_tool_s_declaration_is_read_by_its_type() -> None:
    """The member that the type names is the declaration, whatever empty members there are."""
    declared = {"type": "custom", "custom": {"name": "g"}, "function": {"name": "", "parameters": {}}}

    assert openai_chat.read_tool(declared).name == "g"


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (openai_chat.read_response, {"choices": [{"message": {"content": "hi"}, "finish_reason": ""}]}),
        (openai_completions.read_response, {"choices": [{"text": "hi", "finish_reason": ""}]}),
        (anthropic_messages.read_response, {"content": [{"type": "text", "text": "hi"}], "stop_reason": ""}),
        (google_generate.read_response, {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": ""}]}),
        (ollama_chat.read_response, {"message": {"content": "hi"}, "done_reason": ""}),
        (google_interactions.read_response, {"steps": [{"type": "text", "text": "hi"}], "status": ""}),
        (
            openai_responses.read_response,
            {
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
                "status": "",
                "incomplete_details": {"reason": ""},
            },
        ),
    ],
)
def test_an_empty_finish_reason_is_absent(read: object, body: Payload) -> None:
    """In every dialect, an empty finish reason is read as None."""
    response = read(body)  # type: ignore[operator]

    assert (response.content, response.finish_reason, response.choices[0].finish_reason) == ("hi", None, None)


def test_blocks_of_anthropic_are_read_by_their_type() -> None:
    """A text beside empty members is a plain text."""
    text = {"type": "text", "text": "hi", "id": "", "name": "", "input": {}, "citations": []}
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}, "text": "", "thinking": ""}
    response = anthropic_messages.read_response({"content": [text, use]})

    assert (response.content, response.reasoning, response.extra) == ("hi", None, {})
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("f", {"a": 1})]
    assert anthropic_messages.read_message({"role": "assistant", "content": [text]}) == [Message("assistant", "hi")]


def test_parts_of_gemini_are_read_by_their_nonempty_member() -> None:
    """An empty call or text beside that member is ignored."""
    image = {"text": "", "inlineData": {"mimeType": "image/png", "data": "iVBO"}, "functionCall": {}}
    parts = [
        {"text": "hi", "functionCall": {"name": "", "args": {}}, "inlineData": {}},
        {"text": "", "functionCall": {"id": "c1", "name": "f", "args": {}}},
        image,
    ]
    response = google_generate.read_response({"candidates": [{"content": {"parts": parts}}]})

    assert (response.content, response.tool_calls, response.extra) == (
        "hi",
        (ToolCall("c1", "f", {}, extra={}),),
        {"parts": [image]},
    )
    [message] = google_generate.read_message({"role": "user", "parts": [image]})
    assert message.content == [image]


def test_items_of_responses_are_read_by_their_type() -> None:
    """Empty members of an item's text are ignored."""
    part = {"type": "output_text", "text": "hi", "annotations": [], "refusal": "", "audio": NO_AUDIO}
    item = {"type": "message", "role": "assistant", "name": "", "content": [part]}

    assert openai_responses.read_message(item) == [Message("assistant", "hi")]
