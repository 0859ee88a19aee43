"""The clients of the seven providers, and `create_client`, which makes a client by the provider's name.

The client of a provider that speaks OpenAI's dialects is a subclass of `OpenAICompatibleClient`, with a name, an
address and the names of environment variables. The other providers have SDKs of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.clients.client import AsyncSdk, Client, Sdk, Side
from trace_recorder.clients.wire_formats import (
    anthropic_messages,
    google_generate,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from trace_recorder.clients.wire_formats.wire_format import JsonObject
from trace_recorder.errors import ClientError, MissingKeyError, UnknownProviderError

if TYPE_CHECKING:  # an SDK is imported when its client is made
    import ollama  # noqa: F401 - the bases name it
    from anthropic import Anthropic, AsyncAnthropic  # noqa: F401 - the bases name it
    from google import genai  # noqa: F401 - the bases name it
    from google.genai.client import AsyncClient  # noqa: F401 - the bases name it
    from openai import AsyncOpenAI, OpenAI  # noqa: F401 - the bases name it

ATTEMPT_HEADER = "x-stainless-retry-count"
"""SDKs that Stainless generates send the number of an attempt in this header. The recorder reads this header."""


class StainlessClient(Client[Sdk, AsyncSdk]):
    """A client of an SDK that Stainless generates.

    In all these SDKs, the same method converts an answer to JSON, and the same header has the number of the attempt.
    """

    def _plain(self, answer: Any) -> JsonObject:
        body: JsonObject = answer.to_dict(mode="json", warnings=False)
        return body

    def _for_attempt(self, request: JsonObject, attempt: int) -> JsonObject:
        """Send the number of the attempt in the SDK's own header."""
        if not attempt:
            return request
        return {**request, "extra_headers": {**(request.get("extra_headers") or {}), ATTEMPT_HEADER: str(attempt)}}


class OpenAICompatibleClient(StainlessClient["OpenAI", "AsyncOpenAI"]):
    """A client of a server that speaks OpenAI's chat completions (`api="chat"`) or Responses (`api="responses"`).

    `reasoning_fields` names the members of an assistant's message in which the provider accepts its earlier reasoning.
    If a message has several of these members, only the first is sent. `Client` describes the other arguments.
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
        if reasoning_fields is not None:
            self.reasoning_fields = reasoning_fields
        if api == "chat":
            self.wire_format = openai_chat.wire_format(self.reasoning_fields)
        else:
            self.wire_format = openai_responses.WIRE_FORMAT
        super().__init__(model, recorder=recorder, retries=retries, **options)

    def _make(self, side: Side) -> Any:
        made = self._module.OpenAI if side == "sync" else self._module.AsyncOpenAI
        options = {"max_retries": 0, **self._options, "api_key": self._key("workload_identity", "provider")}
        address = next(filter(None, map(os.environ.get, self.base_url_names)), None) or self.base_url
        if address:
            options.setdefault("base_url", address)
        return made(**options)

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        create: Callable[..., Any]
        if self._is_chat:
            create = self._made[side].chat.completions.create
        else:
            create = self._made[side].responses.create
        if not streams:
            return create
        defaults: JsonObject = {}
        if self._is_chat and self.asks_for_usage:
            defaults["stream_options"] = {"include_usage": True}
        return lambda **request: create(**defaults | request, stream=True)

    @property
    def _is_chat(self) -> bool:
        return self.wire_format.api == "openai-chat"


class OpenAIClient(OpenAICompatibleClient):
    """The client of OpenAI. It reads OPENAI_API_KEY and OPENAI_BASE_URL."""

    provider = "openai"
    key_names = ("OPENAI_API_KEY",)


_TOKENS = ("azure_ad_token", "azure_ad_token_provider")


class AzureClient(OpenAICompatibleClient):
    """The client of Azure OpenAI.

    It reads AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_VERSION (or OPENAI_API_VERSION), and AZURE_OPENAI_API_KEY. Instead
    of the key, the client takes AZURE_OPENAI_AD_TOKEN, or the SDK's options `azure_ad_token` and
    `azure_ad_token_provider`.
    """

    provider = "azure"
    key_names = ("AZURE_OPENAI_API_KEY",)

    def _make(self, side: Side) -> Any:
        made = self._module.AzureOpenAI if side == "sync" else self._module.AsyncAzureOpenAI
        options = {"max_retries": 0, **self._options}
        options["api_version"] = self._setting("api_version", "AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
        if not self._options.get("base_url"):
            options["azure_endpoint"] = self._setting("azure_endpoint", "AZURE_OPENAI_ENDPOINT")
        if not any(self._options.get(name) for name in _TOKENS):
            token = os.environ.get("AZURE_OPENAI_AD_TOKEN")
            if token and not self._options.get("api_key"):
                options["azure_ad_token"] = token
            else:
                options["api_key"] = self._key()
        return made(**options)

    def _setting(self, option: str, *names: str) -> Any:
        value = self._options.get(option) or next(filter(None, map(os.environ.get, names)), None)
        if value is None:
            raise ClientError(
                f"AzureClient has no {option}: set {' or '.join(names)} in the environment, or pass {option}=…"
            )
        return value


class DoubaoClient(OpenAICompatibleClient):
    """The client of Doubao. It reads ARK_API_KEY or DOUBAO_API_KEY, and ARK_BASE_URL or DOUBAO_BASE_URL.

    Reasoning is sent back as `reasoning_content`, which Ark documents for its models from doubao-seed-1.8 and
    deepseek-v3.2 on. With `reasoning_fields=()`, no reasoning is sent back.
    """

    provider = "doubao"
    key_names = ("ARK_API_KEY", "DOUBAO_API_KEY")
    base_url = "https://ark.cn-beijing.volces.com/api/v3"
    base_url_names = ("ARK_BASE_URL", "DOUBAO_BASE_URL")
    reasoning_fields = ("reasoning_content",)


class OpenRouterClient(OpenAICompatibleClient):
    """The client of OpenRouter. It reads OPENROUTER_API_KEY and OPENROUTER_BASE_URL.

    Reasoning is sent back as `reasoning_details` with signatures, or as text if there are no details.
    """

    provider = "openrouter"
    key_names = ("OPENROUTER_API_KEY",)
    base_url = "https://openrouter.ai/api/v1"
    base_url_names = ("OPENROUTER_BASE_URL",)
    reasoning_fields = ("reasoning_details", "reasoning")


class AnthropicClient(StainlessClient["Anthropic", "AsyncAnthropic"]):
    """The client of Anthropic. It reads ANTHROPIC_BASE_URL, and ANTHROPIC_API_KEY or other credentials of the SDK."""

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
        if streams:
            return lambda **request: create(**request, stream=True)
        return create


_VERTEX = ("vertexai", "credentials")
_MADE_BY_SDK = {"sdk_http_response", "parsed", "automatic_function_calling_history"}
"""The members of an answer that the SDK adds to the provider's JSON."""


