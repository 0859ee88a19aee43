"""JSON that strict readers refuse, such as a lone surrogate: it is read, and the recorder's files stay strict JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from trace_recorder import LLMInteraction, TrajectoryRecorder, load
from trace_recorder.values.messages import Payload

HALF = "abc\ud83dxyz"
READ = "abc\ufffdxyz"
ARGUMENTS = {"text": HALF}
GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
URLS = {
    "openai-chat": "https://api.openai.com/v1/chat/completions",
    "openai-completions": "https://api.openai.com/v1/completions",
    "openai-responses": "https://api.openai.com/v1/responses",
    "openai-realtime": "https://api.openai.com/v1/realtime",
    "anthropic-messages": "https://api.anthropic.com/v1/messages",
    "google-generate": f"{GOOGLE}/models/gemini:generateContent",
    "google-code-assist": "https://cloudcode-pa.googleapis.com/v1internal:generateContent",
    "google-interactions": f"{GOOGLE}/interactions",
    "ollama-chat": "http://localhost:11434/api/chat",
    "ollama-generate": "http://localhost:11434/api/generate",
    "vllm-generate": "http://localhost:8000/inference/v1/generate",
    "sglang-generate": "http://localhost:30000/generate",
    "llama-completion": "http://localhost:8080/completion",
    "transcriptions": "https://api.openai.com/v1/audio/transcriptions",
}
CALLED = {"id": "c", "type": "function", "function": {"name": HALF, "arguments": json.dumps(ARGUMENTS)}}
PARTS = [
    {"thought": True, "text": HALF},
    {"text": HALF},
    {"functionCall": {"id": "c", "name": HALF, "args": ARGUMENTS}},
]
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": HALF}]}
MESSAGE = {"role": "assistant", "content": HALF, "reasoning_content": HALF, "tool_calls": [CALLED]}
OLLAMA = {"role": "assistant", "content": HALF, "thinking": HALF}
OLLAMA |= {"tool_calls": [{"id": "c", "function": {"name": HALF, "arguments": ARGUMENTS}}]}
BODIES: dict[str, Payload] = {
    "openai-chat": {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]},
    "openai-completions": {"choices": [{"index": 0, "text": HALF, "finish_reason": "stop"}]},
    "openai-responses": {
        "status": "completed",
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": HALF}]},
            SAID,
            {"type": "function_call", "call_id": "c", "name": HALF, "arguments": json.dumps(ARGUMENTS)},
        ],
    },
    "openai-realtime": {
        "status": "completed",
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": HALF}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_audio", "transcript": HALF}]},
            {"type": "function_call", "call_id": "c", "name": HALF, "arguments": json.dumps(ARGUMENTS)},
        ],
    },
    "anthropic-messages": {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": HALF, "signature": HALF},
            {"type": "text", "text": HALF},
            {"type": "tool_use", "id": "c", "name": HALF, "input": ARGUMENTS},
        ],
        "stop_reason": "end_turn",
    },
    "google-generate": {"candidates": [{"content": {"parts": PARTS, "role": "model"}, "finishReason": "STOP"}]},
    "google-code-assist": {
        "response": {"candidates": [{"content": {"parts": PARTS, "role": "model"}, "finishReason": "STOP"}]}
    },
    "google-interactions": {
        "status": "completed",
        "steps": [
            {"type": "thought", "summary": [{"type": "text", "text": HALF}]},
            {"type": "model_output", "content": [{"type": "text", "text": HALF}]},
            {"type": "function_call", "id": "c", "name": HALF, "arguments": ARGUMENTS},
        ],
    },
    "ollama-chat": {"message": OLLAMA, "done": True},
    "ollama-generate": {"response": HALF, "thinking": HALF, "done": True},
    "vllm-generate": {"choices": [{"index": 0, "text": HALF, "finish_reason": "stop"}]},
    "sglang-generate": {"text": HALF, "meta_info": {"finish_reason": {"type": "stop"}}},
    "llama-completion": {"content": HALF, "stop": True},
    "transcriptions": {"text": HALF},
}
STREAMS: dict[str, list[Payload]] = {
    "openai-chat": [
        {"choices": [{"index": 0, "delta": MESSAGE}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
    "openai-completions": [BODIES["openai-completions"]],
    "openai-responses": [{"type": "response.completed", "response": BODIES["openai-responses"]}],
    "openai-realtime": [{"type": "response.done", "response": BODIES["openai-realtime"]}],
    "anthropic-messages": [
        {"type": "message_start", "message": BODIES["anthropic-messages"]},
        {"type": "message_stop"},
    ],
    "google-generate": [BODIES["google-generate"]],
    "google-code-assist": [BODIES["google-code-assist"]],
    "google-interactions": [
        {"event_type": "interaction.completed", "interaction": BODIES["google-interactions"]},
    ],
    "ollama-chat": [BODIES["ollama-chat"]],
    "ollama-generate": [BODIES["ollama-generate"]],
    **{api: [BODIES[api]] for api in ("vllm-generate", "sglang-generate", "llama-completion")},
    "transcriptions": [{"type": "transcript.text.done", "text": HALF}],
}


def never(name: str) -> NoReturn:
    """Raise an error for a constant that is not JSON."""
    raise AssertionError(f"{name} is not JSON")


def recorded(path: Path, url: str, answer: Answer, body: Payload = None) -> tuple[LLMInteraction, Payload]:
    """Return the only call as `load` reads it, and as the document has it."""
    recorder = TrajectoryRecorder(path, strict=True)
    sent = json.dumps(body or {"model": "m", "stream": answer.media != "application/json"})
    with recorder, httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(url, content=sent.encode())
    document = json.loads(path.read_bytes(), parse_constant=never)
    json.dumps(document, ensure_ascii=False).encode()
    trajectory = load(path)
    assert document == {**trajectory.to_document(), "history": document["history"]}
    return trajectory.llm_interactions[0], document["llm_interactions"][0]


def plain(body: Payload, status: int = 200) -> Answer:
    """Return a JSON answer whose surrogates are escaped."""
    return Answer(json.dumps(body).encode(), status)


def streamed(api: str, events: list[Payload]) -> Answer:
    """Return a stream of these events."""
    if api.startswith("ollama"):
        return Answer("".join(f"{json.dumps(event)}\n" for event in events).encode(), media="application/x-ndjson")
    return Answer("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode(), media="text/event-stream")


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_half_of_a_surrogate_pair_is_read(tmp_path: Path, api: str, way: str) -> None:
    """An answer with a lone surrogate is read with its content, reasoning, names and arguments."""
    answer = plain(BODIES[api]) if way == "plain" else streamed(api, STREAMS[api])
    url = URLS[api].replace(":generate", ":streamGenerate") if way == "streamed" else URLS[api]
    interaction, shown = recorded(tmp_path / "run.json", url, answer)

    assert (interaction.api, interaction.complete, shown["response"]["content"]) == (api, True, READ)
    assert interaction.response is not None
    calls = [(call.call_id, call.name, call.arguments) for call in interaction.response.tool_calls]
    if api in {"openai-completions", "vllm-generate", "sglang-generate", "llama-completion", "transcriptions"}:
        assert (interaction.response.reasoning, calls) == (None, [])
    elif api == "ollama-generate":
        assert (interaction.response.reasoning, calls) == (READ, [])
    else:
        assert (interaction.response.reasoning, calls) == (READ, [("c", READ, {"text": READ})])


def test_the_raw_body_is_the_received_body(tmp_path: Path) -> None:
    """The raw response of a body that strict readers refuse is the text of the body."""
    answer = plain(BODIES["openai-chat"])
    one, _ = recorded(tmp_path / "run.json", URLS["openai-chat"], answer)

    assert one.raw_response == answer.body.decode()


def test_a_request_with_half_of_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    """A request with a lone surrogate is read with its messages, model and `stream` member."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": HALF}, MESSAGE]}
    one, shown = recorded(tmp_path / "run.json", URLS["openai-chat"], plain(BODIES["openai-chat"]), body)

    said = [(message.content, [call.arguments for call in message.tool_calls]) for message in one.input_messages]
    assert (one.model, said) == ("m", [(READ, []), (READ, [{"text": READ}])])
    assert (shown["model"], len(shown["input_messages"])) == ("m", 2)


