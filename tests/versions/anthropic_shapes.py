"""The shapes of anthropic: each kind of client, and every way to call a client."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from tests.provider import MESSAGE, plain
from tests.versions.answers import COUNTED, MESSAGE_STREAM, MESSAGE_TOOL
from tests.versions.shapes import Call, Make, entered, iterated, on_aiohttp, on_own, parsed, parsed_stream, read, shapes

Payload = Any


def _client(name: str, url: str, **options: Payload) -> Payload:
    return getattr(import_module("anthropic"), name)(api_key="k", base_url=url, max_retries=0, **options)


def _vertex(name: str, url: str) -> Payload:
    make = getattr(import_module("anthropic"), name)
    return make(region="r", project_id="p", access_token="t", base_url=f"{url}/v1", max_retries=0)


def _aws(name: str, url: str, **options: Payload) -> Payload:
    make = getattr(import_module("anthropic"), name)
    return make(api_key="k", aws_region="us-east-1", base_url=url, max_retries=0, **options)


def _google_cloud(name: str, url: str) -> Payload:
    make = getattr(import_module("anthropic"), name)
    return make(project="p", location="l", workspace_id="w", skip_auth=True, base_url=url, max_retries=0)


sync = partial(_client, "Anthropic")
asynchronous = partial(_client, "AsyncAnthropic")

SYNC: dict[str, Make] = {
    "Anthropic": sync,
    "AnthropicVertex": partial(_vertex, "AnthropicVertex"),
    "AnthropicFoundry": partial(_client, "AnthropicFoundry"),
    "AnthropicBedrockMantle": partial(_aws, "AnthropicBedrockMantle"),
    "AnthropicAWS": partial(_aws, "AnthropicAWS", workspace_id="w"),
    "AnthropicGoogleCloud": partial(_google_cloud, "AnthropicGoogleCloud"),
    "Anthropic on the user's httpx": on_own("httpx", sync),
    "Anthropic on the user's httpx2": on_own("httpx2", sync),
}
ASYNC: dict[str, Make] = {
    "AsyncAnthropic": asynchronous,
    "AsyncAnthropicVertex": partial(_vertex, "AsyncAnthropicVertex"),
    "AsyncAnthropicFoundry": partial(_client, "AsyncAnthropicFoundry"),
    "AsyncAnthropicBedrockMantle": partial(_aws, "AsyncAnthropicBedrockMantle"),
    "AsyncAnthropicAWS": partial(_aws, "AsyncAnthropicAWS", workspace_id="w"),
    "AsyncAnthropicGoogleCloud": partial(_google_cloud, "AsyncAnthropicGoogleCloud"),
    "AsyncAnthropic on the user's httpx": on_own("httpx", asynchronous, asynchronous=True),
    "AsyncAnthropic on the user's httpx2": on_own("httpx2", asynchronous, asynchronous=True),
    "AsyncAnthropic on aiohttp": on_aiohttp("anthropic", asynchronous),
}


def weather(city: str) -> str:
    """Return the weather."""
    return f"fine in {city}"


async def weather_later(city: str) -> str:
    """Return the weather, asynchronously."""
    return weather(city)


def _tool_runner(client: Payload) -> Payload:
    """Return a method with a tool that calls the model until the model asks for no more tools."""
    package = import_module("anthropic")
    if type(client).__name__.startswith("Async"):
        tool = package.beta_async_tool(name="weather")(weather_later)
    else:
        tool = package.beta_tool(weather)
    return partial(client.beta.messages.tool_runner, tools=[tool])


def _thread(client: Payload) -> Payload:
    """Return a conversation that the client keeps itself."""
    return client.beta.messages.thread(model="m", max_tokens=9)


MESSAGES = [{"role": "user", "content": "hello"}]
ASK = {"model": "m", "max_tokens": 9, "messages": MESSAGES}
STREAM = (MESSAGE_STREAM,)
messages = partial(Call, arguments=ASK, answers=(plain(MESSAGE),), apis=("anthropic-messages",))
no_llm_call = partial(Call, arguments={"model": "m", "messages": MESSAGES}, answers=(plain(COUNTED),), apis=())

CALLS: dict[str, Call] = {
    "create": messages(lambda client: client.messages.create),
    "create, streamed": messages(
        lambda client: client.messages.create, arguments={**ASK, "stream": True}, answers=STREAM, take=iterated
    ),
    "stream": messages(lambda client: client.messages.stream, answers=STREAM, take=entered),
    "with_options": messages(lambda client: client.with_options(timeout=5).messages.create),
    "copy": messages(lambda client: client.copy().messages.create),
    "with_raw_response": messages(lambda client: client.messages.with_raw_response.create, take=parsed),
    "with_raw_response, streamed": messages(
        lambda client: client.messages.with_raw_response.create,
        arguments={**ASK, "stream": True},
        answers=STREAM,
        take=parsed_stream,
    ),
    "with_streaming_response": messages(lambda client: client.messages.with_streaming_response.create, take=read),
    "with_streaming_response, streamed": messages(
        lambda client: client.messages.with_streaming_response.create,
        arguments={**ASK, "stream": True},
        answers=STREAM,
        take=read,
    ),
    "post": messages(lambda client: client.post, arguments={"path": "/v1/messages", "cast_to": object, "body": ASK}),
    "parse": messages(lambda client: client.messages.parse),
    "beta": messages(lambda client: client.beta.messages.create),
    "beta, streamed": messages(
        lambda client: client.beta.messages.create, arguments={**ASK, "stream": True}, answers=STREAM, take=iterated
    ),
    "beta.stream": messages(lambda client: client.beta.messages.stream, answers=STREAM, take=entered),
    "beta.parse": messages(lambda client: client.beta.messages.parse),
    "beta.with_raw_response": messages(lambda client: client.beta.messages.with_raw_response.create, take=parsed),
    "beta.thread": messages(lambda client: partial(_thread(client).send, MESSAGES[0]), arguments={}),
    "beta.thread, streamed": messages(
        lambda client: partial(_thread(client).stream, MESSAGES[0]), arguments={}, answers=STREAM, take=entered
    ),
    "beta.tool_runner": messages(
        _tool_runner,
        answers=(plain(MESSAGE_TOOL), plain(MESSAGE)),
        apis=("anthropic-messages", "anthropic-messages"),
        take=iterated,
    ),
    "count_tokens": no_llm_call(lambda client: client.messages.count_tokens),
    "beta.count_tokens": no_llm_call(lambda client: client.beta.messages.count_tokens),
}

SHAPES = shapes(SYNC, CALLS, basic=2) | shapes(ASYNC, CALLS, basic=2)
