"""The ollama SDK: chat, generate and embeddings.

Its client has a fixed URL, so each exchange gets its own client. `verify=False` saves the reading of certificates,
which plain HTTP does not use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import ollama

from tests.wire.calls import Call, Raw
from tests.wire.corpus import Exchange

METHODS = {"ollama-chat": "chat", "ollama-generate": "generate", "embeddings": "embeddings"}


class OllamaDriver:
    """Sends an exchange with `client.<method>(**body)`."""

    errors = (ollama.ResponseError, httpx.HTTPError)

    def __init__(self, bind: Callable[[Any], Any], asynchronous: bool) -> None:
        self._bind = bind
        self._kind = ollama.AsyncClient if asynchronous else ollama.Client
        self._clients: list[Any] = []

    def client(self, exchange: Exchange, url: str) -> Any:
        self._clients.append(self._bind(self._kind(host=url, verify=False)))
        return self._clients[-1]

    def call(self, exchange: Exchange, url: str) -> Call | Raw:
        return Call(
            METHODS[exchange.dialect], exchange.request, "stream" if exchange.request.get("stream") else "object"
        )

    def http(self, client: Any) -> Any:
        return client._client

    def clients(self) -> list[Any]:
        return self._clients