def test_an_error_with_half_of_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    """An error answer with a lone surrogate is read with its message."""
    answer = plain({"error": {"type": "overloaded", "message": HALF}}, 529)
    one, _ = recorded(tmp_path / "run.json", URLS["openai-chat"], answer)

    assert one.error is not None
    assert (one.error.type, one.error.message) == ("overloaded", READ)


def deep() -> Payload:
    """Return a value of 400 nested lists."""
    value: Payload = "inside"
    for _ in range(400):
        value = [value]
    return value


@pytest.mark.parametrize("odd", ["NaN", "-Infinity", "1e999", json.dumps(deep())], ids=["nan", "inf", "1e999", "deep"])
@pytest.mark.parametrize("way", ["plain", "streamed", "cut off"])
def test_a_value_that_json_cannot_express_hides_nothing_beside_it(tmp_path: Path, odd: str, way: str) -> None:
    """An answer with a number or nesting that strict JSON cannot express is read with all other members."""
    delta = "message" if way == "plain" else "delta"
    choice = {"index": 0, delta: {"content": "hi"}, "finish_reason": "stop", "logprobs": {"odd": "ODD"}}
    text = json.dumps({"choices": [choice]}).replace('"ODD"', odd)
    answer = Answer(text.encode())
    if way != "plain":
        answer = Answer(f"data: {text}\n\n".encode(), media="text/event-stream")
    if way == "cut off":
        text_before_its_end = tmp_path / "whole.json"
        recorded(text_before_its_end, URLS["openai-chat"], answer)
        lines = text_before_its_end.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
        kept = b"".join(lines[:-2])
        assert b"llm_stream" in kept
        (tmp_path / "cut.jsonl").write_bytes(kept)
        run = load(tmp_path / "cut.jsonl")
        shown = json.loads(json.dumps(run.to_document()), parse_constant=never)["llm_interactions"][0]
    else:
        _, shown = recorded(tmp_path / "run.json", URLS["openai-chat"], answer)

    assert (shown["response"]["content"], shown["response"]["finish_reason"]) == ("hi", "stop")


@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_arguments_that_are_not_strict_json_stay_text(tmp_path: Path, way: str) -> None:
    """Arguments in which the model writes NaN are recorded as the model's text."""
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": NaN}'}}
    members = {"delta" if way == "streamed" else "message": {"tool_calls": [called]}, "finish_reason": "tool_calls"}
    body = {"choices": [{"index": 0, **members}]}
    _, shown = recorded(
        tmp_path / "run.json", URLS["openai-chat"], streamed("chat", [body]) if way == "streamed" else plain(body)
    )

    assert [call["arguments"] for call in shown["response"]["tool_calls"]] == ['{"x": NaN}']
