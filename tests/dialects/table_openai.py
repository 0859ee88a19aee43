"""The corpus's exchanges of the OpenAI dialects: as the openai SDK reads them, as we do, and the differences.

The SDK's own client gets the recorded bytes through a transport of ours. The chunks of a chat stream go through the
SDK's own accumulator. Both readings have the same aspects, so that a difference can be named. `python -m
tests.dialects.table_openai` prints a table of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from tests.wire.corpus import Exchange, load
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.values.messages import Payload

DIALECTS = ("openai-chat", "openai-responses", "openai-completions", "embeddings")
Reading = dict[str, Payload]

EXCEPTIONS = {
    ("api.openai.com", ("call_ids",)): "a function_call of the time before tools has no id; ours is made up",
    ("traceloop-stg.openai.azure.com", ("id", "model")): "the SDK keeps the empty ones of Azure's first chunk",
    ("api.groq.com", ("usage",)): "Groq states a stream's usage in x_groq, which the SDK has no type for",
    ("api.together.ai", ("usage",)): "Together has cached_tokens in the usage itself, the SDK knows only the details'",
    ("api.voyageai.com", ("usage",)): "Voyage states only a total, which is the number of input tokens",
    ("api.writer.com", ("content", "reasoning", "call_ids", "calls", "finish_reason")): (
        "Writer streams {'value': …} events, of which the SDK makes completions without choices"
    ),
}
"""Exchanges in which the SDK reads less than the bytes say: {(host, the aspects that differ): the reason}."""


def exchanges(dialect: str) -> list[Exchange]:
    """Return the exchanges of a dialect."""
    return [exchange for exchange in load() if exchange.dialect == dialect]


def differences(some: Iterable[Exchange]) -> Counter[tuple[str, tuple[str, ...]]]:
    """Count the exchanges that the SDK and we read differently, by host and aspects."""
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for exchange in some:
        ours, theirs = our_reading(exchange), sdk_reading(exchange)
        if aspects := tuple(name for name in ours if ours[name] != theirs.get(name)):
            counts[exchange.host, aspects] += 1
    return counts


def our_reading(exchange: Exchange) -> Reading:
    """Read the response with our reader."""
    reader = dialect_of(exchange.dialect)
    assert reader is not None
    text = exchange.response_text
    body = reader.join_stream(text).body if exchange.stream else json.loads(text or "{}")
    response = reader.read_response(body)
    if exchange.status != 200:
        return {"error": response.extra["error"]}
    choices = [
        (c.content, c.reasoning, [(t.call_id, t.name, t.arguments) for t in c.tool_calls], c.finish_reason)
        for c in response.choices
    ]
    usage = response.usage
    counts = usage.is_known and (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.reasoning_tokens,
    )
    return _reading(choices, counts, response.id, response.model)


def sdk_reading(exchange: Exchange) -> Reading:
    """Read the response with the SDK. Return its reading, or the error that it raised."""
    try:
        answered = _called(exchange)
        return _READINGS[exchange.dialect](list(answered) if exchange.stream else [answered])
    except openai.APIStatusError as error:
        return {"error": error.body}
    except json.JSONDecodeError:  # a recording without a body
        return _reading([])


def _reading(
    choices: list[Payload], counts: Payload = None, answer_id: Payload = None, model: Payload = None
) -> Reading:
    return {
        "content": [content for content, *_ in choices],
        "reasoning": [reasoning for _, reasoning, *_ in choices],
        "call_ids": [[call_id for call_id, *_ in calls] for *_, calls, _ in choices],
        "calls": [[called for _, *called in calls] for *_, calls, _ in choices],
        "finish_reason": [reason for *_, reason in choices],
        "usage": counts or None,
        "id": answer_id,
        "model": model,
    }


def _called(exchange: Exchange) -> Any:
    def answer(_: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream" if exchange.stream else "application/json"}
        return httpx2.Response(exchange.status, headers=headers, content=exchange.response_text.encode())

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="unused", max_retries=0, http_client=http_client)
    match exchange.dialect:
        case "openai-chat":
            return client.chat.completions.create(model="", messages=[], stream=exchange.stream)
        case "openai-responses":
            return client.responses.create(model="", input="", stream=exchange.stream)
        case "openai-completions":
            return client.completions.create(model="", prompt="", stream=exchange.stream)
    return client.embeddings.create(model="", input="", encoding_format="base64")


def _chat(objects: list[Any]) -> Reading:
    completion = objects[0] if isinstance(objects[0], ChatCompletion) else _accumulated(objects)
    choices = []
    for choice in completion.choices or ():
        message = choice.message or ChatCompletionMessage.construct()
        calls = [_call(call.id, call.function) for call in message.tool_calls or ()]
        calls += [_call(None, message.function_call)] if message.function_call else []
        reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
        choices.append((message.content, reasoning, calls, choice.finish_reason))
    return _answer(completion, choices)


def _accumulated(chunks: list[Any]) -> Any:
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in chunks:
        for number, call in enumerate(call for choice in chunk.choices for call in choice.delta.tool_calls or ()):
            # Mistral sends whole calls without an index, which the accumulator cannot read.
            call.index = number if call.index is None else call.index
        state.handle_chunk(chunk)
    return state.current_completion_snapshot


def _completions(objects: list[Any]) -> Reading:
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for choice in (choice for completion in objects for choice in completion.choices or ()):
        index = choice.index or 0
        said = getattr(choice, "message", {}).get("content") if choice.text is None else choice.text
        texts[index] = texts.get(index, "") + (said or "")
        reasons[index] = choice.finish_reason or reasons.get(index)
    objects[0].usage = next((completion.usage for completion in reversed(objects) if completion.usage), None)
    return _answer(objects[0], [(texts[index], None, [], reasons[index]) for index in sorted(texts)])


def _responses(objects: list[Any]) -> Reading:
    response = getattr(objects[-1], "response", objects[-1])
    calls = [_call(item.call_id, item) for item in response.output if item.type == "function_call"]
    thoughts = [part.text for item in response.output if item.type == "reasoning" for part in item.summary]
    says = any(item.type == "message" for item in response.output)
    reason = getattr(response.incomplete_details, "reason", None) or response.status
    return _answer(response, [(response.output_text if says else None, "".join(thoughts) or None, calls, reason)])


def _embeddings(objects: list[Any]) -> Reading:
    return _answer(objects[0], [])


def _call(call_id: str | None, function: Any) -> Payload:
    try:
        arguments = json.loads(function.arguments or "{}")
    except json.JSONDecodeError:
        arguments = function.arguments
    return call_id, function.name, arguments if isinstance(arguments, dict) else function.arguments


def _answer(answered: Any, choices: list[Payload]) -> Reading:
    usage = getattr(answered, "usage", None)
    kinds = ("input", "output") if hasattr(usage, "input_tokens") else ("prompt", "completion")
    counts = [getattr(usage, f"{kind}_tokens", None) for kind in kinds]
    for kind, detail in zip(kinds, ("cached_tokens", "reasoning_tokens"), strict=True):
        counts.append(getattr(getattr(usage, f"{kind}_tokens_details", None), detail, None))
    answer_id, model = getattr(answered, "id", None), getattr(answered, "model", None)
    return _reading(choices, tuple(counts) if usage else None, answer_id, model)


_READINGS = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "openai-completions": _completions,
    "embeddings": _embeddings,
}


def table() -> str:
    """Return the table: for each dialect, how many exchanges there are, how many are equal, and the others by their
    reason.
    """
    lines = []
    for dialect in DIALECTS:
        different, all_ = differences(exchanges(dialect)), len(exchanges(dialect))
        lines.append(f"{dialect:20} {all_:4} exchanges, {all_ - different.total():4} equal")
        lines += [f"    {n:4} {host}: {EXCEPTIONS.get((host, a), a)}" for (host, a), n in different.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
