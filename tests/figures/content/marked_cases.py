"""Each part that a message or an answer may have, in every dialect, with content that can be recognised.

A case is an exchange with one such part, and the same exchange without the part. `handmade()` are our own cases,
`of_corpus()` those of real providers.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.known_requests import KnownRequest
from tests.wire.corpus import load
from trace_recorder import Trajectory
from trace_recorder.dialects.dialect import dialect_of, join_stream
from trace_recorder.dialects.json_access import json_value
from trace_recorder.reading.steps import step_of
from trace_recorder.values.llm_interaction import LLMInteraction

Payload = Any
Path = tuple[str | int, ...]

MARK = "bWFya2VkY29udGVudA=="
"""The content of the part in each of our own cases. It is also valid base64."""


@dataclass(frozen=True, slots=True)
class Case:
    """An exchange of a dialect with the case's part at `path` of the request or of the response."""

    name: str
    api: str
    request: Payload
    response: Payload
    side: str
    path: Path

    @property
    def content(self) -> Payload:
        """Return the part of the case."""
        found = self.request if self.side == "request" else self.response
        for step in self.path:
            found = found[step]
        return found

    def run(self) -> Trajectory:
        """Return the exchange as a run."""
        return run(self.api, self.request, self.response)

    def run_without(self) -> Trajectory:
        """Record the same exchange without the part."""
        bodies = {"request": deepcopy(self.request), "response": deepcopy(self.response)}
        holder = bodies[self.side]
        for step in self.path[:-1]:
            holder = holder[step]
        del holder[self.path[-1]]
        return run(self.api, **bodies)


def run(api: str, request: Payload, response: Payload) -> Trajectory:
    """Return a run of one exchange."""
    reader = dialect_of(api)
    assert reader is not None
    interaction = LLMInteraction(
        interaction_id="llm_1",
        timestamp="2025-06-12T20:00:01+00:00",
        provider=None,
        model="m",
        source=KnownRequest(reader.read_request(request)),
        api=api,
        response=reader.read_response(response),
        duration_seconds=0.25,
    )
    return Trajectory(
        trajectory_id="t1", task="try", llm_interactions=[interaction], agent_steps=[step_of(1, interaction, {})]
    )


# ── of our own ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _media(kind: str) -> Payload:
    return {"mimeType": kind, "data": MARK}


