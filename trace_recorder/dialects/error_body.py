"""Reads the error in a provider's body. All dialects share this reader, because they differ little here. The forms:

- {"error": {"type" | "code" | "status": …, "message": …}}    OpenAI, Anthropic, Google, OpenRouter
- [{"error": …}]                                              Google, if a stream was requested
- {"error": "…"} | {"message": …} | {"detail": …}             Ollama and many servers
"""

from __future__ import annotations

from trace_recorder.values.messages import Payload


def read_error(body: Payload) -> tuple[str | None, str | None]:
    """Return the provider's name for the error, and its message. Each is None if it is not stated."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return None, body or None
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, str):
        return None, error
    stated = error if isinstance(error, dict) else body
    return _kind_and_message(stated) if isinstance(stated, dict) else (None, None)


def _kind_and_message(said: dict[str, Payload]) -> tuple[str | None, str | None]:
    kind = next((said[name] for name in ("type", "status", "code") if isinstance(said.get(name), str)), None)
    message = next((said[name] for name in ("message", "detail") if said.get(name) is not None), None)
    return kind, message if isinstance(message, str | None) else str(message)
