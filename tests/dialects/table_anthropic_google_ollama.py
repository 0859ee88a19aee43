"""Helpers of these three dialects' tests: the corpus as the SDKs read it and as we read it.

The SDK's own client gets the recorded bytes through a transport of ours. A stream is read through the SDK's final
message (Anthropic), or chunk by chunk (Google, Ollama). Made-up ids are ignored. `python -m
tests.dialects.table_anthropic_google_ollama` prints how many exchanges are equal, and names the others.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
from google import genai
from google.genai.errors import APIError
from google.genai.types import HttpOptions
from msgspec import to_builtins

from tests.wire.corpus import Exchange, load
from trace_recorder.dialects.dialect import Dialect, dialect_of
from trace_recorder.values.messages import LLMResponse, Payload

DIALECTS = ("anthropic-messages", "google-generate", "google-interactions", "ollama-chat", "ollama-generate")
IN_WORDS = {
    '"finishReason": 1': '"finishReason": "STOP"',
    '"finishReason": 2': '"finishReason": "MAX_TOKENS"',
    '"modality": 1': '"modality": "TEXT"',
    '"modality": 2': '"modality": "IMAGE"',
    '"trafficType": 1': '"trafficType": "ON_DEMAND"',
}
"""Words for the enums that Vertex's older SDK requests as numbers, which google-genai cannot read."""
COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens")


def exchanges(dialect: str) -> list[Exchange]:
    """Return a dialect's exchanges, or an empty list without the corpus."""
    return [exchange for exchange in load() if exchange.dialect == dialect]


def reader(dialect: str) -> Dialect:
    """Return a dialect's reader."""
    found = dialect_of(dialect)
    assert found is not None
    return found


def body_of(exchange: Exchange) -> Payload:
    """Return the body of an exchange's answer. The body of a stream is joined from its events."""
    if exchange.stream:
        return reader(exchange.dialect).join_stream(exchange.response_text).body
    return json.loads(exchange.response_text)


def our_reading(exchange: Exchange) -> Payload:
    """Read the response with our reader."""
    response = reader(exchange.dialect).read_response(body_of(exchange))
    return response.extra["error"] if exchange.status != 200 else _ours(response)


def sdk_reading(exchange: Exchange) -> Payload:
    """Read the response with the SDK. Return its reading, or the error that it raised."""
    return _SDKS[exchange.dialect](exchange)


def cut_wrongly(dialect: str) -> list[tuple[str, int]]:
    """Cut each stream at 50 places. Return the cut streams whose reading is not a beginning of the whole reading."""
    wrong = []
    places = random.Random(dialect)
    for exchange in exchanges(dialect):
        whole = our_reading(exchange) if exchange.stream else None
        for _ in range(50 if whole else 0):
            place = places.randint(0, len(exchange.response_text))
            joined = reader(dialect).join_stream(exchange.response_text[:place])
            part = reader(dialect).read_response(joined.body)
            if not _begins(whole, part):
                wrong.append((exchange.source, place))
    return wrong


def lost(exchange: Exchange) -> set[str]:
    """Return the texts of an exchange's request and response that are missing in our reading of it."""
    request, body = reader(exchange.dialect).read_request(exchange.request), body_of(exchange)
    found = "\n".join(_texts(to_builtins(request))) + "\n".join(
        _texts(to_builtins(reader(exchange.dialect).read_response(body)))
    )
    return {text for text in [*_texts(exchange.request), *_texts(body)] if text not in found}


def _ours(response: LLMResponse) -> Payload:
    choices = [
        _choice(
            choice.content,
            choice.reasoning,
            [(None if c.call_id_made_up else c.call_id, c.name, c.arguments) for c in choice.tool_calls],
            choice.finish_reason,
        )
        for choice in response.choices
    ]
    usage = response.usage
    return _answer(response.id, response.model, choices, usage.is_known and [getattr(usage, name) for name in COUNTS])


def _answer(
    identity: str | None, model: str | None, choices: list[Payload], counts: list[int | None] | None
) -> Payload:
    given = {name: count for name, count in zip(COUNTS, counts or (), strict=False) if count is not None}
    return {"id": identity, "model": model, "choices": choices, "usage": given}