class GoogleClient(Client["genai.Client", "AsyncClient"]):
    """The client of Gemini. It reads GOOGLE_API_KEY, or else GEMINI_API_KEY, as the SDK does.

    With `vertexai=True` and the other options of the SDK for Vertex AI, it calls Vertex AI. Parameters of a call are
    members of the SDK's config: `chat(messages, temperature=0)`.
    """

    provider = "google"
    sdk_name = "google.genai"
    extra = "google"
    key_names = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    wire_format = google_generate.WIRE_FORMAT

    def _make(self, side: Side) -> Any:
        if side == "async":
            return self.sdk.aio
        if os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true"):
            return self._module.Client(**self._options)
        options = {**self._options}
        key = self._key(*_VERTEX)
        if key and not any(self._options.get(name) for name in _VERTEX):
            options["api_key"] = key
        return self._module.Client(**options)

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        method: Callable[..., Any] = self._made[side].models.generate_content
        if streams:
            method = self._made[side].models.generate_content_stream
        return method

    def _plain(self, answer: Any) -> JsonObject:
        body: JsonObject = answer.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_MADE_BY_SDK)
        return body


class OllamaClient(Client["ollama.Client", "ollama.AsyncClient"]):
    """The client of Ollama. It reads OLLAMA_HOST (default: 127.0.0.1:11434), and OLLAMA_API_KEY for ollama.com."""

    provider = "ollama"
    sdk_name = "ollama"
    extra = "ollama"
    wire_format = ollama_chat.WIRE_FORMAT

    def _make(self, side: Side) -> Any:
        if side == "async":
            return self._module.AsyncClient(**self._options)
        return self._module.Client(**self._options)

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        chat: Callable[..., Any] = self._made[side].chat
        if streams:
            return lambda **request: chat(**request, stream=True)
        return chat

    def _plain(self, answer: Any) -> JsonObject:
        body: JsonObject = answer.model_dump(mode="json", exclude_unset=True)
        return body


CLIENTS: dict[str, type[Client]] = {
    kind.provider: kind
    for kind in (
        OpenAIClient,
        AzureClient,
        DoubaoClient,
        OpenRouterClient,
        AnthropicClient,
        GoogleClient,
        OllamaClient,
    )
}
"""The clients by the names of their providers."""


@overload
def create_client(provider: Literal["openai"], model: str | None = None, **options: Any) -> OpenAIClient: ...
@overload
def create_client(provider: Literal["azure"], model: str | None = None, **options: Any) -> AzureClient: ...
@overload
def create_client(provider: Literal["doubao"], model: str | None = None, **options: Any) -> DoubaoClient: ...
@overload
def create_client(provider: Literal["openrouter"], model: str | None = None, **options: Any) -> OpenRouterClient: ...
@overload
def create_client(provider: Literal["anthropic"], model: str | None = None, **options: Any) -> AnthropicClient: ...
@overload
def create_client(provider: Literal["google"], model: str | None = None, **options: Any) -> GoogleClient: ...
@overload
def create_client(provider: Literal["ollama"], model: str | None = None, **options: Any) -> OllamaClient: ...
@overload
def create_client(provider: str, model: str | None = None, **options: Any) -> Client: ...
def create_client(provider: str, model: str | None = None, **options: Any) -> Client:
    """Make the client of a provider. `options` are passed to the client's class. Raises UnknownProviderError."""
    if provider not in CLIENTS:
        raise UnknownProviderError(
            f"There is no client for {provider!r}; there are {', '.join(CLIENTS)}. For another provider that speaks "
            "OpenAI's dialect, make a subclass of OpenAICompatibleClient, which takes four lines."
        )
    return CLIENTS[provider](model, **options)
