"""SDKs of other providers, and LiteLLM over each of its transports: recorded once, and unchanged for their users.

They are installed by `nox -s seams`. The cases of a missing SDK are skipped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, CHAT_STREAM, Answer, plain, serving, stream
from trace_recorder import TrajectoryRecorder, instrument, load, uninstrument

Payload = Any
Call = Callable[[str], Payload]
ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
KEY: Any = {"api_key": "k"}
TOLD = {
    "id": "c1",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Grüße"}]},
    "finish_reason": "COMPLETE",
    "usage": {"tokens": {"input_tokens": 3, "output_tokens": 2}},
}
TOLD_EVENTS = [
    {"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}},
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
    *(
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": text}}}}
        for text in ("Grü", "ße")
    ),
    {"type": "content-end", "index": 0},
    {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": TOLD["usage"]}},
]
WHOLE, STREAM, COHERE = plain(CHAT), stream(*CHAT_STREAM), plain(TOLD)
COHERE_STREAM = stream(*(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in TOLD_EVENTS))

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of these packages are not our concern


def package(name: str) -> Payload:
    """Import a package, or skip the test."""
    return pytest.importorskip(name)


def mistral() -> Payload:
    """Return the class of Mistral's clients, which is in different modules in different versions."""
    module = package("mistralai")
    return module.Mistral if hasattr(module, "Mistral") else import_module("mistralai.client").Mistral


def run(work: Coroutine[Payload, None, Payload]) -> Payload:
    """Run a coroutine in an event loop of its own."""
    return asyncio.run(work)


def texts(chunks: Payload) -> list[str | None]:
    """Return the texts of the chunks of a chat stream."""
    return [chunk.choices[0].delta.content for chunk in chunks]


def litellm(url: str, model: str = "openai/m", *, by_httpx: bool = False, **more: Payload) -> Payload:
    """Await a completion of LiteLLM, over aiohttp or httpx, with new clients for each call."""
    module = package("litellm")
    module.disable_aiohttp_transport = by_httpx
    module.in_memory_llm_clients_cache.flush_cache()
    request = {**ASK, **KEY, "model": model, "api_base": f"{url}/v1", **more}
    return run(module.acompletion(**request)).choices[0].message.content


def hugging_face(kind: str, url: str) -> Payload:
    """Return a client of Hugging Face."""
    return getattr(package("huggingface_hub"), kind)(base_url=f"{url}/v1", **KEY)


CASES: dict[str, tuple[Call, Answer]] = {
    "groq": (lambda url: package("groq").Groq(base_url=url, **KEY).chat.completions.create(**ASK).id, WHOLE),
    "groq, streamed": (
        lambda url: texts(package("groq").Groq(base_url=url, **KEY).chat.completions.create(**ASK, stream=True)),
        STREAM,
    ),
    "groq, async": (
        lambda url: run(package("groq").AsyncGroq(base_url=url, **KEY).chat.completions.create(**ASK)).id,
        WHOLE,
    ),
    "together": (
        lambda url: package("together").Together(base_url=f"{url}/v1", **KEY).chat.completions.create(**ASK).id,
        WHOLE,
    ),
    "mistralai": (lambda url: mistral()(server_url=url, **KEY).chat.complete(**ASK).id, WHOLE),
    "mistralai, streamed": (
        lambda url: [
            event.data.choices[0].delta.content or None for event in mistral()(server_url=url, **KEY).chat.stream(**ASK)
        ][:2],
        STREAM,
    ),
    "mistralai, async": (lambda url: run(mistral()(server_url=url, **KEY).chat.complete_async(**ASK)).id, WHOLE),
    "cohere": (lambda url: package("cohere").ClientV2(base_url=url, **KEY).chat(**ASK).message.content[0].text, COHERE),
    "cohere, streamed": (
        lambda url: [
            event.delta.message.content.text
            for event in package("cohere").ClientV2(base_url=url, **KEY).chat_stream(**ASK)
            if event.type == "content-delta"
        ],
        COHERE_STREAM,
    ),
    "cohere, async": (
        lambda url: run(package("cohere").AsyncClientV2(base_url=url, **KEY).chat(**ASK)).message.content[0].text,
        COHERE,
    ),
    "huggingface_hub": (lambda url: hugging_face("InferenceClient", url).chat_completion(**ASK).id, WHOLE),
    "huggingface_hub, async": (
        lambda url: run(hugging_face("AsyncInferenceClient", url).chat_completion(**ASK)).id,
        WHOLE,
    ),
    "litellm": (
        lambda url: package("litellm").completion(**{**ASK, "model": "openai/m"}, api_base=f"{url}/v1", **KEY).id,
        WHOLE,
    ),
    "litellm, by openai": (litellm, WHOLE),
    "litellm, by aiohttp": (lambda url: litellm(url, "mistral/m"), WHOLE),
    "litellm, by httpx": (lambda url: litellm(url, "mistral/m", by_httpx=True), WHOLE),
    "dspy": (
        lambda url: package("dspy").LM("openai/m", api_base=f"{url}/v1", cache=False, engine="litellm", **KEY)("hello"),
        WHOLE,
    ),
    "an agent on requests": (
        lambda url: package("requests").post(f"{url}/v1/chat/completions", json=ASK).json()["id"],
        WHOLE,
    ),
}


@pytest.mark.parametrize(("call", "answer"), CASES.values(), ids=CASES)
def test_a_call_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call, answer: Answer) -> None:
    """The caller gets the same result as without recording.

    The call is recorded once, with the server's request and a complete answer.
    """
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise it asks the network for prices
    with serving(answer) as server:
        alone = call(server.url)
    with serving(answer) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True):
        instrument()
        try:
            recorded = call(server.url)
        finally:
            uninstrument()
    calls = load(tmp_path / "a.json").llm_interactions

    assert recorded == alone
    assert [(call.raw_request, call.complete, call.error) for call in calls] == [(server.bodies()[0], True, None)]
    assert [call.response.content for call in calls] in (["hi"], ["Grüße"])
