"""The google-genai SDK: generate_content of the Gemini API and of Vertex, and interactions.

The arguments are made from the REST body. Two clients, one with a key and one with Vertex credentials, serve every
generate_content, with a URL in `http_options`. `interactions` has a fixed URL, and gets a new client each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

from tests.wire.calls import Call, Raw
from tests.wire.corpus import Exchange

_PATH = re.compile(r"^/(?P<version>v1\w*)/(?P<model>.+):(?P<stream>streamG|g)enerateContent$")


class GoogleDriver:
    """Sends an exchange with `client.models.generate_content(_stream)` or `client.interactions.create`."""

    errors = (errors.APIError,)

    def __init__(self, bind: Callable[[Any], Any], asynchronous: bool) -> None:
        self._bind = bind
        self._asynchronous = asynchronous
        self._single: list[Any] = []

    @cached_property
    def _gemini(self) -> Any:
        return self._bind(genai.Client(api_key="unused"))

    @cached_property
    def _vertex(self) -> Any:
        credentials = Credentials(token="unused")
        return self._bind(genai.Client(vertexai=True, project="-", location="-", credentials=credentials))

    def client(self, exchange: Exchange, url: str) -> Any:
        if exchange.dialect == "google-interactions":
            self._single.append(self._bind(genai.Client(api_key="unused", http_options=_options(url, "v1beta"))))
            client = self._single[-1]
        else:
            client = self._vertex if "aiplatform" in exchange.host else self._gemini
        return client.aio if self._asynchronous else client

    def call(self, exchange: Exchange, url: str) -> Call | Raw:
        if exchange.dialect == "google-interactions":
            return Call(
                "interactions.create", exchange.request, "stream" if exchange.request.get("stream") else "object"
            )
        if "enum-encoding" in exchange.query:
            return Raw("an older Google library's call, which asks for enums as numbers")
        address = _PATH.match(exchange.path)
        body = dict(exchange.request)
        contents = [types.Content.model_validate(content) for content in body.pop("contents")]
        config = types.GenerateContentConfig.model_validate(body.pop("generationConfig", {}) | body)
        config.http_options = _options(url, address["version"])
        method = f"models.generate_content{'_stream' if address['stream'] == 'streamG' else ''}"
        arguments = {"model": address["model"], "contents": contents, "config": config}
        return Call(method, arguments, "stream" if method.endswith("stream") else "object")

    def http(self, client: Any) -> Any:
        inner = client._api_client
        return inner._async_httpx_client if self._asynchronous else inner._httpx_client

    def clients(self) -> list[Any]:
        shared = [self.__dict__[name] for name in ("_gemini", "_vertex") if name in self.__dict__]
        return [*shared, *self._single]


def _options(url: str, version: str) -> types.HttpOptions:
    return types.HttpOptions(base_url=url, api_version=version, timeout=300_000)
