"""Ollama, over its own SDK: a local server needs no key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trace_recorder.clients.client import Client, Side
from trace_recorder.clients.wire_formats import ollama_chat
from trace_recorder.clients.wire_formats.wire_format import JsonObject

if TYPE_CHECKING:  # an SDK is imported when a client of it is made
    import ollama  # noqa: F401 - the bases name it


class OllamaClient(Client["ollama.Client", "ollama.AsyncClient"]):
    """Ollama: OLLAMA_HOST (else 127.0.0.1:11434), and OLLAMA_API_KEY for ollama.com."""

    provider = "ollama"
    sdk_name = "ollama"
    extra = "ollama"
    wire_format = ollama_chat.WIRE_FORMAT

    def _make(self, side: Side) -> Any:
        return (self._module.Client if side == "sync" else self._module.AsyncClient)(**self._options)

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        chat: Callable[..., Any] = self._made[side].chat
        return (lambda **request: chat(**request, stream=True)) if streams else chat

    def _plain(self, answer: Any) -> JsonObject:
        body: JsonObject = answer.model_dump(mode="json", exclude_unset=True)
        return body
