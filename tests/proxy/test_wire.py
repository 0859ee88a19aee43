"""The HTTP corpus through the proxy: program and provider get the same as without the proxy, and the exchanges are
recorded.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.running import proxying
from tests.searching import part_of
from tests.wire.corpus import Exchange, load
from tests.wire.differences import DIFFERENCES
from tests.wire.judgement import judge
from tests.wire.replay_server import REQUEST_ID, Received, serve
from tests.wire.runs import Mode, Run, call_all, unwrapped
from tests.wire.test_wire import with_corpus

OF_THE_CONNECTION = ("connection", "host")
EXCHANGES = load()
SAMPLE = tuple(exchange for exchange in EXCHANGES if random.Random(exchange.number).random() < 0.1)
STREAMS = tuple(exchange for exchange in EXCHANGES if exchange.stream)[::8]


def part(exchanges: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
    """Return the exchanges that CI tries: every second one of each dialect."""
    dialects = sorted({exchange.dialect for exchange in exchanges})
    each = ([exchange for exchange in exchanges if exchange.dialect == dialect] for dialect in dialects)
    return tuple(exchange for of_a_dialect in each for exchange in part_of(of_a_dialect))


@with_corpus
@pytest.mark.parametrize(
    ("exchanges", "mode"),
    [
        pytest.param(part(SAMPLE), Mode(), id="sync"),
        pytest.param(part(STREAMS), Mode(asynchronous=True, seed=1, compress=True), id="async-compressed-cut"),
    ],
)
def test_nothing_differs_from_calls_without_a_proxy(
    exchanges: tuple[Exchange, ...], mode: Mode, tmp_path: Path
) -> None:
    plain, recorded = _end_to_end(unwrapped(exchanges, mode)), _end_to_end(_proxied(exchanges, mode, tmp_path))

    differing = {
        (exchange.source, column)
        for exchange in exchanges
        for column, verdict in judge(exchange, plain, recorded).items()
        if verdict is False
    }
    named = {
        (exchange.source, column)
        for exchange in exchanges
        for difference in DIFFERENCES
        if difference.applies(exchange)
        for column in difference.columns
    }
    assert differing == named


def _proxied(exchanges: tuple[Exchange, ...], mode: Mode, directory: Path) -> Run:
    with serve(exchanges, mode.seed, mode.compress) as server:
        with proxying(directory, {"wire": server.url}, command=["agent"]) as proxy:
            run = call_all(
                exchanges, mode, lambda client: client, lambda exchange: f"{proxy.url}/wire/x/{exchange.number}"
            )
        run.received = server.received
    for interaction in [call for trajectory in proxy.runs() for call in trajectory.llm_interactions]:
        number = int(interaction.attempts[-1].headers.get(REQUEST_ID, -1))
        run.interactions.setdefault(number, []).append(interaction)
    return run


def _end_to_end(run: Run) -> Run:
    """Return the messages of an exchange without the headers that concern a single connection."""
    return replace(
        run,
        received={
            number: [
                Received(tuple(pair for pair in one.headers if pair[0].lower() not in OF_THE_CONNECTION), one.body)
                for one in received
            ]
            for number, received in run.received.items()
        },
    )
