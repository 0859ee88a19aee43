"""Runs exchanges through the SDKs, with and without a recorder, sync and async.

For each exchange, a run has the caller's result, the received request and, if a recorder was bound, the recorded
interactions. The server names the exchange in a request id, so that exchanges cannot be confused, whatever their order.
`judgement.py` compares them.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.wire.calls import Driver, Outcome, make, make_async
from tests.wire.corpus import Exchange
from tests.wire.drivers_anthropic import AnthropicDriver
from tests.wire.drivers_google import GoogleDriver
from tests.wire.drivers_ollama import OllamaDriver
from tests.wire.drivers_openai import OpenAIDriver
from tests.wire.replay_server import REQUEST_ID, Received, serve


@dataclass(frozen=True, slots=True)
class Mode:
    """How the calls are made, `at_once` of them at the same time if they are async, and how the server sends.

    `seed` cuts bodies at random, `compress` sends gzip.
    """

    asynchronous: bool = False
    seed: int | None = None
    compress: bool = False
    at_once: int = 8


@dataclass(slots=True)
class Run:
    """The results of each exchange by its number. `interactions` is empty for a run without a recorder."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    received: dict[int, list[Received]] = field(default_factory=dict)
    interactions: dict[int, list[Any]] = field(default_factory=dict)


class Drivers:
    """A driver for each SDK, created when it is first needed. Every client that a driver opens is passed to `bind`."""

    def __init__(self, bind: Callable[[Any], Any], asynchronous: bool) -> None:
        self._made = (bind, asynchronous)
        self._drivers: dict[Callable[..., Driver], Driver] = {}

    def of(self, exchange: Exchange) -> Driver:
        """Return the driver of the SDK for the exchange's dialect."""
        kind = kind_of(exchange)
        if kind not in self._drivers:
            self._drivers[kind] = kind(*self._made)
        return self._drivers[kind]

    def clients(self) -> list[Any]:
        """Return every opened HTTP client, to close it."""
        return [driver.http(client) for driver in self._drivers.values() for client in driver.clients()]


def kind_of(exchange: Exchange) -> Callable[..., Driver]:
    """Return the name of the SDK for an exchange's dialect."""
    if exchange.dialect.startswith("ollama") or exchange.path == "/api/embeddings":
        return OllamaDriver
    return {"anthropic": AnthropicDriver, "google": GoogleDriver}.get(exchange.dialect.partition("-")[0], OpenAIDriver)


@cache
def unwrapped(exchanges: tuple[Exchange, ...], mode: Mode) -> Run:
    """Send the exchanges once through clients that are not recorded, for all later comparisons."""
    return _run(exchanges, mode, lambda client: client)


def wrapped(exchanges: tuple[Exchange, ...], mode: Mode, path: Path) -> Run:
    """Send the exchanges through wrapped clients, and read the files."""
    from trace_recorder import TrajectoryRecorder, load

    with TrajectoryRecorder(path, task="the wire corpus") as recorder:
        run = _run(exchanges, mode, recorder.wrap)
        recorder.finalize(True)
    for interaction in load(path).llm_interactions:
        number = int(interaction.attempts[-1].headers.get(REQUEST_ID, -1))
        run.interactions.setdefault(number, []).append(interaction)
    return run


def _run(exchanges: Sequence[Exchange], mode: Mode, bind: Callable[[Any], Any]) -> Run:
    with serve(exchanges, mode.seed, mode.compress) as server:
        run = call_all(exchanges, mode, bind, server.address)
        run.received = server.received
    return run


def call_all(
    exchanges: Sequence[Exchange], mode: Mode, bind: Callable[[Any], Any], url_of: Callable[[Exchange], str]
) -> Run:
    """Send the exchanges through clients that were passed to `bind`, each to its URL."""
    run = Run()
    with _quiet():
        drivers = Drivers(bind, mode.asynchronous)
        if mode.asynchronous:
            asyncio.run(_make_all_async(exchanges, url_of, drivers, run, mode.at_once))
        else:
            _make_all(exchanges, url_of, drivers, run)
    return run


def _make_all(exchanges: Sequence[Exchange], url_of: Callable[[Exchange], str], drivers: Drivers, run: Run) -> None:
    def one(exchange: Exchange) -> None:
        run.outcomes[exchange.number] = make(drivers.of(exchange), exchange, url_of(exchange))

    for exchange in exchanges:
        # Each call has its own context, like a task: a call after an equal failed call is then not a second attempt.
        copy_context().run(one, exchange)
    for client in drivers.clients():
        client.close()


async def _make_all_async(
    exchanges: Sequence[Exchange], url_of: Callable[[Exchange], str], drivers: Drivers, run: Run, at_once: int
) -> None:
    turn = asyncio.Semaphore(at_once)

    async def one(exchange: Exchange) -> None:
        async with turn:
            run.outcomes[exchange.number] = await make_async(drivers.of(exchange), exchange, url_of(exchange))

    async with asyncio.TaskGroup() as tasks:
        for exchange in exchanges:
            tasks.create_task(one(exchange))
    for client in drivers.clients():
        await client.aclose()


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore the SDKs' warnings of models that have been retired since the recordings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"tests\.wire|asyncio|anthropic")
        yield
