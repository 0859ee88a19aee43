"""Clients by the provider's name."""

from __future__ import annotations

from typing import Any, Literal, overload

from trace_recorder.clients.anthropic import AnthropicClient
from trace_recorder.clients.azure import AzureClient
from trace_recorder.clients.client import Client
from trace_recorder.clients.doubao import DoubaoClient
from trace_recorder.clients.google import GoogleClient
from trace_recorder.clients.ollama import OllamaClient
from trace_recorder.clients.openai import OpenAIClient
from trace_recorder.clients.openrouter import OpenRouterClient
from trace_recorder.errors import UnknownProviderError

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
    """Make the client of a provider. `options` are passed to its class. Raises UnknownProviderError."""
    if provider not in CLIENTS:
        raise UnknownProviderError(
            f"There is no client for {provider!r}; there are {', '.join(CLIENTS)}. For another that speaks OpenAI's "
            "dialect, make a subclass of OpenAICompatibleClient: four lines."
        )
    return CLIENTS[provider](model, **options)
