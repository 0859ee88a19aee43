"""The OpenAI chat dialect: requests and responses become values, and no content is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_recorder.dialects import openai_chat
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload, RequestReading, Tool, ToolCall, Usage

DATA = Path(__file__).parent / "data"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}, {"type": "text", "text": "m."}]}


def test_a_request_is_read():
    """Messages, tools and parameters are separated. Parameters stay as they were sent, including nulls."""
    function = {"name": "weather", "description": "Look outside", "parameters": SCHEMA, "strict": True}
    tool = {"type": "function", "function": function}
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Rain?"}],
        "tools": [tool, {"type": "web_search"}],
        "stream": True,
        "stop": None,
    }
    assert openai_chat.read_request(body) == RequestReading(
        [Message("developer", "Be brief."), Message("user", "Rain?")],
        [Tool("weather", "Look outside", SCHEMA, tool), Tool("web_search", raw={"type": "web_search"})],
        {"model": "gpt-4o", "stream": True, "stop": None},
        "gpt-4o",
    )


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, Message("user", "hi")),
        ({"role": "user", "content": ["hi"], "name": "ann"}, Message("user", "hi", name="ann")),
        (
            {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]},
            Message("user", [{"type": "text", "text": "see"}, IMAGE]),
        ),
        (
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL], "annotations": []},
            Message("assistant", None, (ToolCall("c1", "weather", {"city": "Oslo"}),), extra={"annotations": []}),
        ),
        (
            {"role": "assistant", "content": "ok", "reasoning_content": "Hm."},
            Message("assistant", "ok", reasoning="Hm."),
        ),
        ({"role": "assistant", "reasoning_content": "Hm.", "reasoning": "Hm."}, Message("assistant", reasoning="Hm.")),
        (
            {"role": "assistant", "content": "ok", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
            Message(
                "assistant",
                "ok",
                reasoning="Hm.",
                extra={"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
            ),
        ),
        (
            {"role": "assistant", "content": [THINKING, {"type": "text", "text": "Four."}]},
            Message("assistant", "Four.", reasoning="Hmm.", extra={"thinking": [THINKING]}),
        ),
        ({"role": "tool", "tool_call_id": "c1", "content": "rain"}, Message("tool", "rain", call_id="c1")),
        ("hi", Message("user", "hi")),
        (7, Message("user", [7])),
        ({"role": 7, "content": 7, "tool_calls": "x"}, Message("user", [7], extra={"role": 7, "tool_calls": "x"})),
    ],
)
def test_a_message_is_read(element, expected):
    """An element of `messages` is one message in the common form, whose `extra` has the other members."""
    assert openai_chat.read_message(element) == [expected]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (CALL, ToolCall("c1", "weather", {"city": "Oslo"})),
        ({**CALL, "index": 0, "extra_content": {"x": 1}}, None),
        ({"id": "c1", "function": {"name": "f", "arguments": '{"a'}}, ToolCall("c1", "f", '{"a')),
        ({"id": "c1", "function": {"name": "f", "arguments": None}}, ToolCall("c1", "f", {})),
        ({"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}, ToolCall("c1", "f", {"a": 1})),
        (
            {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "{}"}},
            ToolCall("c1", "sql", "{}", extra={"type": "custom"}),
        ),
        ({"id": None, "function": {"name": 7}}, ToolCall("", "", {}, extra={"function": {"name": 7}})),
        (None, ToolCall("", "", {})),
    ],
)
def test_a_tool_call_is_read(element, expected):
    """A call has its id, its name and its parsed arguments, or their text if it is not JSON. Other members are in
    `extra`.
    """
    expected = expected or ToolCall("c1", "weather", {"city": "Oslo"}, extra={"extra_content": {"x": 1}})
    assert openai_chat.read_message({"role": "assistant", "tool_calls": [element]})[0].tool_calls == (expected,)


def test_old_function_calls_are_read():
    """Old functions are read as tools. A function call gets a made-up id, and its result is paired with it."""
    function = {"name": "f", "description": "d", "parameters": SCHEMA}
    messages: list[Payload] = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"role": "function", "name": "f", "content": "2"},
    ]
    assert openai_chat.read_request({"messages": messages, "functions": [function]}) == RequestReading(
        [
            Message("assistant", None, (ToolCall("call_0", "f", {}, call_id_made_up=True),)),
            Message("tool", "1", call_id="call_0", name="f"),
            Message("assistant", None, (ToolCall("call_1", "f", {}, call_id_made_up=True),)),
            Message("tool", "2", call_id="call_1", name="f"),
        ],
        [Tool("f", "d", SCHEMA, function)],
    )


def test_a_response_is_read():
    """Each known member has its place. Other members are in `extra`, those of a choice in the `extra` of the choice."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-4o-2024",
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "refusal": "No.", "tool_calls": [CALL]},
                "logprobs": {"content": []},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }
    calls = (ToolCall("c1", "weather", {"city": "Oslo"}),)
    assert openai_chat.read_response(body) == LLMResponse(
        None,
        reasoning=None,
        tool_calls=calls,
        finish_reason="tool_calls",
        usage=Usage(3, 5, extra={"total_tokens": 8}),
        model="gpt-4o-2024",
        id="chatcmpl-1",
        choices=(Choice(0, None, None, calls, "tool_calls", extra={"logprobs": {"content": []}}),),
        extra={"refusal": "No.", "object": "chat.completion"},
    )


