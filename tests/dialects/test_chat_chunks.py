"""Chat streams are joined correctly, however a server cuts them into deltas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder.dialects.chat_chunks import join_chat_stream
from trace_recorder.values.messages import JoinedStream, Payload

DATA = Path(__file__).parent / "data"


def stream_of(*deltas: Payload, end: str = "data: [DONE]\n\n") -> str:
    """Return a chat stream of one choice."""
    chunks = ({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d}]} for d in deltas)
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end


def message_of(*deltas: Payload) -> Payload:
    """Join a chat stream of one choice, and return its message."""
    return join_chat_stream(stream_of(*deltas)).body["choices"][0]["message"]


def call(name: str | None = None, arguments: Payload = "", **members: Payload) -> Payload:
    """Return the delta of a tool call."""
    return {"function": {"name": name, "arguments": arguments} if name else {"arguments": arguments}, **members}


def made(call_id: str | None, name: str, arguments: Payload) -> Payload:
    """Return a tool call in its joined form."""
    return ({"id": call_id} if call_id else {}) | {"function": {"name": name, "arguments": arguments}}


TWO = [made("a", "f", '{"x":1}'), made("b", "g", '{"y":2}')]
NAMELESS_TWO = [made(None, "f", '{"x":1}'), made(None, "g", '{"y":2}')]
ONE = [made("a", "f", '{"x":1}')]

TOOL_CALLS: dict[str, tuple[list[list[Payload]], Payload]] = {
    "interleaved": (
        [
            [call("f", '{"x"', index=0, id="a")],
            [call("g", '{"y"', index=1, id="b")],
            [call(arguments=":1}", index=0), call(arguments=":2}", index=1)],
        ],
        TWO,
    ),
    "holes in the index": ([[call("f", '{"x":1}', index=1, id="a")], [call("g", '{"y":2}', index=4, id="b")]], TWO),
    "every index 0, new ids": (
        [
            [call("f", '{"x"', index=0, id="a")],
            [call(arguments=":1}", index=0)],
            [call("g", "", index=0, id="b")],
            [call(arguments='{"y":2}', index=0)],
        ],
        TWO,
    ),
    "every index 0, no ids": (
        [[call("f", '{"x":1}', index=0)], [call("g", '{"y"', index=0)], [call(arguments=":2}", index=0)]],
        NAMELESS_TWO,
    ),
    "whole calls without index or id": ([[call("f", '{"x":1}'), call("g", '{"y":2}')]], NAMELESS_TWO),
    "every index -1": ([[call("f", '{"x":1}', index=-1, id="a")], [call("g", '{"y":2}', index=-1, id="b")]], TWO),
    "one index twice in a chunk": ([[call("f", "", index=0, id="a"), call(arguments='{"x":1}', index=0)]], ONE),
    "the id in every delta": (
        [[call("f", "", index=0, id="a")], [call(arguments='{"x"', index=0, id="a"), call(arguments=":1}", id="a")]],
        ONE,
    ),
    "another id in every delta": (
        [[call("f", '{"x"', index=0, id="a")], [call(arguments=":1}", index=0, id="z")]],
        ONE,
    ),
    "by index, then by id": ([[call("f", '{"x"', index=0, id="a")], [call(arguments=":1}", id="a")]], ONE),
    "by id, then by index": ([[call("f", '{"x"', id="a")], [call(arguments=":1}", index=0)]], ONE),
    "by index only after another": (
        [
            [call("f", '{"x"', index=0, id="a"), call("g", '{"y"', index=1, id="b")],
            [call(arguments=":1}", index=0, id=None), call(arguments=":2}", index=1, id="")],
        ],
        TWO,
    ),
    "the name in every delta": (
        [[call("f", '{"x"', index=0, id="a")], [call("f", ":1}", index=0)], [call("f", "", index=0)]],
        ONE,
    ),
    "the name in pieces": (
        [[call("get_", "", index=0, id="a")], [call("it", "", index=0)], [call(arguments="{}", index=0)]],
        [made("a", "get_it", "{}")],
    ),
    "the id later": ([[call("f", '{"x"', index=0)], [call(arguments=":1}", index=0, id="a")]], ONE),
    "null arguments": ([[call("f", None, index=0, id="a")], [call(arguments='{"x":1}', index=0)]], ONE),
    "only null arguments": ([[call("f", None, index=0, id="a")]], [made("a", "f", None)]),
    "arguments as an object": ([[call("f", {"x": 1}, index=0, id="a")]], [made("a", "f", {"x": 1})]),
    "cut off": ([[call("f", '{"x', index=0, id="a")]], [made("a", "f", '{"x')]),
    "a custom tool": (
        [
            [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": "SEL"}}],
            [{"index": 0, "custom": {"input": "ECT"}}],
        ],
        [{"id": "a", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}],
    ),
    "signed by Gemini": (
        [[call("f", '{"x":1}', index=0, id="a", extra_content={"google": {"thought_signature": "s"}})]],
        [{**ONE[0], "extra_content": {"google": {"thought_signature": "s"}}}],
    ),
    "junk": ([[None, {}, {"index": 3}, call("f", '{"x":1}', index=0, id="a")]], ONE),
}


@pytest.mark.parametrize(("deltas", "expected"), TOOL_CALLS.values(), ids=TOOL_CALLS)
def test_deltas_of_tool_calls_are_joined_by_call(deltas, expected):
    """Each call gets its own name, id and arguments, whichever member of the deltas identifies the call."""
    assert message_of(*({"tool_calls": calls} for calls in deltas)) == {"tool_calls": expected}


MEMBERS: list[tuple[list[Payload], Payload]] = [
    (
        [{"role": "assistant", "content": ""}, {"content": "ha"}, {"content": "ha"}],
        {"role": "assistant", "content": "haha"},
    ),
    (
        [{"content": "a", "unheard": "\ud800"}] * 3,
        {"content": "aaa", "unheard": "\ud800\ud800\ud800"},
    ),  # one object for each "a"
    ([{"content": "a"}, {"content": None}], {"content": "a"}),
    ([{"content": None}, {}], {"content": None}),
    (
        [{"reasoning_content": "a"}, {"reasoning_content": "b", "content": "c"}],
        {"reasoning_content": "ab", "content": "c"},
    ),
    ([{"refusal": "No"}, {"refusal": "."}], {"refusal": "No."}),
    ([{"unheard": "a"}, {"unheard": "b"}, {"unheard": ""}], {"unheard": "ab"}),
    ([{"unheard": {"k": "a", "l": 1}}, {"unheard": {"k": "b"}}], {"unheard": {"k": "ab", "l": 1}}),
    ([{"unheard_id": "a"}, {"unheard_id": "b"}, {"unheard_id": ""}], {"unheard_id": "b"}),
    ([{"unheard": "a"}, {"unheard": 3}], {"unheard": 3}),
    ([{"annotations": [{"url": "a"}]}, {"annotations": [{"url": "b"}]}], {"annotations": [{"url": "a"}, {"url": "b"}]}),
    ([{"audio": {"id": "x", "data": "AA"}}, {"audio": {"data": "BB"}}], {"audio": {"id": "x", "data": "AABB"}}),
    (
        [{"function_call": {"name": "f", "arguments": "{"}}, {"function_call": {"arguments": "}"}}],
        {"function_call": {"name": "f", "arguments": "{}"}},
    ),
    ([{"content": "a"}, {"content": [{"type": "text", "text": "b"}]}], {"content": [{"type": "text", "text": "ab"}]}),
]


THOUGHTS: list[tuple[list[Payload], list[Payload]]] = [
    ([{"text": "a", "id": "x"}, {"text": "b", "id": None}], [{"text": "ab", "id": "x"}]),
    ([{"text": "a", "id": "x"}, {"text": "b", "id": "y"}], [{"text": "a", "id": "x"}, {"text": "b", "id": "y"}]),
    ([{"text": "a", "index": 0}, {"text": "b", "index": 1}], [{"text": "a", "index": 0}, {"text": "b", "index": 1}]),
    ([{"text": "a", "signature": None}, {"signature": "s"}], [{"text": "a", "signature": "s"}]),
    ([{"text": "a", "signature": "s"}, {"text": "b"}], [{"text": "a", "signature": "s"}, {"text": "b"}]),
    ([{"data": "a"}, {"data": "b"}], [{"data": "a"}, {"data": "b"}]),
]


@pytest.mark.parametrize(("fragments", "expected"), THOUGHTS)
def test_fragments_of_thinking_are_joined_to_blocks(fragments, expected):
    """Fragments of one type are one block, until it is signed or a new id or index begins the next block."""
    message = message_of(*({"reasoning_details": [{"type": "t"} | fragment]} for fragment in fragments))
    assert message["reasoning_details"] == [{"type": "t"} | block for block in expected]


@pytest.mark.parametrize(("deltas", "expected"), MEMBERS)
def test_members_of_deltas_are_joined_by_type(deltas, expected):
    """Texts are joined, lists are extended, and objects are merged. Of numbers and of strings that are whole by their
    name, the last one that is not empty is kept.
    """
    assert message_of(*deltas) == expected


def test_several_choices_are_joined_separately():
    """Choices are distinguished by their index. Each has its own log-probabilities, token ids and finish reason."""
    chunks: list[Payload] = [
        {"choices": [{"index": 1, "delta": {"content": "b"}, "logprobs": {"content": [1]}, "token_ids": [11]}]},
        {"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": None}]},
        {"choices": [{"index": 1, "delta": {"content": "B"}, "logprobs": {"content": [2]}, "token_ids": [12]}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]},
    ]
    expected: Payload = [
        {"index": 0, "logprobs": None, "finish_reason": "stop", "message": {"content": "a"}},
        {
            "index": 1,
            "logprobs": {"content": [1, 2]},
            "token_ids": [11, 12],
            "finish_reason": "length",
            "message": {"content": "bB"},
        },
    ]
    joined = join_chat_stream("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks))
    assert joined == JoinedStream({"choices": expected}, ended=True, events=5)


@pytest.mark.parametrize(
    ("end", "ended", "events"),
    [
        ("", False, 1),
        ("data: [DONE]", True, 2),
        ('data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}', True, 2),
        ("data: {cut", False, 2),
        ("data: null\n\ndata: []\n\ndata: 7\n\n", False, 4),
    ],
)
def test_a_stream_ends_with_done_or_a_finish_reason(end, ended, events):
    """An event that is not a chunk is only counted."""
    joined = join_chat_stream(stream_of({"content": "a"}, end=end))
    assert (joined.ended, joined.events, joined.body["choices"][0]["message"]) == (ended, events, {"content": "a"})


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ('data: {"error": {"code": 502}}', {"code": 502}),
        ('event: error\ndata: {"error": {"code": 502}}', {"code": 502}),
        ('event: error\ndata: {"message": "overloaded"}', {"message": "overloaded"}),
        ("event: error\ndata: overloaded", "overloaded"),
        ('data: {"object": "error", "code": 400}', {"object": "error", "code": 400}),
    ],
)
def test_an_error_in_a_stream_is_the_stream_s_error(event, error):
    """The error is in the body too, and the text before the error is kept."""
    joined = join_chat_stream(stream_of({"content": "a"}, end=event))
    choices = [{"index": 0, "message": {"content": "a"}}]
    body = {"id": "c", "object": "chat.completion", "error": error, "choices": choices}
    assert joined == JoinedStream(body, ended=False, events=2, error=error)


def test_a_stream_of_openrouter_is_joined():
    """Comments are skipped. Reasoning details of one type are merged until a signed one. The cost is kept."""
    joined = join_chat_stream((DATA / "openai_chat_openrouter.sse").read_text())
    details = [
        {
            "type": "reasoning.text",
            "text": "Let me see.",
            "format": "anthropic-claude-v1",
            "index": 0,
            "signature": "EtQB",
        },
        {"type": "reasoning.encrypted", "data": "Zm9v", "index": 0},
        {"type": "reasoning.encrypted", "data": "YmFy", "index": 0},
        {"type": "reasoning.text", "text": " More.", "format": "anthropic-claude-v1", "index": 0},
    ]
    message = {"role": "assistant", "content": "Yes.", "reasoning": "Let me see. More.", "reasoning_details": details}
    assert (joined.body["choices"][0]["message"], joined.body["usage"]["cost"]) == (message, 0.00042)


def test_a_stream_of_azure_is_joined():
    """The first chunk without choices gives the filter results, and hides nothing that comes later."""
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    body = {
        "created": 5,
        "id": "chatcmpl-1",
        "model": "gpt-4o-2024-11-20",
        "object": "chat.completion",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": safe}],
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "content_filter_results": safe,
                "finish_reason": "stop",
                "index": 0,
                "logprobs": None,
                "message": {"content": "Hi", "refusal": None, "role": "assistant"},
            }
        ],
    }
    assert join_chat_stream((DATA / "openai_chat_azure.sse").read_text()) == JoinedStream(body, ended=True, events=5)


def test_a_stream_of_mistral_is_joined():
    """Content that is a list while the model thinks, and then a text, becomes one list of parts without filler."""
    joined = join_chat_stream((DATA / "openai_chat_mistral.sse").read_text())
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hmm."}]}
    content = [thinking, {"type": "text", "text": "Four."}]
    assert ("p" in joined.body, joined.body["choices"][0]["message"]["content"]) == (False, content)


@pytest.mark.parametrize("name", ["openrouter", "azure", "mistral"])
def test_every_prefix_of_a_stream_can_be_joined(name):
    """A stream can be cut off at any character. It is complete only after a finish reason."""
    text = (DATA / f"openai_chat_{name}.sse").read_text()
    ended = {cut: join_chat_stream(text[:cut]).ended for cut in range(len(text))}
    finished = text.index("}", text.index('"finish_reason":"stop"'))
    assert not any(ended[cut] for cut in range(finished))
