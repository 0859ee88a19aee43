"""The shapes of google-genai: Gemini's API and Vertex, sync and `.aio`, and every way to call them."""

import json
from functools import partial
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from tests.provider import GENERATED, plain, stream
from tests.versions.answers import GENERATED_CALL, GENERATED_JSON, GENERATED_STREAM, INTERACTION, INTERACTION_STREAM
from tests.versions.shapes import Call, Make, NotInThisVersionError, http_clients, iterated, own_transport, shapes

Payload = Any


def gemini(url: str, **options: Payload) -> Payload:
    genai = import_module("google.genai")
    if missing := options.keys() - genai.types.HttpOptions.model_fields.keys():
        raise NotInThisVersionError(f"HttpOptions.{min(missing)}")
    return genai.Client(api_key="k", http_options={"base_url": url, **options})


def _vertex(url: str) -> Payload:
    credentials = import_module("google.oauth2.credentials").Credentials("t")
    genai = import_module("google.genai")
    return genai.Client(
        vertexai=True, project="p", location="l", credentials=credentials, http_options={"base_url": url}
    )


def _of(library: str, url: str, **options: Payload) -> Payload:
    """Return a client over an HTTP library, or raise `NotInThisVersionError` if this version does not accept the
    library.
    """
    try:
        client = gemini(url, **options)
    except ValueError as refused:
        raise NotInThisVersionError(f"a Client that takes clients of {library}") from refused
    if not isinstance(http_clients(client)[0], import_module(library).Client):
        raise NotInThisVersionError(f"a Client that takes transports of {library}")
    return client


def _with_own_transports(library: str, url: str) -> Payload:
    transports = [own_transport(library, asynchronous=asynchronous) for asynchronous in (False, True)]
    arguments = [{"transport": transport} for transport in transports]
    return _of(library, url, client_args=arguments[0], async_client_args=arguments[1])


def _on_own(library: str, url: str) -> Payload:
    http = import_module(library)
    sync = http.Client(transport=own_transport(library, asynchronous=False))
    asynchronous = http.AsyncClient(transport=own_transport(library, asynchronous=True))
    return _of(library, url, httpx_client=sync, httpx_async_client=asynchronous)


CLIENTS: dict[str, Make] = {
    "Client": gemini,
    "Client of Vertex": _vertex,
    "Client with the user's httpx transports": partial(_with_own_transports, "httpx"),
    "Client with the user's httpx2 transports": partial(_with_own_transports, "httpx2"),
    "Client on the user's httpx": partial(_on_own, "httpx"),
    "Client on the user's httpx2": partial(_on_own, "httpx2"),
}


class Word(BaseModel):
    word: str


def weather(city: str) -> str:
    """Return the weather."""
    return f"fine in {city}"


ASK = {"model": "m", "contents": "hello"}
STREAM = (GENERATED_STREAM,)
generate = partial(Call, arguments=ASK, answers=(plain(GENERATED),), apis=("google-generate",))

CALLS: dict[str, Call] = {
    "generate_content": generate(lambda client: client.models.generate_content),
    "generate_content_stream": generate(
        lambda client: client.models.generate_content_stream, answers=STREAM, take=iterated
    ),
    "a class as response_schema": generate(
        lambda client: client.models.generate_content,
        arguments={**ASK, "config": {"response_mime_type": "application/json", "response_schema": Word}},
        answers=(plain(GENERATED_JSON),),
    ),
    "chats": generate(lambda client: client.chats.create(model="m").send_message, arguments={"message": "hello"}),
    "chats, streamed": generate(
        lambda client: client.chats.create(model="m").send_message_stream,
        arguments={"message": "hello"},
        answers=STREAM,
        take=iterated,
    ),
    "automatic function calling": generate(
        lambda client: client.models.generate_content,
        arguments={**ASK, "config": {"tools": [weather]}},
        answers=(plain(GENERATED_CALL), plain(GENERATED)),
        apis=("google-generate", "google-generate"),
    ),
    "automatic function calling, streamed": generate(
        lambda client: client.models.generate_content_stream,
        arguments={**ASK, "config": {"tools": [weather]}},
        answers=(stream(f"data: {json.dumps(GENERATED_CALL)}\r\n\r\n".encode()), GENERATED_STREAM),
        apis=("google-generate", "google-generate"),
        take=iterated,
    ),
    "interactions": Call(
        lambda client: client.interactions.create,
        {"model": "m", "input": "hello"},
        (plain(INTERACTION),),
        ("google-interactions",),
    ),
    "interactions, streamed": Call(
        lambda client: client.interactions.create,
        {"model": "m", "input": "hello", "stream": True},
        (INTERACTION_STREAM,),
        ("google-interactions",),
        iterated,
    ),
    "embed_content": Call(
        lambda client: client.models.embed_content,
        ASK,
        (plain({"embeddings": [{"values": [0.5]}]}),),
        ("embeddings",),
    ),
    "count_tokens": Call(lambda client: client.models.count_tokens, ASK, (plain({"totalTokens": 3}),), ()),
}

SHAPES = shapes(CLIENTS, CALLS, basic=2) | shapes(
    {f"{name}, .aio": make for name, make in CLIENTS.items()}, CALLS, basic=2
)
