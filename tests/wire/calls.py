"""An SDK call as data, and the one place where it is made: sync and async differ by an `await`.

A driver says which method of its client sends an exchange's request (`Call`), or why no method does (`Raw`). A raw
request is sent by the SDK's HTTP client. The result for the caller, objects or an exception, is an `Outcome`. Two
outcomes are the same if `seen()` of them is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, Protocol

from tests.wire.corpus import Exchange, Payload


@dataclass(frozen=True, slots=True)
class Call:
    """A method of the client, by its dotted name, and its arguments.

    `gives` is one object, a stream of objects, or a context manager around such a stream with a final message.
    """

    method: str
    arguments: Mapping[str, Payload]
    gives: Literal["object", "stream", "manager"] = "object"


@dataclass(frozen=True, slots=True)
class Raw:
    """A request that no method of the SDK sends, with the reason."""

    reason: str


@dataclass(slots=True)
class Outcome:
    """The caller's result: every object in order, and the exception at the end."""

    objects: list[Any] = field(default_factory=list)
    error: Exception | None = None

    def seen(self) -> Payload:
        """Return all that a caller can see, as plain values that can be compared."""
        return [_plain(item) for item in self.objects], _plain_error(self.error)


class Driver(Protocol):
    """An SDK: its clients, all bound in the same way, and how an exchange is sent through them."""

    errors: tuple[type[Exception], ...]

    def client(self, exchange: Exchange, url: str) -> Any:
        """Return a client whose calls of this exchange's kind are sent to `url`."""

    def call(self, exchange: Exchange, url: str) -> Call | Raw:
        """Return how the SDK sends this exchange's request."""

    def http(self, client: Any) -> Any:
        """Return the HTTP client of an SDK client."""

    def clients(self) -> list[Any]:
        """Return the objects that must be closed, by an async `close` if the driver is async."""


def make(driver: Driver, exchange: Exchange, url: str) -> Outcome:
    """Send an exchange's request by the SDK's method, or by its HTTP client, and return the result."""
    outcome, client, call = Outcome(), driver.client(exchange, url), driver.call(exchange, url)
    try:
        if isinstance(call, Raw):
            response = driver.http(client).post(**_post(exchange, url))
            outcome.objects += [response.status_code, response.text]
            return outcome
        value = attrgetter(call.method)(client)(**call.arguments)
        if call.gives == "manager":
            with value as stream:
                outcome.objects.extend(stream)
                outcome.objects.append(stream.get_final_message())
        elif call.gives == "stream":
            outcome.objects.extend(value)
        else:
            outcome.objects.append(value)
    except driver.errors as error:
        outcome.error = error
    return outcome


async def make_async(driver: Driver, exchange: Exchange, url: str) -> Outcome:
    """Send an exchange's request by an async SDK's method, or by its HTTP client, and return the result."""
    outcome, client, call = Outcome(), driver.client(exchange, url), driver.call(exchange, url)
    try:
        if isinstance(call, Raw):
            response = await driver.http(client).post(**_post(exchange, url))
            outcome.objects += [response.status_code, response.text]
            return outcome
        value = attrgetter(call.method)(client)(**call.arguments)
        if call.gives == "manager":
            async with value as stream:
                outcome.objects += [item async for item in stream]
                outcome.objects.append(await stream.get_final_message())
        elif call.gives == "stream":
            async for item in await value:
                outcome.objects.append(item)
        else:
            outcome.objects.append(await value)
    except driver.errors as error:
        outcome.error = error
    return outcome


def _post(exchange: Exchange, url: str) -> dict[str, Payload]:
    query = f"?{exchange.query}" if exchange.query else ""
    content = json.dumps(exchange.request).encode()
    return {"url": url + exchange.path + query, "content": content, "headers": {"content-type": "application/json"}}


def _plain(item: Any) -> Payload:
    dump = getattr(item, "model_dump", None)
    return (type(item).__qualname__, dump(mode="json", warnings=False)) if dump else item


def _plain_error(error: Exception | None) -> Payload:
    told = ("status_code", "code", "body", "details", "request_id")
    return error and (type(error).__qualname__, str(error), {name: getattr(error, name, None) for name in told})