_IN_CHAT = (
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{MARK}"}},
    {"type": "image_url", "image_url": {"url": f"https://example.org/{MARK}"}},
    {"type": "input_audio", "input_audio": {"data": MARK, "format": "wav"}},
    {"type": "file", "file": {"file_data": MARK}},
    {"type": "video_url", "video_url": {"url": MARK}},
    {"type": "refusal", "refusal": MARK},
    {"type": "text", "text": "t", "citations": [{"url": MARK}]},
    {"type": "unheard_of", "held": MARK},
)
_BESIDE_CHAT = {
    "refusal": MARK,
    "audio": {"id": "a", "data": MARK, "transcript": MARK},
    "annotations": [{"type": "url_citation", "url_citation": {"url": MARK}}],
    "images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{MARK}"}}],
    "executed_tools": [{"type": "search", "output": MARK}],
    "reasoning_details": [{"type": "reasoning.encrypted", "data": MARK}],
    "reasoning_content": MARK,
    "unheard_of": MARK,
}
_ITEMS = (
    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": MARK}},
    {"type": "code_interpreter_call", "id": "c", "code": MARK, "outputs": [{"type": "logs", "logs": MARK}]},
    {"type": "file_search_call", "id": "f", "queries": [MARK], "results": [{"text": MARK}]},
    {"type": "image_generation_call", "id": "i", "result": MARK},
    {"type": "computer_call", "id": "u", "call_id": "c9", "action": {"type": "type", "text": MARK}},
    {"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "output": MARK},
    {"type": "mcp_list_tools", "id": "l", "tools": [{"name": MARK}]},
    {"type": "mcp_approval_request", "id": "p", "name": MARK, "arguments": "{}"},
    {"type": "local_shell_call", "id": "s", "call_id": "c8", "action": {"command": [MARK]}},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": MARK},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": MARK}]},
    {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": MARK}],
    },
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": MARK}]},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "t", "annotations": [{"type": "url_citation", "url": MARK}]}],
    },
    {"type": "compaction", "id": "k", "encrypted_content": MARK},
    {"type": "unheard_of", "held": MARK},
)
_GIVEN_ITEMS = (
    *_ITEMS,
    {"type": "computer_call_output", "call_id": "c9", "output": {"type": "computer_screenshot", "image_url": MARK}},
    {"type": "mcp_approval_response", "approval_request_id": MARK, "approve": True},
    {"type": "item_reference", "id": MARK},
    *(
        {"type": "message", "role": "user", "content": [part]}
        for part in (
            {"type": "input_image", "image_url": f"data:image/png;base64,{MARK}"},
            {"type": "input_image", "file_id": MARK},
            {"type": "input_file", "file_data": MARK},
            {"type": "input_audio", "input_audio": {"data": MARK, "format": "mp3"}},
            {"type": "unheard_of", "held": MARK},
        )
    ),
)
_BLOCKS = (
    {"type": "thinking", "thinking": MARK, "signature": "c2ln"},
    {"type": "thinking", "thinking": "t", "signature": MARK},
    {"type": "redacted_thinking", "data": MARK},
    {"type": "text", "text": "t", "citations": [{"type": "char_location", "cited_text": MARK}]},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": MARK}},
    {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": MARK}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": MARK}]},
    {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {"type": "web_fetch_result", "url": MARK}},
    {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"stdout": MARK}},
    {"type": "mcp_tool_use", "id": "m", "name": "n", "server_name": "s", "input": {"q": MARK}},
    {"type": "mcp_tool_result", "tool_use_id": "m", "content": [{"type": "text", "text": MARK}]},
    {"type": "container_upload", "file_id": MARK},
    {"type": "unheard_of", "held": MARK},
)
_GIVEN_BLOCKS = (
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": MARK}},
    {"type": "image", "source": {"type": "file", "file_id": MARK}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": MARK}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": MARK}},
    {"type": "search_result", "source": MARK, "title": "t", "content": [{"type": "text", "text": MARK}]},
)
_PARTS = (
    {"inlineData": _media("image/png")},
    {"inlineData": _media("audio/wav")},
    {"inlineData": _media("video/mp4")},
    {"inlineData": _media("application/pdf")},
    {"inline_data": {"mime_type": "audio/wav", "data": MARK}},
    {"fileData": {"mimeType": "application/pdf", "fileUri": MARK}},
    {"executableCode": {"language": "PYTHON", "code": MARK}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": MARK}},
    {"text": MARK, "thought": True},
    {"text": "t", "thoughtSignature": MARK},
    {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": [MARK]}}},
    {"unheardOf": {"held": MARK}},
)
_STEPS = (
    {"type": "model_output", "content": [{"type": "image", "mime_type": "image/png", "data": MARK}]},
    {"type": "model_output", "content": [{"type": "audio", "mime_type": "audio/wav", "data": MARK}]},
    {"type": "model_output", "content": [{"type": "text", "text": "t", "annotations": [{"url": MARK}]}]},
    {"type": "thought", "summary": [{"type": "text", "text": "t"}], "signature": MARK},
    {"type": "google_search_call", "id": "g", "arguments": {"queries": [MARK]}},
    {"type": "google_search_result", "call_id": "g", "result": [{"url": MARK}]},
    {"type": "code_execution_call", "id": "c", "arguments": {"code": MARK}},
    {"type": "unheard_of", "held": MARK},
)
_ASK = {"role": "user", "content": "q"}


def handmade() -> Iterator[Case]:
    """Yield a case for each known part, and for an unknown part in each dialect."""
    yield from _of_chat()
    yield from _of_responses()
    yield from _of_anthropic()
    yield from _of_google()
    said = {"message": {"role": "assistant", "content": "a"}, "done": True, "done_reason": "stop"}
    shown = {"role": "user", "content": "q", "images": [MARK]}
    yield Case("ollama image", "ollama-chat", {"messages": [shown]}, said, "request", ("messages", 0, "images"))
    drawn = {**said, "message": {**said["message"], "images": [MARK]}}
    yield Case("ollama drew", "ollama-chat", {"messages": [_ASK]}, drawn, "response", ("message", "images"))


def _of_chat() -> Iterator[Case]:
    api = "openai-chat"
    response = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}]}
    for role in ("system", "user", "assistant", "tool"):
        for part in _IN_CHAT:
            content = [{"type": "text", "text": "see"}, part]
            messages = [_ASK, {"role": role, "content": content, **({"tool_call_id": "c"} if role == "tool" else {})}]
            path: Path = ("messages", 1, "content", 1)
            yield Case(f"chat {role} {part['type']}", api, {"messages": [*messages, _ASK]}, response, "request", path)
    for name, value in _BESIDE_CHAT.items():
        spoken = {"role": "assistant", "content": "b", name: value}
        yield Case(
            f"chat history {name}", api, {"messages": [_ASK, spoken, _ASK]}, response, "request", ("messages", 1, name)
        )
        answer = {"choices": [{"index": 0, "finish_reason": "stop", "message": spoken}]}
        path = ("choices", 0, "message", name)
        yield Case(f"chat answer {name}", api, {"messages": [_ASK]}, answer, "response", path)
    blocked = {"prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True, "severity": MARK}}}]}
    yield Case("azure", api, {"messages": [_ASK]}, {**response, **blocked}, "response", ("prompt_filter_results",))
    cited = {**response, "citations": [MARK]}
    yield Case("perplexity", api, {"messages": [_ASK]}, cited, "response", ("citations",))


def _of_responses() -> Iterator[Case]:
    api = "openai-responses"
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    said = {"status": "completed", "output": [text]}
    for number, item in enumerate(_GIVEN_ITEMS):
        request = {"input": [_ASK, item, _ASK]}
        yield Case(f"responses input {number} {item['type']}", api, request, said, "request", ("input", 1))
    for number, item in enumerate(_ITEMS):
        answer = {"status": "completed", "output": [item, text]}
        name = f"responses output {number} {item['type']}"
        yield Case(name, api, {"input": [_ASK]}, answer, "response", ("output", 0))


def _of_anthropic() -> Iterator[Case]:
    api = "anthropic-messages"
    text = {"type": "text", "text": "a"}
    response = {"type": "message", "role": "assistant", "content": [text], "stop_reason": "end_turn"}
    for number, block in enumerate(_BLOCKS):
        messages = [_ASK, {"role": "assistant", "content": [block, text]}, _ASK]
        path: Path = ("messages", 1, "content", 0)
        yield Case(f"history {number} {block['type']}", api, {"messages": messages}, response, "request", path)
        answer = {**response, "content": [block, text]}
        name = f"answer {number} {block['type']}"
        yield Case(name, api, {"messages": [_ASK]}, answer, "response", ("content", 0))
    for number, block in enumerate(_GIVEN_BLOCKS):
        asked = {"messages": [{"role": "user", "content": [text, block]}]}
        yield Case(f"block {number} {block['type']}", api, asked, response, "request", ("messages", 0, "content", 1))
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text, block]}]}
        path = ("messages", 2, "content", 0, "content", 1)
        name = f"tool result {number} {block['type']}"
        yield Case(name, api, {"messages": [_ASK, call, result]}, response, "request", path)