def test_several_choices_are_read():
    """The first choice is the response's content. Made-up ids continue those of the request, through all choices."""
    message = {"function_call": {"name": "f"}, "reasoning": "Hm.", "audio": {"id": "a"}}
    choices = [{"message": message}, {"message": message, "token_ids": [1]}]
    first, second = (ToolCall(f"call_{n}", "f", {}, call_id_made_up=True) for n in (2, 3))
    assert openai_chat.read_response({"choices": choices}, made_up_ids=2) == LLMResponse(
        reasoning="Hm.",
        tool_calls=(first,),
        choices=(
            Choice(0, None, "Hm.", (first,)),
            Choice(1, None, "Hm.", (second,), extra={"token_ids": [1], "audio": {"id": "a"}}),
        ),
        extra={"audio": {"id": "a"}},
    )


def test_content_that_is_a_list_is_read():
    """In a list of parts, texts are the content, thinking is the reasoning, and other parts are kept."""
    reference = {"type": "reference", "reference_ids": [1]}
    content = [THINKING, {"type": "text", "text": "A"}, reference, {"type": "text", "text": "B"}]
    response = openai_chat.read_response({"choices": [{"message": {"content": content}}]})
    extra = {"thinking": [THINKING], "content": content[1:]}
    assert (response.content, response.reasoning, response.extra) == ("AB", "Hmm.", extra)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, Usage()),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(9, cache_read_input_tokens=0)),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 1}},
            Usage(None, 9, reasoning_tokens=4, extra={"completion_tokens_details": {"audio_tokens": 1}}),
        ),
        ({"prompt_tokens": 9, "cost": 0.5, "is_byok": False}, Usage(9, cost=0.5, extra={"is_byok": False})),
        ({"prompt_tokens": 9, "cached_tokens": 2}, Usage(9, cache_read_input_tokens=2)),
        (
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 2, "prompt_cache_miss_tokens": 7},
            Usage(9, cache_read_input_tokens=2, extra={"prompt_cache_miss_tokens": 7}),
        ),
        ({"prompt_tokens": "9"}, Usage(extra={"prompt_tokens": "9"})),
    ],
)
def test_usage_is_read(usage, expected):
    """The counts are the provider's. Details may be null, and unknown counts are None, never 0."""
    assert openai_chat.read_usage(usage) == expected


def test_usage_of_a_groq_stream_is_read():
    """Groq states the usage in `x_groq` of a stream's last chunk."""
    response = openai_chat.read_response({"x_groq": {"id": "r", "usage": {"prompt_tokens": 3}}})
    assert (response.usage, response.extra) == (Usage(3), {"x_groq": {"id": "r"}})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"code": "x"}}, LLMResponse(extra={"error": {"code": "x"}})),
        ([], LLMResponse()),
        (None, LLMResponse()),
        ({"choices": [None]}, LLMResponse(choices=(Choice(0),))),
        ({"choices": "x", "id": 7}, LLMResponse(extra={"choices": "x", "id": 7})),
    ],
)
def test_a_body_that_is_not_a_response_is_read(body, expected):
    """An error, or a body of an unknown form, is read as far as possible, without a choice if it has no answer."""
    assert openai_chat.read_response(body) == expected


def test_a_stream_is_read_like_an_answer():
    """A joined stream is read like a whole answer: here with thinking, costs and a finish reason."""
    joined = openai_chat.join_stream((DATA / "openai_chat_openrouter.sse").read_text())
    response = openai_chat.read_response(joined.body)
    usage = response.usage
    assert (response.content, response.reasoning, response.finish_reason, usage.cost) == (
        "Yes.",
        "Let me see. More.",
        "stop",
        0.00042,
    )
