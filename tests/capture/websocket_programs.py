"""Runs the programs of `tests/websocket_scenarios.py` with the SDK's clients, and reads what is on file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
from websockets.exceptions import ConnectionClosed

from tests.websocket_scenarios import Scenario
from trace_recorder.storage.stream_chunks import unpacked
from trace_recorder.storage.websocket_frames import from_event, read_marked
from trace_recorder.values.messages import Payload

KEY = "sk-proj-0123456789abcdefghijABCDEFGHIJ"
Wrap = Callable[[Any], Any]


@dataclass
class Outcome:
    """What a program got: the events with their classes, the exception if there was one, and the closing code."""

    events: list[tuple[str, Payload]] = field(default_factory=list)
    error: tuple[str, str] | None = None
    code: int | None = None
    cause: str | None = None

    def add(self, event: Any) -> Any:
        """Keep an event, and return it."""
        self.events.append((type(event).__name__, event.to_dict()))
        return event

    def close(self, connection: Any, error: Exception | None) -> None:
        """Keep the exception and the closing code."""
        if error is not None:
            self.error = (type(error).__name__, str(error))
            self.cause = type(error.__cause__).__name__
        self.code = connection._connection.protocol.close_code


def run_sync(scenario: Scenario, url: str, wrap: Wrap, **options: Any) -> Outcome:
    """Run a program with the sync client."""
    outcome, error = Outcome(), None
    with wrap(openai.OpenAI(api_key=KEY, base_url=f"{url}/v1")) as client:
        steps, value = scenario.program(), None
        with _connect(client, scenario.api, **options) as connection:
            try:
                while True:
                    step = steps.send(value)
                    value = outcome.add(connection.recv()) if step is None else connection.send(step)
            except StopIteration:
                pass
            except ConnectionClosed as closed:
                error = closed
    outcome.close(connection, error)
    return outcome


def run_async(scenario: Scenario, url: str, wrap: Wrap, **options: Any) -> Outcome:
    """Run a program with the async client, in an event loop of its own."""
    return asyncio.run(run_in_loop(scenario, url, wrap, **options))


async def run_in_loop(scenario: Scenario, url: str, wrap: Wrap, **options: Any) -> Outcome:
    """Run a program with the async client."""
    outcome, error = Outcome(), None
    async with wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1")) as client:
        steps, value = scenario.program(), None
        async with _connect(client, scenario.api, **options) as connection:
            try:
                while True:
                    try:
                        step = steps.send(value)
                    except StopIteration:
                        break
                    value = outcome.add(await connection.recv()) if step is None else await connection.send(step)
            except ConnectionClosed as closed:
                error = closed
    outcome.close(connection, error)
    return outcome


def _connect(client: Any, api: str, **options: Any) -> Any:
    if api == "realtime":
        return client.realtime.connect(model="gpt-rt", **options)
    return client.responses.connect(**options)


WAYS = {"sync": run_sync, "async": run_async}


# ── what is on file ──────────────────────────────────────────────────────────────────────────────────────────────────


def facts(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the data of a run's records, of one kind or of all."""
    records = map(json.loads, filter(None, path.with_suffix(".jsonl").read_text("utf-8").split("\n")))
    return [{"kind": record["kind"], **record["data"]} for record in records if kind in {None, record["kind"]}]


def kinds(path: Path) -> list[str]:
    """Return the kinds of a run's records about websockets, without those that only continue the one before."""
    names = [fact["kind"] for fact in facts(path) if fact["kind"].startswith(("llm_", "websocket_"))]
    return [name for name, before in zip(names, [None, *names], strict=False) if name != before]


def events_on_file(path: Path) -> dict[str, list[bytes]]:
    """Return the messages of each response's stream, by the id of the interaction."""
    streams: dict[str, bytes] = {}
    for fact in facts(path, "llm_stream"):
        streams[fact["interaction_id"]] = streams.get(fact["interaction_id"], b"") + unpacked(fact["zlib"])
    return {identity: [*_split(text)] for identity, text in streams.items()}


def _split(text: bytes) -> Iterator[bytes]:
    for event in text.removesuffix(b"\n\n").split(b"\n\n"):
        yield from_event(event + b"\n\n")


def frames_on_file(path: Path, direction: str) -> list[bytes]:
    """Return the messages outside of responses that went in a direction."""
    text = b"".join(unpacked(fact["zlib"]) for fact in facts(path, "websocket_frames"))
    return [message for went, message in read_marked(text) if went == direction]


def received_on_file(path: Path) -> list[bytes]:
    """Return all messages on file that were received, sorted."""
    streams = events_on_file(path).values()
    return sorted([*frames_on_file(path, "received"), *(event for stream in streams for event in stream)])