def _choice(content: str | None, reasoning: str | None, calls: list[Payload], finish_reason: str | None) -> Payload:
    return {"content": content, "reasoning": reasoning or None, "tool_calls": calls, "finish_reason": finish_reason}


def _begins(whole: Payload, part: LLMResponse) -> bool:
    if not part.choices:
        return True
    choice = whole["choices"][0]
    said = (choice["content"] or "").startswith(part.content or "")
    return said and (choice["reasoning"] or "").startswith(part.reasoning or "")


def _texts(value: Payload) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from (() if key in ("type", "role") else _texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str | int | float):
        yield str(value)


def _anthropic(exchange: Exchange) -> Payload:
    http_client = httpx2.Client(transport=httpx2.MockTransport(lambda _: _recorded(httpx2, exchange)))
    client = anthropic.Anthropic(api_key="unused", max_retries=0, http_client=http_client)
    asked: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": []}
    try:
        if not exchange.stream:
            return _anthropic_message(client.messages.create(**asked))
        with client.messages.stream(**asked) as stream:
            return _anthropic_message(stream.get_final_message())
    except anthropic.APIStatusError as error:
        return error.body["error"] if isinstance(error.body, dict) else error.body


def _anthropic_message(message: anthropic.types.Message) -> Payload:
    usage, blocks = message.usage, message.content
    choice = _choice(
        _joined(block.text for block in blocks if block.type == "text"),
        _joined(block.thinking for block in blocks if block.type == "thinking"),
        [(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"],
        message.stop_reason,
    )
    details = usage.output_tokens_details
    cached = [usage.cache_creation_input_tokens, usage.cache_read_input_tokens]
    counts = [usage.input_tokens, usage.output_tokens, *cached, details and details.thinking_tokens]
    return _answer(message.id, message.model, [choice], counts)


def _google_client(exchange: Exchange) -> genai.Client:
    http_client = httpx2.Client(transport=httpx2.MockTransport(lambda _: _recorded(httpx2, exchange)))
    return genai.Client(api_key="unused", http_options=HttpOptions(httpx_client=http_client))


def _generate(exchange: Exchange) -> Payload:
    models = _google_client(exchange).models
    try:
        if exchange.stream:
            chunks = [*models.generate_content_stream(model="m", contents="")]
        else:
            chunks = [models.generate_content(model="m", contents="")]
    except APIError as error:
        return error.details["error"]
    candidates: dict[int, list[Any]] = {}
    for candidate in (candidate for chunk in chunks for candidate in chunk.candidates or ()):
        candidates.setdefault(candidate.index or 0, []).append(candidate)
    choices = [_generated(pieces) for _, pieces in sorted(candidates.items())]
    said = choices[0]["content"] if choices else None
    assert (_joined(chunk.text for chunk in chunks) or "").replace("\n", "") == (said or "").replace("\n", "")
    usage = next((chunk.usage_metadata for chunk in reversed(chunks) if chunk.usage_metadata), None)
    counts = usage and [usage.prompt_token_count, usage.candidates_token_count, None]
    counts = counts and [*counts, usage.cached_content_token_count, usage.thoughts_token_count]
    return _answer(chunks[-1].response_id, chunks[-1].model_version, choices, counts)


def _generated(pieces: list[Any]) -> Payload:
    parts = [part for piece in pieces for part in (piece.content.parts if piece.content else None) or ()]
    calls = [part.function_call for part in parts if part.function_call]
    reasons = [piece.finish_reason.value for piece in pieces if piece.finish_reason]
    return _choice(
        _parted(parts, thought=False),
        _parted(parts, thought=True),
        [(call.id, call.name, call.args) for call in calls],
        reasons[-1] if reasons else None,
    )


def _parted(parts: list[Any], thought: bool) -> str | None:
    """Return the SDK's texts of one kind, joined by a blank line where a part of a different kind is between them."""
    runs = groupby(parts, lambda part: part.text is not None and bool(part.thought) == thought)
    texts = ["".join(part.text for part in run) for is_meant, run in runs if is_meant]
    return "\n\n".join(texts) if texts else None


def _interactions(exchange: Exchange) -> Payload:
    interactions = _google_client(exchange).interactions
    if not exchange.stream:
        return _interaction(interactions.create(model="m", input=""))
    texts: dict[str, list[str | None]] = {"text": [], "thought_summary": []}
    for event in interactions.create(model="m", input="", stream=True):
        if event.event_type == "interaction.completed":
            last = event.interaction
        elif event.event_type == "step.delta" and event.delta.type in texts:
            texts[event.delta.type].append(getattr(event.delta, "content", event.delta).text)
    choice = _choice(_joined(texts["text"]), _joined(texts["thought_summary"]), [], last.status)
    return _answer(last.id, last.model, [choice], _interaction_counts(last.usage))


def _interaction(interaction: Any) -> Payload:
    steps = interaction.steps or ()
    calls = [(step.id, step.name, step.arguments) for step in steps if step.type == "function_call"]
    thoughts = [part.text for step in steps if step.type == "thought" for part in step.summary or ()]
    choices = [_choice(interaction.output_text, _joined(thoughts), calls, interaction.status)] if steps else []
    return _answer(interaction.id, interaction.model, choices, _interaction_counts(interaction.usage))


def _interaction_counts(usage: Any) -> list[int | None] | None:
    if usage is None:
        return None
    cached, thought = usage.total_cached_tokens, usage.total_thought_tokens
    return [usage.total_input_tokens, usage.total_output_tokens, None, cached, thought]


def _ollama_chat(exchange: Exchange) -> Payload:
    return _ollama(exchange, lambda client, stream: client.chat("m", stream=stream))


def _ollama_generate(exchange: Exchange) -> Payload:
    return _ollama(exchange, lambda client, stream: client.generate("m", stream=stream))


def _ollama(exchange: Exchange, call: Callable[[ollama.Client, bool], Any]) -> Payload:
    client = ollama.Client(transport=httpx.MockTransport(lambda _: _recorded(httpx, exchange)))
    try:
        answered = call(client, exchange.stream)
        chunks = [*answered] if exchange.stream else [answered]
    except ollama.ResponseError as error:
        return error.error
    messages = [getattr(chunk, "message", chunk) for chunk in chunks]
    calls = [call.function for message in messages for call in getattr(message, "tool_calls", None) or ()]
    choice = _choice(
        _joined(getattr(m, "content", None) or getattr(m, "response", "") for m in messages),
        _joined(message.thinking for message in messages),
        [(None, function.name, function.arguments) for function in calls],
        chunks[-1].done_reason,
    )
    return _answer(None, chunks[-1].model, [choice], [chunks[-1].prompt_eval_count, chunks[-1].eval_count])


def _recorded(http: Any, exchange: Exchange) -> Any:
    text = exchange.response_text
    for number, word in IN_WORDS.items() if "enum-encoding" in exchange.query else ():
        text = text.replace(number, word)
    if text.startswith("["):  # a stream that was not requested as events: the SDK cannot read an array
        text = json.dumps(json.loads(text)[0])
    return http.Response(exchange.status, headers={"content-type": exchange.media_type}, content=text.encode())


def _joined(texts: Iterable[str | None]) -> str | None:
    there = [text for text in texts if text is not None]
    return "".join(there) if there else None


_SDKS: dict[str, Callable[[Exchange], Payload]] = {
    "anthropic-messages": _anthropic,
    "google-generate": _generate,
    "google-interactions": _interactions,
    "ollama-chat": _ollama_chat,
    "ollama-generate": _ollama_generate,
}


def main() -> None:
    """Print a line for each dialect: exchanges, equal exchanges, streams cut wrongly; then each exchange that
    differs.
    """
    for dialect in DIALECTS:
        counted = Counter(our_reading(exchange) == sdk_reading(exchange) for exchange in exchanges(dialect))
        print(f"{dialect:20} {counted.total():4} exchanges {counted[True]:4} equal", cut_wrongly(dialect))
        for exchange in exchanges(dialect):
            if (ours := our_reading(exchange)) != (theirs := sdk_reading(exchange)):
                print(f"    {exchange.source}\n        we  {ours}\n        SDK {theirs}")
            if gone := lost(exchange):
                print("   LOST", exchange.source, gone)


if __name__ == "__main__":
    main()