def _of_google() -> Iterator[Case]:
    api = "google-generate"
    text = {"text": "a"}
    plain = {"candidates": [{"content": {"role": "model", "parts": [text]}, "finishReason": "STOP"}]}
    ask = {"role": "user", "parts": [{"text": "q"}]}
    for number, part in enumerate(_PARTS):
        for role in ("user", "model"):
            asked = {"contents": [ask, {"role": role, "parts": [text, part]}, ask]}
            name = f"google {role} {number}"
            yield Case(name, api, asked, plain, "request", ("contents", 1, "parts", 1))
        answer = {"candidates": [{"content": {"role": "model", "parts": [part, text]}, "finishReason": "STOP"}]}
        path: Path = ("candidates", 0, "content", "parts", 0)
        yield Case(f"google answer {number}", api, {"contents": [ask]}, answer, "response", path)
    for name in ("groundingMetadata", "citationMetadata", "urlContextMetadata", "unheardOf"):
        answer = {"candidates": [{**plain["candidates"][0], name: {"held": MARK}}]}
        yield Case(f"google {name}", api, {"contents": [ask]}, answer, "response", ("candidates", 0, name))
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": MARK}}
    yield Case("google blocked", api, {"contents": [ask]}, blocked, "response", ("promptFeedback",))
    response = {"name": "n", "response": {"result": "r"}, "parts": [{"inlineData": _media("image/png")}]}
    call = {"role": "model", "parts": [{"functionCall": {"name": "n", "args": {}}}]}
    asked = {"contents": [ask, call, {"role": "user", "parts": [{"functionResponse": response}]}]}
    path = ("contents", 2, "parts", 0, "functionResponse", "parts")
    yield Case("google tool result", api, asked, plain, "request", path)
    output = {"type": "model_output", "content": [{"type": "text", "text": "a"}]}
    for number, step in enumerate(_STEPS):
        answer = {"status": "completed", "steps": [step, output]}
        name = f"interactions {number} {step['type']}"
        yield Case(name, "google-interactions", {"input": "q"}, answer, "response", ("steps", 0))


