"""Real exchanges through each HTTP library: the caller gets the server's bytes, and the records equal those made with
httpx. The corpus is not part of the project: where it is absent, these tests are skipped. A search, and `nox -s seams`,
sends each exchange through each library; otherwise the tests use a sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.provider import Answer, serving
from tests.seams.callers import LIBRARIES, Library
from tests.searching import IS_SEARCH
from tests.wire.corpus import DIRECTORY, Exchange, load
from trace_recorder import LLMInteraction, TrajectoryRecorder
from trace_recorder import load as load_run

Payload = Any
Post = Callable[[str, bytes], bytes]
STEP = 1 if IS_SEARCH else 23
EXCHANGES = load()[::STEP]
PIECE_BYTES = 97


class HttpxClient(Library):
    """A client of httpx, with whose records those of the other clients are compared."""

    def client(self) -> Payload:
        return import_module("httpx").Client()

    def post(self, client: Payload, url: str, body: bytes) -> bytes:
        return client.post(url, content=body, headers={"content-type": "application/json"}).content


def address(url: str, exchange: Exchange) -> str:
    """Return the address of an exchange."""
    return url + exchange.path + (f"?{exchange.query}" if exchange.query else "")


def answer(exchange: Exchange) -> Answer:
    """Return the provider's answer, in small pieces if it is a stream."""
    data = exchange.response_text.encode()
    size = PIECE_BYTES if exchange.stream else max(1, len(data))
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return Answer(pieces, exchange.status, {"content-type": exchange.media_type})


@contextmanager
def answered(exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Start a server that gives the answers in their order."""
    with serving(*map(answer, exchanges)) as server:
        yield server.url


def recorded(library: Library, path: Path, exchanges: Sequence[Exchange]) -> tuple[list[bytes], list[LLMInteraction]]:
    """Return the callers' outcomes of these exchanges, and the recorded calls."""
    with answered(exchanges) as url, TrajectoryRecorder(path, strict=True) as recorder:
        client = recorder.wrap(library.client())
        requests = [(address(url, exchange), json.dumps(exchange.request).encode()) for exchange in exchanges]
        got = [library.post(client, *request) for request in requests]
        library.close(client)
    return got, [*load_run(path).llm_interactions]


def on_file(call: LLMInteraction) -> Payload:
    """Return the members of a call's record, without times."""
    attempts = [(attempt.number, attempt.status) for attempt in call.attempts]
    return (
        *(call.api, call.provider, call.model, attempts, call.complete, call.ended_by, call.error),
        *(call.raw_request, call.raw_response, call.response, [*call.input_messages], call.tools, call.parameters),
    )


@pytest.mark.skipif(not EXCHANGES, reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
@pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)
def test_real_exchanges_are_recorded_as_with_httpx(tmp_path: Path, kind: type[Library]) -> None:
    """For real requests, answers and streams, the caller's bytes and the recorded calls are the same as with httpx."""
    expected, by_httpx = recorded(HttpxClient(), tmp_path / "httpx.json", EXCHANGES)
    got, calls = recorded(kind(), tmp_path / "other.json", EXCHANGES)

    assert expected == [exchange.response_text.encode() for exchange in EXCHANGES]
    assert got == expected
    assert sum(len(call.attempts) for call in calls) == len(EXCHANGES)  # an equal request after a failure is a retry
    assert {json.dumps(call.raw_request) for call in calls} == {json.dumps(exchange.request) for exchange in EXCHANGES}
    assert len(calls) == len(by_httpx)
    pairs = zip(calls, by_httpx, strict=True)
    assert [one.interaction_id for one, other in pairs if on_file(one) != on_file(other)] == []
