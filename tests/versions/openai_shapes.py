"""The shapes of openai: each kind of client, and every way to call a client."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from tests.provider import CHAT, CHAT_STREAM, Answer, plain, stream
from tests.versions.answers import COMPLETION, EMBEDDING, JSON_CHAT, RESPONSE_STREAM, response_of
from tests.versions.shapes import Call, Make, entered, iterated, on_aiohttp, on_own, parsed, parsed_stream, read, shapes

Payload = Any


class Word(BaseModel):
    word: str


def _client(name: str, url: str, **options: Payload) -> Payload:
    return getattr(import_module("openai"), name)(api_key="k", base_url=f"{url}/v1", max_retries=0, **options)


def _azure(name: str, url: str, **options: Payload) -> Payload:
    make = getattr(import_module("openai"), name)
    return make(azure_endpoint=url, api_version="2024-10-21", max_retries=0, **options)


def _bedrock(name: str, url: str) -> Payload:
    return getattr(import_module("openai"), name)(api_key="k", base_url=f"{url}/openai/v1", max_retries=0)


async def _token() -> str:
    return "t"


sync = partial(_client, "OpenAI")
asynchronous = partial(_client, "AsyncOpenAI")

SYNC: dict[str, Make] = {
    "OpenAI": sync,
    "AzureOpenAI with a deployment": partial(_azure, "AzureOpenAI", azure_deployment="d", api_key="k"),
    "AzureOpenAI with a token": partial(_azure, "AzureOpenAI", azure_ad_token="t"),
    "AzureOpenAI with a token provider": partial(_azure, "AzureOpenAI", azure_ad_token_provider=lambda: "t"),
    "BedrockOpenAI": partial(_bedrock, "BedrockOpenAI"),
    "OpenAI on the user's httpx": on_own("httpx", sync),
    "OpenAI on the user's httpx2": on_own("httpx2", sync),
}
ASYNC: dict[str, Make] = {
    "AsyncOpenAI": asynchronous,
    "AsyncAzureOpenAI with a deployment": partial(_azure, "AsyncAzureOpenAI", azure_deployment="d", api_key="k"),
    "AsyncAzureOpenAI with a token": partial(_azure, "AsyncAzureOpenAI", azure_ad_token="t"),
    "AsyncAzureOpenAI with a token provider": partial(_azure, "AsyncAzureOpenAI", azure_ad_token_provider=_token),
    "AsyncBedrockOpenAI": partial(_bedrock, "AsyncBedrockOpenAI"),
    "AsyncOpenAI on the user's httpx": on_own("httpx", asynchronous, asynchronous=True),
    "AsyncOpenAI on the user's httpx2": on_own("httpx2", asynchronous, asynchronous=True),
    "AsyncOpenAI on aiohttp": on_aiohttp("openai", asynchronous),
}

ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
INPUT = {"model": "m", "input": "hello"}
STREAM = (stream(*CHAT_STREAM),)
chat = partial(Call, arguments=ASK, answers=(plain(CHAT),), apis=("openai-chat",))
responses = partial(Call, arguments=INPUT, answers=(plain(response_of("hi")),), apis=("openai-responses",))

CALLS: dict[str, Call] = {
    "create": chat(lambda client: client.chat.completions.create),
    "create, streamed": chat(
        lambda client: client.chat.completions.create, arguments={**ASK, "stream": True}, answers=STREAM, take=iterated
    ),
    "with_options": chat(lambda client: client.with_options(timeout=5).chat.completions.create),
    "copy": chat(lambda client: client.copy().chat.completions.create),
    "with_raw_response": chat(lambda client: client.chat.completions.with_raw_response.create, take=parsed),
    "with_raw_response of a copy": chat(
        lambda client: client.copy().with_raw_response.chat.completions.create, take=parsed
    ),
    "with_raw_response, streamed": chat(
        lambda client: client.chat.completions.with_raw_response.create,
        arguments={**ASK, "stream": True},
        answers=STREAM,
        take=parsed_stream,
    ),
    "with_streaming_response": chat(lambda client: client.chat.completions.with_streaming_response.create, take=read),
    "with_streaming_response, streamed": chat(
        lambda client: client.chat.completions.with_streaming_response.create,
        arguments={**ASK, "stream": True},
        answers=STREAM,
        take=read,
    ),
    "post": chat(lambda client: client.post, arguments={"path": "/chat/completions", "cast_to": object, "body": ASK}),
    "parse": chat(
        lambda client: client.chat.completions.parse,
        arguments={**ASK, "response_format": Word},
        answers=(plain(JSON_CHAT),),
    ),
    "beta.parse": chat(
        lambda client: client.beta.chat.completions.parse,
        arguments={**ASK, "response_format": Word},
        answers=(plain(JSON_CHAT),),
    ),
    "stream": chat(lambda client: client.chat.completions.stream, answers=STREAM, take=entered),
    "beta.stream": chat(lambda client: client.beta.chat.completions.stream, answers=STREAM, take=entered),
    "responses": responses(lambda client: client.responses.create),
    "responses, streamed": responses(
        lambda client: client.responses.create,
        arguments={**INPUT, "stream": True},
        answers=(RESPONSE_STREAM,),
        take=iterated,
    ),
    "responses.parse": responses(lambda client: client.responses.parse),
    "responses.stream": responses(lambda client: client.responses.stream, answers=(RESPONSE_STREAM,), take=entered),
    "responses.with_raw_response": responses(lambda client: client.responses.with_raw_response.create, take=parsed),
    "responses.with_streaming_response": responses(
        lambda client: client.responses.with_streaming_response.create, take=read
    ),
    "beta.responses": responses(lambda client: client.beta.responses.create),
    "completions": Call(
        lambda client: client.completions.create,
        {"model": "m", "prompt": "hello"},
        (plain(COMPLETION),),
        ("openai-completions",),
    ),
    "embeddings": Call(
        lambda client: client.embeddings.create,
        {"model": "m", "input": "hello", "encoding_format": "float"},
        (plain(EMBEDDING),),
        ("embeddings",),
    ),
    "moderations": Call(
        lambda client: client.moderations.create,
        {"input": "hello"},
        (plain({"id": "1", "model": "m", "results": []}),),
        ("moderations",),
    ),
    "images": Call(
        lambda client: client.images.generate,
        {"model": "m", "prompt": "hello"},
        (plain({"created": 1, "data": [{"b64_json": "QUJD"}]}),),
        ("images",),
    ),
    "speech": Call(
        lambda client: client.audio.speech.with_streaming_response.create,
        {"model": "m", "input": "hello", "voice": "alloy"},
        (Answer([b"ID3\xff"], headers={"content-type": "audio/mpeg"}),),
        ("speech",),
        read,
    ),
    "responses.compact": responses(
        lambda client: client.responses.compact,
        answers=(plain({"id": "r", "object": "response.compaction", "created_at": 1, "output": [], "usage": None}),),
        apis=("openai-compaction",),
    ),
    "another request": Call(
        lambda client: client.post, {"path": "/vector_stores", "cast_to": object, "body": {}}, (plain({"id": "v"}),), ()
    ),
}

SHAPES = shapes(SYNC, CALLS, basic=2) | shapes(ASYNC, CALLS, basic=2)
