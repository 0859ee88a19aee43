"""Calls that are no turns, in every view: shown as what they are, and never a row to train on, a prompt or a step."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.showing import shown as shown_by_the_command
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.figures.cost import cost_of
from trace_recorder.formats.left_out import OTHER_CALLS
from trace_recorder.formats.spans.writing.spans import to_spans
from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.viewer.parts import WHOLE, response_json
from trace_recorder.viewer.prompts import Prompts

Payload = Any
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n1234").decode()
CHAT = {
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Here."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
}
CALLS: dict[str, tuple[Payload, Payload]] = {
    "/v1/chat/completions": ({"model": "gpt-4o", "messages": [{"role": "user", "content": "Draw a cat"}]}, CHAT),
    "/v1/images/generations": (
        {"model": "gpt-image-1", "prompt": "Draw a cat"},
        {
            "data": [{"b64_json": PNG, "revised_prompt": "a grey cat"}],
            "usage": {
                "input_tokens": 50,
                "input_tokens_details": {"image_tokens": 0, "text_tokens": 50},
                "output_tokens": 1000,
                "total_tokens": 1050,
            },
        },
    ),
    "/v1/audio/speech": ({"model": "tts-1", "input": "Hello", "voice": "alloy"}, b"ID3\xff"),
    "/v1/audio/transcriptions": (
        {"model": "gpt-4o-transcribe", "file": "https://x/a.mp3"},
        {
            "text": "hello there",
            "usage": {
                "type": "tokens",
                "input_tokens": 100,
                "input_token_details": {"text_tokens": 10, "audio_tokens": 90},
                "output_tokens": 10,
                "total_tokens": 110,
            },
        },
    ),
    "/v1/embeddings": (
        {"model": "text-embedding-3-small", "input": "tea"},
        {"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 1_000_000, "total_tokens": 1_000_000}},
    ),
    "/v1/rerank": (
        {"model": "rerank-v3.5", "query": "tea", "documents": ["cups"]},
        {"results": [{"index": 0, "relevance_score": 0.5}], "meta": {"billed_units": {"search_units": 1}}},
    ),
    "/v1/moderations": ({"model": "omni-moderation", "input": "tea"}, {"results": [{"flagged": False}]}),
    "/v1/responses/compact": (
        {"model": "gpt-4o", "input": [{"role": "user", "content": "Draw a cat"}]},
        {"id": "r", "output": [{"type": "compaction", "encrypted_content": "x"}], "usage": {"input_tokens": 9}},
    ),
}


def answer(request: httpx.Request) -> httpx.Response:
    body = CALLS[request.url.path][1]
    if isinstance(body, bytes):
        return httpx.Response(200, content=body, headers={"content-type": "audio/mpeg"})
    return httpx.Response(200, json=body)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a run with a chat call, and a call of each other operation."""
    path = tmp_path_factory.mktemp("run") / "run.json"
    with TrajectoryRecorder(path, task="draw") as recorder, httpx.Client(transport=httpx.MockTransport(answer)) as http:
        for address, (asked, _) in CALLS.items():
            recorder.wrap(http).post(f"https://api.openai.com{address}", json=asked)
    return path


@pytest.fixture
def run(path: Path) -> Trajectory:
    return load(path)


def test_only_the_chat_is_a_turn_and_a_step(run: Trajectory) -> None:
    """The other calls are calls of the run, and no decisions of the agent."""
    assert (len(run.llm_interactions), len(turns_of(run)), len(run.agent_steps)) == (len(CALLS), 1, 1)


def test_the_other_calls_are_not_trained_on(run: Trajectory) -> None:
    """Rows for training leave the calls out, and the report counts them."""
    rows, left_out = to_openai_finetuning.with_report(run)

    assert ([len(row["messages"]) for row in rows], left_out[OTHER_CALLS]) == ([2], len(CALLS) - 1)


def test_no_prompt_is_compared_with_the_prompt_of_another_operation(run: Trajectory) -> None:
    """The viewer shows each of these prompts, and none of them is the base of a later one."""
    prompts = Prompts()
    prompts.update(run)
    shown = prompts.shown

    assert [prompt.base for prompt in shown[2:]] == [None] * (len(CALLS) - 3) + [1]
    assert [prompt.count for prompt in shown] == [1, 1, 1, 1, 0, 2, 1, 1]


SPANS = {
    "chat gpt-4o": ("chat", None, "LLM"),
    "generate_content gpt-image-1": ("generate_content", "image", "LLM"),
    "generate_content tts-1": ("generate_content", "speech", "LLM"),
    "generate_content gpt-4o-transcribe": ("generate_content", "text", "LLM"),
    "embeddings text-embedding-3-small": ("embeddings", None, "EMBEDDING"),
    "rerank rerank-v3.5": ("rerank", None, "RERANKER"),
    "moderation omni-moderation": ("moderation", None, "GUARDRAIL"),
    "compaction gpt-4o": ("compaction", None, "LLM"),
}


def test_spans_name_the_operation(run: Trajectory) -> None:
    """The conventions call media `generate_content`, with the type of the output. OpenInference has kinds."""
    spans = [span for span in to_spans(run, "both") if "trace_recorder.interaction_id" in span.attributes]
    names = ("gen_ai.operation.name", "gen_ai.output.type", "openinference.span.kind")

    assert {span.name: tuple(map(span.attributes.get, names)) for span in spans} == SPANS


def test_an_image_that_a_model_made_is_shown(run: Trajectory) -> None:
    """A span has the bytes of the image, and the viewer shows the image."""
    [span] = [span for span in to_spans(run) if span.attributes.get("gen_ai.output.type") == "image"]
    image = {"type": "blob", "mime_type": "image/png", "modality": "image", "content": PNG}
    shown = response_json(run.llm_interactions[1].response, WHOLE)

    assert json.loads(str(span.attributes["gen_ai.output.messages"])) == [{"role": "assistant", "parts": [image]}]
    assert shown["parts"] == [{"type": "image", "media_type": "image/png", "data": PNG}]


def test_tokens_of_images_and_sounds_have_their_own_rates(run: Trajectory) -> None:
    """A million tokens of embeddings cost 0.02 dollars, and audio costs more than text. Speech is unknown."""
    pytest.importorskip("genai_prices")
    costs = [cost_of(call) for call in run.llm_interactions[1:6]]

    assert [cost and round(cost.amount, 6) for cost in costs] == [0.04025, None, 0.000665, 0.02, None]


def lines_of(text: str) -> Iterator[str]:
    return (" ".join(line.split()) for line in text.splitlines())


def test_show_prints_the_texts(path: Path) -> None:
    """`show` prints the prompts, the transcribed text, and what else an answer has."""
    lines = [*lines_of(shown_by_the_command(path))]

    for line in ("user Hello", "answer hello there", "input tea", "revised prompts a grey cat", "user cups"):
        assert line in lines
    assert [line for line in lines if line.startswith("beside")] == [
        "beside 1 x images, 1 x revised prompts",
        "beside 1 x audio",
        "beside 1 x results",
        "beside 1 x results",
        "beside 1 x compaction",
    ]
