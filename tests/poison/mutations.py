"""Real bodies of every dialect, of which parts are replaced, doubled or removed.

The bodies are the project's own. The corpus of real traffic is used too, if it is installed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from tests.chat_calls import TOOL, asked
from tests.provider import CHAT, GENERATED, MESSAGE, OLLAMA
from tests.wire.corpus import load
from trace_recorder.values.messages import Payload, without_none

DATA = Path(__file__).parents[1] / "dialects" / "data"


def deep(depth: int = 150) -> Payload:
    value: Payload = "x"
    for _ in range(depth // 2):
        value = [{"a": value}]
    return value


RUBBISH: tuple[Callable[[], Payload], ...] = (
    *(lambda: None, list, dict, lambda: 0, lambda: -1, lambda: 1.5, lambda: "x", lambda: "", lambda: True),
    *(lambda: 2**70, lambda: [None], lambda: [[]], lambda: {"": None}, lambda: "\ud800", lambda: 1e308, deep),
    *(lambda: [0, "x", None, {}], lambda: {"type": "text"}, lambda: "{", lambda: '{"a": 1}', lambda: "[1]"),
)

_CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
BODIES: dict[str, Payload] = {
    "chat": CHAT,
    "chat with calls": {**CHAT, "choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": [_CALL]}}]},
    "chat chunk": {"choices": [{"index": 0, "delta": {"content": "x", "tool_calls": [{"index": 0, **_CALL}]}}]},
    "message": MESSAGE,
    "generated": GENERATED,
    "ollama": OLLAMA,
    "request": asked("x", {"role": "assistant", "tool_calls": [_CALL]}, tools=[TOOL], stream=False),
    "responses": {
        "id": "r",
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
    },
    "responses request": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}],
        "tools": [TOOL],
    },
    "anthropic request": {
        "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text"}]}]},
        ],
    },
    "google request": {
        "contents": [{"role": "user", "parts": [{"text": "x"}, {"functionResponse": {"name": "f", "response": {}}}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
        "generationConfig": {"temperature": 0},
    },
    "images": {"data": [{"b64_json": "QUJD", "revised_prompt": "x"}], "usage": {"input_tokens": 1, "output_tokens": 2}},
    "images request": {
        "prompt": "x",
        "image[]": [{"filename": "a.png", "content_type": "image/png", "base64": "QUJD"}, "https://x/a.png"],
        "instances": [{"prompt": "x", "referenceImages": [{"referenceImage": {"bytesBase64Encoded": "QUJD"}}]}],
    },
    "speech": {"content_type": "audio/mpeg", "base64": "QUJD"},
    "transcription": {"text": "x", "segments": [{"text": "x"}], "usage": {"type": "duration", "seconds": 1}},
    "transcription request": {"file": {"filename": "a", "base64": "QUJD"}, "prompt": "x", "model": "m"},
    "ranking": {"results": [{"index": 0, "relevance_score": 0.5}], "meta": {"billed_units": {"search_units": 1}}},
    "ranking request": {"query": "x", "documents": ["x", {"text": "x", "title": "y"}]},
    "embedded": {
        "embeddings": [{"values": [0.5]}],
        "predictions": [{"embeddings": {"statistics": {"token_count": 1}}}],
        "usageMetadata": {"promptTokenCount": 1},
    },
}  # fmt: skip


def streams() -> dict[str, list[str]]:
    """Return streams of every dialect by the dialect's name, including real ones if the corpus is installed."""
    texts: dict[str, list[str]] = {}
    for path in sorted(DATA.iterdir()):
        text = path.read_text(encoding="utf-8")
        for api in APIS:
            if path.name.startswith(api.replace("-", "_")) or _FAMILY.get(path.stem) == api:
                texts.setdefault(api, []).append(text)
    for one in load():
        if one.stream:
            texts.setdefault(one.dialect, []).append(one.response_text)
    return texts


APIS = (
    *("openai-chat", "openai-responses", "openai-completions", "embeddings", "anthropic-messages"),
    *("google-generate", "google-code-assist", "google-interactions", "ollama-chat", "ollama-generate"),
    *("vllm-generate", "sglang-generate", "llama-completion"),
    *("openai-realtime", "openai-compaction", "images", "speech", "transcriptions", "rerank", "moderations"),
)
_FAMILY = {"anthropic_everything": "anthropic-messages", "google_everything": "google-generate"}


@cache
def real_bodies() -> tuple[tuple[str | None, Payload], ...]:
    """Return bodies with their dialect, or None for our own: requests, and answers that are JSON."""
    bodies: list[tuple[str | None, Payload]] = [(None, body) for body in BODIES.values()]
    for one in load():
        bodies.append((one.dialect, one.request))
        if not one.stream:
            bodies += [(one.dialect, parsed) for parsed in without_none(body=_parsed(one.response_text)).values()]
    return tuple(bodies)


def _parsed(text: str) -> Payload:
    try:
        return json.loads(text)
    except ValueError:
        return None


def mutated(body: Payload, random: Random, times: int = 3) -> Payload:
    """Return a copy of a body in which some parts, anywhere, are replaced, removed, doubled or moved."""
    body = copy.deepcopy(body)
    for _ in range(random.randint(1, times)):
        places = list(_places(body))
        if not places:
            return random.choice(RUBBISH)()
        holder, key = random.choice(places)
        act = random.randrange(8)
        if act == 0 and isinstance(holder, dict):
            del holder[key]
        elif act == 1 and isinstance(holder, list):
            holder.insert(random.randrange(len(holder) + 1), holder[key])
        elif act == 2:
            other, name = random.choice(places)
            holder[key] = copy.deepcopy(other[name])
        else:
            holder[key] = random.choice(RUBBISH)()
    return body


def _places(value: Payload) -> Iterator[tuple[Payload, Payload]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, element in list(pairs):
        yield value, key
        yield from _places(element)


def mutations() -> st.SearchStrategy[Payload]:
    """Return a strategy for mutated bodies of the project's own."""
    return st.builds(
        lambda name, seed: mutated(BODIES[name], Random(seed)), st.sampled_from(sorted(BODIES)), st.integers(0, 2**32)
    )
