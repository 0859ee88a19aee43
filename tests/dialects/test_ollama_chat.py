"""Ollama's chat dialect: messages and calls without ids, lines that become the answer, and no content is lost."""

from __future__ import annotations

from pathlib import Path

from trace_recorder.dialects.ollama_chat import join_stream, read_message, read_request, read_response
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Tool, ToolCall, Usage

DATA = Path(__file__).parent / "data"


def test_a_request_is_read():
    """Calls without ids get ids, results are paired with them by name, and other members are parameters."""
    declared = {"type": "function", "function": {"name": "f", "description": "does f", "parameters": {}}}
    called = [{"function": {"name": "f", "arguments": {"a": 1}}}, {"function": {"name": "g", "arguments": {}}}]
    body = {
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "See:", "images": ["iVBO"]},
            {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": called},
            {"role": "tool", "content": "two", "tool_name": "g"},
            {"role": "tool", "content": "one"},
        ],
        "tools": [declared],
        "options": {"seed": 1},
        "keep_alive": None,
    }
    calls = (
        ToolCall("call_0", "f", {"a": 1}, call_id_made_up=True),
        ToolCall("call_1", "g", {}, call_id_made_up=True),
    )
    reading = read_request(body)
    assert (reading.messages, reading.tools, reading.parameters, reading.model) == (
        [
            Message("system", "Be brief."),
            Message("user", "See:", extra={"images": ["iVBO"]}),
            Message("assistant", "", calls, reasoning="Hm."),
            Message("tool", "two", call_id="call_1", name="g"),
            Message("tool", "one", call_id="call_0"),
        ],
        [Tool("f", "does f", {}, declared)],
        {"model": "qwen", "options": {"seed": 1}, "keep_alive": None},
        "qwen",
    )


def test_stated_ids_are_kept():
    """Newer servers give calls ids, and results name them."""
    call = {"id": "x", "type": "function", "function": {"index": 0, "name": "f", "arguments": '{"a": 1}'}}
    assert [
        *read_message({"role": "assistant", "tool_calls": [call]}),
        *read_message({"role": "tool", "tool_call_id": "x"}),
    ] == [
        Message("assistant", tool_calls=(ToolCall("x", "f", {"a": 1}),)),
        Message("tool", call_id="x"),
    ]


def test_a_response_is_read():
    """Counts are the usage, durations are in `extra`, the choice has its log-probabilities, and made-up ids are counted
    on.
    """
    message = {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [{"function": {"name": "f"}}]}
    body = {"model": "qwen", "message": message, "done": True, "done_reason": "stop", "eval_duration": 5}
    logprobs = [{"token": "a", "logprob": -0.5}]
    calls = (ToolCall("call_3", "f", {}, call_id_made_up=True),)
    assert read_response({**body, "prompt_eval_count": 0, "eval_count": 2, "logprobs": logprobs}, 3) == LLMResponse(
        content="",
        reasoning="Hm.",
        tool_calls=calls,
        finish_reason="stop",
        usage=Usage(0, 2),
        model="qwen",
        choices=(Choice(0, "", "Hm.", calls, "stop", extra={"logprobs": logprobs}),),
        extra={"done": True, "eval_duration": 5},
    )


def test_a_missing_count_is_unknown():
    """A completely cached prompt has no count. An answer without counts has an empty usage."""
    usages = [read_response({"message": {}, **counts}).usage for counts in ({"eval_count": 2}, {})]
    assert usages == [Usage(output_tokens=2), Usage()]


def test_a_stream_is_joined_to_the_answer():
    """Texts and thinking are joined, calls and log-probabilities are collected, and the last counts are used."""
    assert join_stream((DATA / "ollama_chat.ndjson").read_text(encoding="utf-8")) == JoinedStream(
        {
            "model": "qwen",
            "created_at": "2026-01-01T00:00:05Z",
            "done": True,
            "logprobs": [{"token": "m", "logprob": -0.5}, {"token": "It", "logprob": -0.25}],
            "done_reason": "stop",
            "total_duration": 9,
            "prompt_eval_count": 21,
            "eval_count": 369,
            "message": {
                "role": "assistant",
                "content": "It is blue.",
                "thinking": "Hm.",
                "tool_calls": [
                    {"function": {"index": 0, "name": "paint", "arguments": {"colour": "blue"}}},
                    {"id": "own", "function": {"index": 1, "name": "rest", "arguments": {}}},
                ],
            },
        },
        ended=True,
        events=5,
    )


def test_an_error_in_a_stream_is_the_stream_s_error():
    """The text before an error line is kept beside the error."""
    joined = join_stream('{"message":{"content":"He"},"done":false}\n{"error":"out of memory"}\n')
    assert (joined.error, joined.ended, read_response(joined.body).content) == ("out of memory", False, "He")


def test_broken_lines_are_skipped_and_counted():
    """A line that is not JSON changes only the count. Lines may end with CRLF, and the last line with nothing."""
    joined = join_stream('{"message":{"content":"a"}}\r\n{"mess\r\n[]\r\n{"message":{"content":"b"},"done":true}')
    assert joined == JoinedStream({"done": True, "message": {"content": "ab"}}, ended=True, events=4)
