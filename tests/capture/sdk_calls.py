"""For each SDK, a call by its client to a local server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anthropic
import ollama
import openai
from google import genai
from google.auth.credentials import Credentials
from google.genai.types import HttpOptions

from tests.provider import CHAT, GENERATED, MESSAGE, OLLAMA, Server

ASK = [{"role": "user", "content": "hello"}]


class _Token(Credentials):
    """Credentials that need no server."""

    def __init__(self) -> None:
        super().__init__()
        self.token = "ya29.a-token-that-must-not-be-on-file"

    def refresh(self, request: object) -> None:
        return


def _openai(server: Server) -> openai.OpenAI:
    return openai.OpenAI(api_key="sk-the-openai-client", base_url=f"{server.url}/v1", max_retries=0)


def _google(server: Server) -> genai.Client:
    return genai.Client(api_key="a-key-of-the-client", http_options=HttpOptions(base_url=server.url))


def _call_openai(server: Server, bind: Callable[[object], None]) -> object:
    with _openai(server) as client:
        bind(client)
        return client.chat.completions.create(model="m", messages=ASK).choices[0].message.content


def _call_async_openai(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        async with openai.AsyncOpenAI(api_key="sk-the-openai-client", base_url=f"{server.url}/v1") as client:
            bind(client)
            return (await client.chat.completions.create(model="m", messages=ASK)).choices[0].message.content

    return asyncio.run(call())


def _call_azure(server: Server, bind: Callable[[object], None]) -> object:
    with openai.AzureOpenAI(
        api_key="a-key-of-the-client", azure_endpoint=server.url, api_version="2024-10-21"
    ) as client:
        bind(client)
        return client.chat.completions.create(model="m", messages=ASK).choices[0].message.content


def _call_async_azure(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        async with openai.AsyncAzureOpenAI(
            azure_ad_token="a-token-of-the-client", azure_endpoint=server.url, api_version="2024-10-21"
        ) as client:
            bind(client)
            return (await client.chat.completions.create(model="m", messages=ASK)).choices[0].message.content

    return asyncio.run(call())


def _call_anthropic(server: Server, bind: Callable[[object], None]) -> object:
    with anthropic.Anthropic(api_key="a-key-of-the-client", base_url=server.url) as client:
        bind(client)
        return client.messages.create(model="m", max_tokens=9, messages=ASK).content[0].text


def _call_async_anthropic(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        async with anthropic.AsyncAnthropic(api_key="a-key-of-the-client", base_url=server.url) as client:
            bind(client)
            return (await client.messages.create(model="m", max_tokens=9, messages=ASK)).content[0].text

    return asyncio.run(call())


def _call_google(server: Server, bind: Callable[[object], None]) -> object:
    with _google(server) as client:
        bind(client)
        return client.models.generate_content(model="m", contents="hello").text


def _call_async_google(server: Server, bind: Callable[[object], None]) -> object:
    client = _google(server)
    bind(client)

    async def call() -> object:
        async with client.aio as aio:
            return (await aio.models.generate_content(model="m", contents="hello")).text

    answer = asyncio.run(call())
    client.close()
    return answer


def _call_vertex(server: Server, bind: Callable[[object], None]) -> object:
    with genai.Client(
        vertexai=True, project="p", location="l", credentials=_Token(), http_options=HttpOptions(base_url=server.url)
    ) as client:
        bind(client)
        return client.models.generate_content(model="m", contents="hello").text


def _call_ollama(server: Server, bind: Callable[[object], None]) -> object:
    with ollama.Client(host=server.url) as client:
        bind(client)
        return client.chat(model="m", messages=ASK).message.content


def _call_async_ollama(server: Server, bind: Callable[[object], None]) -> object:
    async def call() -> object:
        client = ollama.AsyncClient(host=server.url)
        bind(client)
        try:
            return (await client.chat(model="m", messages=ASK)).message.content
        finally:
            await client.close()

    return asyncio.run(call())


CALLS = {
    "openai": (_call_openai, CHAT, "openai", "openai-chat"),
    "openai async": (_call_async_openai, CHAT, "openai", "openai-chat"),
    "azure": (_call_azure, CHAT, "azure", "openai-chat"),
    "azure async": (_call_async_azure, CHAT, "azure", "openai-chat"),
    "anthropic": (_call_anthropic, MESSAGE, "anthropic", "anthropic-messages"),
    "anthropic async": (_call_async_anthropic, MESSAGE, "anthropic", "anthropic-messages"),
    "google": (_call_google, GENERATED, "google", "google-generate"),
    "google async": (_call_async_google, GENERATED, "google", "google-generate"),
    "vertex": (_call_vertex, GENERATED, "google", "google-generate"),
    "ollama": (_call_ollama, OLLAMA, "ollama", "ollama-chat"),
    "ollama async": (_call_async_ollama, OLLAMA, "ollama", "ollama-chat"),
}
