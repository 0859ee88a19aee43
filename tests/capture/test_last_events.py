"""Whether a stream is complete is decided by the dialect's last event, however the HTTP response ended."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from tests.journals import journal_of, records_of
from tests.wire.corpus import load as corpus
from trace_recorder import LLMInteraction, TrajectoryRecorder, load
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.formats.training import openai_finetuning
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.messages import Payload

MISSING = "the stream ended without its last event"
GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
TEXT = {"parts": [{"text": "hi"}], "role": "model"}
STREAMS: dict[str, tuple[str, list[Payload], Payload]] = {
    # (the address, the events before the last one, the last one)
    "openai-chat": (
        "https://api.openai.com/v1/chat/completions",
        [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}}]}],
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ),
    "openai-completions": (
        "https://api.openai.com/v1/completions",
        [{"choices": [{"index": 0, "text": "hi", "finish_reason": None}]}],
        "[DONE]",
    ),
    "openai-responses": (
        "https://api.openai.com/v1/responses",
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hi"},
        ],
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ),
    "openai-realtime": (
        "https://api.openai.com/v1/realtime",
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hi"},
        ],
        {"type": "response.done", "response": {"id": "r", "status": "completed", "output": []}},
    ),
    "anthropic-messages": (
        "https://api.anthropic.com/v1/messages",
        [
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ],
        {"type": "message_stop"},
    ),
    "google-generate": (
        f"{GOOGLE}/models/gemini:streamGenerateContent?alt=sse",
        [{"candidates": [{"content": TEXT, "index": 0}]}],
        {"candidates": [{"content": TEXT, "finishReason": "STOP", "index": 0}]},
    ),
    "google-code-assist": (
        "https://cloudcode-pa.googleapis.com/v1internal:streamGenerateContent?alt=sse",
        [{"response": {"candidates": [{"content": TEXT, "index": 0}]}, "traceId": "t"}],
        {"response": {"candidates": [{"content": TEXT, "finishReason": "STOP", "index": 0}]}, "traceId": "t"},
    ),
    "google-interactions": (
        f"{GOOGLE}/interactions",
        [
            {"event_type": "interaction.created", "interaction": {"id": "i", "status": "in_progress"}},
            {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "hi"}},
        ],
        {"event_type": "interaction.completed", "interaction": {"id": "i", "status": "completed"}},
    ),
    "ollama-chat": (
        "http://localhost:11434/api/chat",
        [{"message": {"role": "assistant", "content": "hi"}, "done": False}],
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ),
    "ollama-generate": (
        "http://localhost:11434/api/generate",
        [{"response": "hi", "done": False}],
        {"response": "", "done": True, "done_reason": "stop"},
    ),
    "vllm-generate": (
        "http://localhost:8000/inference/v1/generate",
        [{"choices": [{"index": 0, "token_ids": [7]}]}],
        {"choices": [{"index": 0, "token_ids": [8], "finish_reason": "stop"}]},
    ),
    "sglang-generate": (
        "http://localhost:30000/generate",
        [{"text": "hi", "output_ids": [7], "meta_info": {"finish_reason": None, "completion_tokens": 1}}],
        {"text": "hi", "output_ids": [7], "meta_info": {"finish_reason": {"type": "stop"}, "completion_tokens": 1}},
    ),
    "llama-completion": (
        "http://localhost:8080/completion",
        [{"content": "hi", "stop": False}],
        {"content": "", "stop": True, "stop_type": "eos"},
    ),
    "images": (
        "https://api.openai.com/v1/images/generations",
        [{"type": "image_generation.partial_image", "b64_json": "QUJD"}],
        {"type": "image_generation.completed", "b64_json": "QUJD"},
    ),
    "speech": (
        "https://api.openai.com/v1/audio/speech",
        [{"type": "speech.audio.delta", "audio": "QUJD"}],
        {"type": "speech.audio.done"},
    ),
    "transcriptions": (
        "https://api.openai.com/v1/audio/transcriptions",
        [{"type": "transcript.text.delta", "delta": "hi"}],
        {"type": "transcript.text.done", "text": "hi"},
    ),
}


def streamed(api: str, events: list[Payload]) -> Answer:
    """Return a stream of these events whose HTTP response ends cleanly."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    if api.startswith("ollama"):
        return Answer("".join(f"{text}\n" for text in texts).encode(), media="application/x-ndjson", size=7)
    return Answer("".join(f"data: {text}\n\n" for text in texts).encode(), media="text/event-stream", size=7)


