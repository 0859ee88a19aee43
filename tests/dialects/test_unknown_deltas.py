"""The rule for all streams: a delta of an unknown type is joined like every text, and shown.

Each dialect has its own form of a delta. `STREAMS` has, for each dialect, an answer that grows by deltas of a type that
no dialect knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from trace_recorder.dialects.dialect import DIALECTS
from trace_recorder.figures.content.kinds import contents_of_answer, text_beside
from trace_recorder.values.messages import Payload

Deltas = Sequence[dict[str, Payload]]
DELTAS: Deltas = (
    {"novelty": "So ", "score": 1, "novelty_id": "a", "inner": {"hint": "x", "n": 1}, "seen": ["p"]},
    {"novelty": "so ", "score": 2, "novelty_id": "a", "inner": {"hint": "y"}, "seen": ["q"]},
    {"novelty": "so ", "score": None, "novelty_id": None, "inner": {"hint": "y"}, "seen": []},
    {"novelty": "far.", "novelty_id": "b", "inner": {"n": 2}},
)
"""Four deltas: texts, also two equal ones, numbers, ids, objects and lists."""
JOINED: Payload = {
    "novelty": "So so so far.",
    "score": 2,
    "novelty_id": "b",
    "inner": {"hint": "xyy", "n": 2},
    "seen": ["p", "q"],
}
"""Texts and lists grow, objects are merged. Of numbers and ids, the last one is kept."""


def sse(*events: Payload) -> str:
    """Return server-sent events."""
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


def chat(deltas: Deltas) -> str:
    """Return a chat stream."""
    return sse(*({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]} for delta in deltas))


def anthropic(deltas: Deltas) -> str:
    """Return a stream of an Anthropic message with one block of an unknown type."""
    begin = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "novelty", "novelty": None}},
    ]
    grow = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "novelty_delta", **delta}} for delta in deltas
    ]
    return sse(*begin, *grow, {"type": "message_stop"})


def responses(deltas: Deltas) -> str:
    """Return a stream of the Responses API that is cut off before its last event, with an item of an unknown type."""
    item = {"type": "novelty_item", "id": "i"}
    begin = {"type": "response.output_item.added", "output_index": 0, "item": item}
    grow = [{"type": "response.novelty_item.delta", "output_index": 0, "delta": delta} for delta in deltas]
    return sse(begin, *grow)


def google(deltas: Deltas) -> str:
    """Return a stream of the Interactions API, with a step of an unknown type."""
    begin = {"event_type": "step.start", "index": 0, "step": {"type": "novelty_step"}}
    grow = [{"event_type": "step.delta", "index": 0, "delta": {"type": "novelty_delta", **delta}} for delta in deltas]
    return sse(begin, *grow)


def cohere(deltas: Deltas) -> str:
    """Return a stream of Cohere's chat with events of an unknown type."""
    return sse(*({"type": "novelty-delta", "delta": {"message": delta}} for delta in deltas))


def cohere_block(deltas: Deltas) -> str:
    """Return a stream of Cohere's chat with a content block of an unknown type."""
    contents = [{"type": "novelty"}, *deltas]
    return sse(*({"type": "content-delta", "index": 0, "delta": {"message": {"content": c}}} for c in contents))


def bedrock(deltas: Deltas) -> str:
    """Return a stream of Converse with a block of an unknown type, as the capture writes its frames."""
    events = [{"contentBlockIndex": 0, "delta": {"novelty_block": delta}} for delta in deltas]
    return "".join(f"event: contentBlockDelta\ndata: {json.dumps(event)}\n\n" for event in events)


def ollama(deltas: Deltas) -> str:
    """Return a stream of Ollama's chat."""
    return "".join(json.dumps({"model": "m", "message": {"role": "assistant", **delta}}) + "\n" for delta in deltas)


def message(body: Payload) -> Payload:
    """Return the message of a chat answer without its role."""
    return {name: value for name, value in body["choices"][0]["message"].items() if name != "role"}


def without_type(block: Payload) -> Payload:
    """Return a block without its type and its own id."""
    return {name: value for name, value in block.items() if name not in ("type", "id")}


STREAMS: dict[str, tuple[str, Callable[[Deltas], str], Callable[[Payload], Payload]]] = {
    "chat": ("openai-chat", chat, message),
    "anthropic": ("anthropic-messages", anthropic, lambda body: without_type(body["content"][0])),
    "responses": ("openai-responses", responses, lambda body: without_type(body["output"][0])),
    "interactions": ("google-interactions", google, lambda body: without_type(body["steps"][0])),
    "cohere": ("cohere-chat", cohere, lambda body: {n: v for n, v in body["message"].items() if n != "role"}),
    "cohere block": ("cohere-chat", cohere_block, lambda body: without_type(body["message"]["content"][0])),
    "bedrock": (
        "bedrock-converse",
        bedrock,
        lambda body: body["output"]["message"]["content"][0]["novelty_block"],
    ),
    "ollama": ("ollama-chat", ollama, lambda body: {n: v for n, v in body["message"].items() if n != "role"}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_deltas_of_an_unknown_type_are_joined(name: str) -> None:
    """Texts and lists grow, objects are merged, and the last number and the last id are kept."""
    api, stream, member = STREAMS[name]
    assert member(DIALECTS[api].join_stream(stream(DELTAS)).body) == JOINED


@pytest.mark.parametrize("name", STREAMS)
def test_many_equal_deltas_are_joined_as_few_are(name: str) -> None:
    """Neighbouring events of one form are read together. Their texts are joined as those of single events are."""
    api, stream, member = STREAMS[name]
    deltas = [{"novelty": f"{number % 3} "} for number in range(200)]
    joined = DIALECTS[api].join_stream(stream(deltas))
    assert (member(joined.body), joined.events >= 200) == (
        {"novelty": "".join(delta["novelty"] for delta in deltas)},
        True,
    )


def texts_shown(api: str, body: Payload) -> Iterator[str]:
    """Yield the text of each content of an answer that no table of kinds lists."""
    for content in contents_of_answer(DIALECTS[api].read_response(body)):
        yield text_beside(content)


@pytest.mark.parametrize("name", ["chat", "anthropic", "responses", "interactions", "cohere", "ollama"])
def test_the_text_beside_deltas_is_shown(name: str) -> None:
    """The whole text is among the contents that `show` prints."""
    api, stream, _ = STREAMS[name]
    body = DIALECTS[api].join_stream(stream([{"novelty": "So "}, {"novelty": "far."}])).body
    assert "So far." in [*texts_shown(api, body)]


def test_pieces_of_an_unknown_text_of_the_response_itself_are_joined() -> None:
    """A delta of the Responses API that names no item adds to the response."""
    events = [{"type": "response.audio_story.delta", "delta": piece} for piece in ("So ", "far.")]
    body = DIALECTS["openai-responses"].join_stream(sse(*events)).body
    assert (body, [*texts_shown("openai-responses", body)]) == ({"story": "So far."}, ["So far."])


def test_neighbouring_google_texts_of_an_unknown_kind_are_joined() -> None:
    """Texts with the same other members are one part. A text with a signature stays a part of its own."""
    parts = [{"text": "So ", "compaction": True}, {"text": "far.", "compaction": True}]
    parts += [{"text": "a", "thoughtSignature": "s"}, {"text": "b", "thoughtSignature": "s"}]
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    body = DIALECTS["google-generate"].join_stream(sse(*chunks)).body
    assert body["candidates"][0]["content"]["parts"] == [{"text": "So far.", "compaction": True}, *parts[2:]]
