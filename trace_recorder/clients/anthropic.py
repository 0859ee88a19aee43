"""Anthropic's Claude, over its own SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trace_recorder.clients.client import Side
from trace_recorder.clients.openai import StainlessClient
from trace_recorder.clients.wire_formats import anthropic_messages
from trace_recorder.errors import MissingKeyError

if TYPE_CHECKING:  # an SDK is imported when a client of it is made
    from anthropic import Anthropic, AsyncAnthropic  # noqa: F401 - the bases name it


class AnthropicClient(StainlessClient["Anthropic", "AsyncAnthropic"]):
    """Anthropic: ANTHROPIC_API_KEY, or other credentials that the SDK finds; ANTHROPIC_BASE_URL."""

    provider = "anthropic"
    sdk_name = "anthropic"
    extra = "anthropic"
    key_names = ("ANTHROPIC_API_KEY",)
    wire_format = anthropic_messages.WIRE_FORMAT

    def _make(self, side: Side) -> Any:
        made = self._module.Anthropic if side == "sync" else self._module.AsyncAnthropic
        sdk = made(**{"max_retries": 0, **self._options})
        if not any(getattr(sdk, name, None) for name in ("api_key", "auth_token", "credentials")):
            raise MissingKeyError(
                "AnthropicClient has no key: set ANTHROPIC_API_KEY in the environment, or pass api_key=…"
            )
        return sdk

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        create: Callable[..., Any] = self._made[side].messages.create
        return (lambda **request: create(**request, stream=True)) if streams else create
