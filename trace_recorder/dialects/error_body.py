"""What a provider's error body says: one reader for all dialects, which differ little in this. The forms:

- {"error": {"type" | "code" | "status": …, "message": …}}    OpenAI, Anthropic, Google, OpenRouter
- [{"error": …}]                                              Google, asked for a stream
- {"error": "…"} | {"message": …} | {"detail": …}             Ollama and many servers
"""

from __future__ import annotations

from trace_recorder.values.messages import Payload


def read_error(body: Payload) -> tuple[str | None, str | None]:
    """Return the provider's name for the error and its message; None for what it does not say."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return None, body or None
    if not isinstance(body, dict):
        return None, None
    error = body.get("error")
    if isinstance(error, str):
        return None, error
    said = error if isinstance(error, dict) else body
    kind = next((said[name] for name in ("type", "status", "code") if isinstance(said.get(name), str)), None)
    message = next((said[name] for name in ("message", "detail") if said.get(name) is not None), None)
    return kind, message if isinstance(message, str | None) else str(message)
