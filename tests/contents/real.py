"""The content of real exchanges, read from their bytes: the answers, and the earlier texts of users and tools.

For each dialect it knows only where texts and calls are. Other content (audio, built-in tools, refusals, several
choices) is not compared. No code of the package is used here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = Any


@dataclass(slots=True)
class Said:
    """An answer: its text, and its calls with their arguments."""

    text: str = ""
    calls: list[list[Json]] = field(default_factory=list)

    def key(self) -> str:
        """Return the key by which an exchange is recognised."""
        calls = [[name, _object(arguments)] for name, arguments in self.calls]
        return json.dumps([self.text, calls], sort_keys=True, ensure_ascii=False)


def _object(arguments: Json) -> Json:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"input": arguments}


def events(text: str) -> Iterator[Json]:
    """Yield the JSON values of a stream, in SSE form or one on each line."""
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if data.startswith("{"):
            yield json.loads(data)


def chat(bodies: list[Json], *, streamed: bool) -> Said:
    """Read OpenAI's chat. An answer with several choices is not compared."""
    answer = Said()
    calls: dict[int, list[Json]] = {}
    for body in bodies:
        for choice in body.get("choices") or ():
            if choice.get("index"):
                raise KeyError("several choices")
            message = choice["delta" if streamed else "message"] or {}
            if message.get("refusal") or message.get("function_call") or message.get("audio"):
                raise KeyError("refused, or of another form")
            if not isinstance(message.get("content") or "", str):
                raise KeyError("parts")
            answer.text += message.get("content") or ""
            for number, call in enumerate(message.get("tool_calls") or ()):
                known = calls.setdefault(call.get("index", number) if streamed else number, ["", ""])
                known[0] += call["function"].get("name") or ""
                known[1] += call["function"].get("arguments") or ""
    answer.calls = list(calls.values())
    return answer


def responses(bodies: list[Json], *, streamed: bool) -> Said:
    """Return the responses in OpenAI's dialect. For a stream, this is the whole response in its last event."""
    completed = (body["response"] for body in bodies if body.get("type") == "response.completed")
    whole = next(completed) if streamed else bodies[0]
    answer = Said()
    for item in whole["output"]:
        if item["type"] == "message":
            answer.text += "".join(part["text"] for part in item["content"])
        elif item["type"] == "function_call":
            answer.calls.append([item["name"], item["arguments"]])
        elif item["type"] != "reasoning":
            raise KeyError(item["type"])
    return answer


def anthropic(bodies: list[Json], *, streamed: bool) -> Said:
    """Read Anthropic's messages."""
    answer = Said()
    blocks = bodies[0]["content"] if not streamed else _blocks(bodies)
    for block in blocks:
        if block["type"] == "text":
            answer.text += block["text"]
        elif block["type"] == "tool_use":
            answer.calls.append([block["name"], block["input"]])
        elif block["type"] not in {"thinking", "redacted_thinking"}:
            raise KeyError(block["type"])
    return answer


def _blocks(bodies: list[Json]) -> list[Json]:
    blocks: dict[int, Json] = {}
    for one in bodies:
        if one["type"] == "content_block_start":
            blocks[one["index"]] = {**one["content_block"]}
        elif one["type"] == "content_block_delta":
            block, delta = blocks[one["index"]], one["delta"]
            if delta["type"] == "text_delta":
                block["text"] += delta["text"]
            elif delta["type"] == "input_json_delta":
                block["input"] = (block["input"] or "") + delta["partial_json"]
    return list(blocks.values())


def google(bodies: list[Json], *, streamed: bool) -> Said:
    """Read Gemini's answers."""
    answer = Said()
    for body in bodies:
        for candidate in body.get("candidates") or ():
            if candidate.get("index"):
                raise KeyError("several candidates")
            for part in (candidate.get("content") or {}).get("parts") or ():
                if "functionCall" in part:
                    answer.calls.append([part["functionCall"]["name"], part["functionCall"].get("args") or {}])
                elif "text" not in part:
                    raise KeyError("another part")
                elif not part.get("thought"):
                    answer.text += part["text"]
    return answer


def ollama(bodies: list[Json], *, streamed: bool) -> Said:
    """Read Ollama's chat."""
    answer = Said()
    for body in bodies:
        answer.text += body["message"].get("content") or ""
        calls = [one["function"] for one in body["message"].get("tool_calls") or ()]
        answer.calls += [[call["name"], call["arguments"]] for call in calls]
    return answer


ANSWERS: dict[str, Callable[..., Said]] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic-messages": anthropic,
    "google-generate": google,
    "ollama-chat": ollama,
}


def answer_of(dialect: str, text: str, *, streamed: bool) -> Said | None:
    """Return the answer of an exchange, or None if its form is not compared."""
    try:
        found = ANSWERS[dialect](list(events(text)) if streamed else [json.loads(text)], streamed=streamed)
    except (KeyError, ValueError, TypeError, StopIteration, AttributeError):
        return None
    return found if found.text or found.calls else None


_CUT = re.compile(
    r'"(?:finish_reason|stop_reason|finishReason|done_reason|status)"\s*:\s*"(?:length|max_tokens|MAX_TOKENS|incomplete)"'
)


def was_cut(text: str) -> bool:
    """Return whether an answer ended because of a limit of length."""
    return _CUT.search(text) is not None


def asked_of(request: Json) -> Iterator[str]:
    """Yield the user messages that are plain texts."""
    for message in request.get("messages") or request.get("contents") or ():
        if message.get("role", "user") == "user":
            content = message.get("content", message.get("parts"))
            yield from (
                [content]
                if isinstance(content, str)
                else (part["text"] for part in content or () if set(part) <= {"type", "text"} and part.get("text"))
            )
    if isinstance(request.get("input"), str):
        yield request["input"]
