"""The openai SDK: chat, Responses, legacy completions and embeddings, of OpenAI and of providers with its dialect.

A client and an Azure client serve all exchanges: `with_options` returns a copy with a different URL and the same HTTP
client.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any
from urllib.parse import parse_qs

import openai

from tests.wire.calls import Call, Raw
from tests.wire.corpus import Exchange

METHODS = {
    "openai-chat": ("/chat/completions", "chat.completions.create"),
    "openai-responses": ("/responses", "responses.create"),
    "openai-completions": ("/completions", "completions.create"),
    "embeddings": ("/embeddings", "embeddings.create"),
}


class OpenAIDriver:
    """Sends an exchange with `client.<resource>.create(**body)`. A member for which the method has no parameter is
    passed in `extra_body`.
    """

    # The SDK raises the last one for an empty body with the content type of JSON.
    errors = (openai.APIError, json.JSONDecodeError)

    def __init__(self, bind: Callable[[Any], Any], asynchronous: bool) -> None:
        self._bind = bind
        self._kinds = (
            (openai.AsyncOpenAI, openai.AsyncAzureOpenAI) if asynchronous else (openai.OpenAI, openai.AzureOpenAI)
        )

    @cached_property
    def _openai(self) -> Any:
        return self._bind(self._kinds[0](api_key="unused", max_retries=0, timeout=300))

    @cached_property
    def _azure(self) -> Any:
        azure = self._kinds[1]
        return self._bind(azure(api_key="unused", api_version="-", base_url="http://-", max_retries=0, timeout=300))

    def client(self, exchange: Exchange, url: str) -> Any:
        base = url + exchange.path.removesuffix(METHODS[exchange.dialect][0])
        if "azure" not in exchange.host:
            return self._openai.with_options(base_url=base)
        return self._azure.with_options(base_url=base, api_version=parse_qs(exchange.query)["api-version"][0])

    def call(self, exchange: Exchange, url: str) -> Call | Raw:
        method = METHODS[exchange.dialect][1]
        known = inspect.signature(attrgetter(method)(self._openai)).parameters
        named = {name: value for name, value in exchange.request.items() if name in known}
        extra = {name: value for name, value in exchange.request.items() if name not in known}
        if any(name not in named for name, p in known.items() if p.default is p.empty):
            return Raw("a gateway's stored prompt: no model and no prompt in the request")
        return Call(method, named | {"extra_body": extra or None}, "stream" if named.get("stream") else "object")

    def http(self, client: Any) -> Any:
        return client._client

    def clients(self) -> list[Any]:
        return [self.__dict__[name] for name in ("_openai", "_azure") if name in self.__dict__]