def recorded(path: Path, url: str, answer: Answer) -> LLMInteraction:
    """Return the interaction of a streamed call, after a check that the document and the journal agree."""
    recorder = TrajectoryRecorder(path, strict=True)
    with recorder, httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(url, json={"model": "m", "messages": [], "stream": True})
    [interaction] = load(path).llm_interactions
    [written] = json.loads(path.read_bytes())["llm_interactions"]
    assert (written["complete"], written["ended_by"]) == (interaction.complete, interaction.ended_by)
    return interaction


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_without_its_last_event_is_incomplete(tmp_path: Path, api: str) -> None:
    """A stream whose HTTP response ends cleanly is complete only if the dialect's last event was received."""
    url, events, last = STREAMS[api]
    cut = recorded(tmp_path / "cut.json", url, streamed(api, events))
    whole = recorded(tmp_path / "whole.json", url, streamed(api, [*events, last]))

    assert (cut.api, cut.complete, cut.ended_by) == (api, False, MISSING)
    assert (whole.complete, whole.ended_by) == (True, None)


def test_a_stream_with_an_error_is_incomplete(tmp_path: Path) -> None:
    """A stream with an error in place of the last event is incomplete."""
    url, events, _ = STREAMS["openai-chat"]
    interaction = recorded(
        tmp_path / "run.json", url, streamed("openai-chat", [*events, {"error": {"message": "overloaded"}}])
    )

    assert (interaction.complete, interaction.ended_by) == (False, "the stream carried an error")


def test_an_empty_stream_is_incomplete(tmp_path: Path) -> None:
    """A stream that ends without any event is incomplete."""
    interaction = recorded(tmp_path / "run.json", STREAMS["openai-chat"][0], Answer(b"", media="text/event-stream"))

    assert (interaction.complete, interaction.ended_by) == (False, MISSING)


def test_without_a_last_event_the_end_of_http_is_the_end(tmp_path: Path) -> None:
    """A stream of Writer's completions, which has no last event, is complete when the HTTP response ends."""
    answer = streamed("openai-completions", [{"value": "h"}, {"value": "i"}])
    interaction = recorded(tmp_path / "run.json", STREAMS["openai-completions"][0], answer)

    assert (interaction.complete, interaction.ended_by) == (True, None)


def test_an_incomplete_answer_is_not_trained_on(tmp_path: Path) -> None:
    """A stream without its last event gives neither a complete turn nor a row for training."""
    url, events, _ = STREAMS["openai-chat"]
    recorded(tmp_path / "run.json", url, streamed("openai-chat", events))
    run = load(tmp_path / "run.json")

    assert [turn.is_complete for turn in turns_of(run)] == [False]
    assert [*openai_finetuning.to_openai_finetuning(run)] == []


@pytest.mark.parametrize(("kept", "complete"), [(1, False), (2, True)])
def test_an_older_journal_is_read_by_its_stream(tmp_path: Path, kept: int, complete: bool) -> None:
    """In an older journal, whose records do not state whether the last event arrived, the stream's text decides."""
    url, events, last = STREAMS["openai-chat"]
    recorded(tmp_path / "run.json", url, streamed("openai-chat", [*events, last][:kept]))
    records = [(record.kind, {**record.data}) for record in records_of(tmp_path / "run.json")]
    for kind, data in records:
        if kind == "llm_response":
            assert data.pop("last_event") is complete
            data["complete"] = True
            data.pop("ended_by", None)
    (tmp_path / "old.jsonl").write_bytes(journal_of(*records))
    [interaction] = load(tmp_path / "old.jsonl").llm_interactions

    assert (interaction.complete, interaction.ended_by) == (complete, None if complete else MISSING)


@pytest.mark.skipif(not corpus(), reason="the corpus is absent: set TRACE_RECORDER_WIRE")
def test_every_recorded_stream_is_complete() -> None:
    """Every complete stream of the corpus is recognised as complete."""
    streams = [exchange for exchange in corpus() if exchange.stream and exchange.status < 400]
    joined = [(exchange, join_stream(exchange.dialect, exchange.response_text.encode())) for exchange in streams]

    assert len(joined) > 400
    assert [exchange.source for exchange, stream in joined if stream is None or stream.ended is False] == []
