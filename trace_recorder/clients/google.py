"""Google's Gemini, over google-genai: the Gemini API by key, Vertex AI by the SDK's own options."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trace_recorder.clients.client import Client, Side
from trace_recorder.clients.wire_formats import google_generate
from trace_recorder.clients.wire_formats.wire_format import JsonObject

if TYPE_CHECKING:  # an SDK is imported when a client of it is made
    from google import genai  # noqa: F401 - the bases name it
    from google.genai.client import AsyncClient  # noqa: F401 - the bases name it

_VERTEX = ("vertexai", "credentials")
_MADE_BY_SDK = {"sdk_http_response", "parsed", "automatic_function_calling_history"}


class GoogleClient(Client["genai.Client", "AsyncClient"]):
    """Gemini: GOOGLE_API_KEY or GEMINI_API_KEY (the first wins, as in the SDK); Vertex AI by `vertexai=True`, ….

    Parameters of a call are members of the SDK's config: `chat(messages, temperature=0)`.
    """

    provider = "google"
    sdk_name = "google.genai"
    extra = "google"
    key_names = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    wire_format = google_generate.WIRE_FORMAT

    def _make(self, side: Side) -> Any:
        if side == "async":
            return self.sdk.aio
        vertex = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")
        key = self._options.get("api_key") if vertex else self._key(*_VERTEX)
        by_key = {"api_key": key} if key and not any(self._options.get(name) for name in _VERTEX) else {}
        return self._module.Client(**self._options | by_key)

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        models = self._made[side].models
        method: Callable[..., Any] = models.generate_content_stream if streams else models.generate_content
        return method

    def _plain(self, answer: Any) -> JsonObject:
        body: JsonObject = answer.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_MADE_BY_SDK)
        return body
