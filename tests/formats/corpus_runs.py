"""The corpus of real exchanges as runs: the exchanges of one recording are one run, captured from a transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import httpx

from tests.wire.corpus import Exchange, load
from trace_recorder import TrajectoryRecorder, http_client


def corpus_runs(directory: Path, every: int = 1) -> Iterator[Path]:
    """Record each recording of the corpus as a run, or one in every `step`; return nothing if there is no corpus."""
    for number, (source, exchanges) in enumerate(groupby(load(), key=lambda one: one.source.partition("#")[0])):
        if number % every:
            continue
        path = directory / f"corpus_{number}.json"
        record(path, [*exchanges], source)
        yield path


def record(path: Path, exchanges: Sequence[Exchange], task: str) -> None:
    """Record exchanges as one run."""
    with TrajectoryRecorder(path, task=task) as recorder:
        for exchange in exchanges:
            _send(recorder, exchange)


def _send(recorder: TrajectoryRecorder, exchange: Exchange) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        headers = {"content-type": exchange.media_type}
        return httpx.Response(exchange.status, headers=headers, content=exchange.response_text.encode())

    url = f"https://{exchange.host}{exchange.path}" + (f"?{exchange.query}" if exchange.query else "")
    transport = httpx.MockTransport(answer)
    with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
        client.post(url, json=exchange.request)