# ── of the corpus ────────────────────────────────────────────────────────────────────────────────────────────────────

_HOLDERS = frozenset({"messages", "contents", "input", "system", "content", "parts", "output", "steps"})
_MESSAGES = frozenset({"message"})
_ORDINARY = frozenset({"role", "content", "type", "id", "status", "index", "phase", "parts"})


def of_corpus() -> Iterator[Case]:
    """Yield one exchange for each shape of each part in the corpus."""
    seen: set[tuple[str, ...]] = set()
    for exchange in load():
        if exchange.status >= 400 or dialect_of(exchange.dialect) is None or exchange.dialect == "embeddings":  # noqa: PLR2004 - HTTP
            continue
        body = _body(exchange)
        for side, whole in (("request", exchange.request), ("response", body)):
            for path, part in _things(whole, ()):
                shape = (exchange.dialect, side, *(step for step in path if isinstance(step, str)), _shape(part))
                if shape not in seen:
                    seen.add(shape)
                    name = f"{exchange.source} {'.'.join(map(str, path))}"
                    yield Case(name, exchange.dialect, exchange.request, body, side, path)


def _body(exchange: Any) -> Payload:
    if not exchange.stream:
        return json_value(exchange.response_text)
    joined = join_stream(exchange.dialect, exchange.response_text.encode())
    assert joined is not None
    return joined.body


def _things(value: Payload, path: Path) -> Iterator[tuple[Path, Payload]]:
    """Return every part, item and member of a message, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if path and path[-1] in _MESSAGES and name not in _ORDINARY and inner:
                yield (*path, name), inner
            if name in _HOLDERS and isinstance(inner, list):
                yield from (((*path, name, at), one) for at, one in enumerate(inner) if isinstance(one, dict))
            if name in {*_HOLDERS, *_MESSAGES, "choices", "candidates"}:
                yield from _things(inner, (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _things(inner, (*path, at))


def _shape(part: Payload) -> str:
    if not isinstance(part, dict):
        return type(part).__name__
    return f"{part.get('type')} {part.get('role')} {sorted(name for name, value in part.items() if value)}"
