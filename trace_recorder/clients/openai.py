"""OpenAI, and all providers of its dialects: a subclass is a name, an address and the names of its variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.clients.client import AsyncSdk, Client, Sdk, Side
from trace_recorder.clients.wire_formats import openai_chat, openai_responses
from trace_recorder.clients.wire_formats.wire_format import JsonObject

if TYPE_CHECKING:  # an SDK is imported when a client of it is made
    from openai import AsyncOpenAI, OpenAI  # noqa: F401 - the bases name it

ATTEMPT_HEADER = "x-stainless-retry-count"
"""The header in which this family of SDKs sends the number of an attempt; the recording reads it."""


class StainlessClient(Client[Sdk, AsyncSdk]):
    """A client of an SDK that Stainless generates.

    These SDKs share how answers become JSON and how attempts are stated.
    """

    def _plain(self, answer: Any) -> JsonObject:
        body: JsonObject = answer.to_dict(mode="json", warnings=False)
        return body

    def _for_attempt(self, request: JsonObject, attempt: int) -> JsonObject:
        """State the attempt in the SDK's own header."""
        if not attempt:
            return request
        return {**request, "extra_headers": {**(request.get("extra_headers") or {}), ATTEMPT_HEADER: str(attempt)}}


class OpenAICompatibleClient(StainlessClient["OpenAI", "AsyncOpenAI"]):
    """A client of a server that speaks OpenAI's chat completions (`api="chat"`) or Responses (`api="responses"`).

    `reasoning_fields` names the members of an assistant's message in which the provider accepts its earlier reasoning.
    The first one that is present is sent. `Client` describes the other arguments.
    """

    sdk_name = "openai"
    extra = "openai"
    base_url: ClassVar[str | None] = None
    base_url_names: ClassVar[tuple[str, ...]] = ()
    reasoning_fields: tuple[str, ...] = ()
    asks_for_usage: ClassVar[bool] = True

    def __init__(
        self,
        model: str | None = None,
        *,
        api: Literal["chat", "responses"] = "chat",
        reasoning_fields: tuple[str, ...] | None = None,
        recorder: TrajectoryRecorder | None = None,
        retries: int = 2,
        **options: Any,
    ) -> None:
        if api not in ("chat", "responses"):
            raise ValueError(f"api is {api!r}, and must be 'chat' or 'responses'")
        self.reasoning_fields = self.reasoning_fields if reasoning_fields is None else reasoning_fields
        self.wire_format = (
            openai_chat.wire_format(self.reasoning_fields) if api == "chat" else openai_responses.WIRE_FORMAT
        )
        super().__init__(model, recorder=recorder, retries=retries, **options)

    def _make(self, side: Side) -> Any:
        made = self._module.OpenAI if side == "sync" else self._module.AsyncOpenAI
        options = {"max_retries": 0, **self._options, "api_key": self._key("workload_identity", "provider")}
        address = next(filter(None, map(os.environ.get, self.base_url_names)), None) or self.base_url
        return made(**({"base_url": address} if address else {}) | options)

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        sdk = self._made[side]
        create: Callable[..., Any] = sdk.chat.completions.create if self._is_chat else sdk.responses.create
        if not streams:
            return create
        usage = {"stream_options": {"include_usage": True}} if self._is_chat and self.asks_for_usage else {}
        return lambda **request: create(**usage | request, stream=True)

    @property
    def _is_chat(self) -> bool:
        return self.wire_format.api == "openai-chat"


class OpenAIClient(OpenAICompatibleClient):
    """OpenAI: OPENAI_API_KEY, OPENAI_BASE_URL."""

    provider = "openai"
    key_names = ("OPENAI_API_KEY",)
