"""The anthropic SDK: messages, plain through `create`, streamed through the `stream` helper and its final message.

A single client serves all exchanges: `with_options` returns a copy with a different URL and the same HTTP client.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import anthropic

from tests.wire.calls import Call, Raw
from tests.wire.corpus import Exchange


class AnthropicDriver:
    """Sends an exchange with `client.messages` or, if it was sent as beta, with `client.beta.messages`."""

    errors = (anthropic.APIError,)

    def __init__(self, bind: Callable[[Any], Any], asynchronous: bool) -> None:
        kind = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
        # With a given timeout, the SDK does not refuse long answers that are not streamed.
        self._anthropic = bind(kind(api_key="unused", max_retries=0, timeout=300))

    def client(self, exchange: Exchange, url: str) -> Any:
        return self._anthropic.with_options(base_url=url)

    def call(self, exchange: Exchange, url: str) -> Call | Raw:
        resource = "beta.messages" if "beta=true" in exchange.query else "messages"
        body = dict(exchange.request)
        method = f"{resource}.stream" if body.get("stream") else f"{resource}.create"
        if method.endswith("stream"):
            del body["stream"]
        # For `stream`, `output_format` takes a class and makes a schema of it. A schema is passed beside it.
        known = inspect.signature(attrgetter(method)(self._anthropic)).parameters.keys() - {"output_format"}
        extra = {name: body.pop(name) for name in body.keys() - known}
        return Call(method, body | {"extra_body": extra or None}, "manager" if method.endswith("stream") else "object")

    def http(self, client: Any) -> Any:
        return client._client

    def clients(self) -> list[Any]:
        return [self._anthropic]
