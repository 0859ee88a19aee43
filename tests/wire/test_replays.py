"""The wire corpus recorded and replayed through the real SDKs: the caller gets the same both times.

A sample runs by default. With TRACE_RECORDER_WIRE_WHOLE=1 the whole corpus runs. `python -m tests.wire.replays` shows
the same as a table. Where the corpus is absent these tests are skipped.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.wire.corpus import DIRECTORY, load
from tests.wire.replays import MODES, Seen, compare, compare_all, recorded
from tests.wire.runs import Mode

PART = 1.0 if os.environ.get("TRACE_RECORDER_WIRE_WHOLE") else 0.02
EXCHANGES = tuple(exchange for exchange in load() if random.Random(exchange.number).random() < PART)


@pytest.mark.skipif(not EXCHANGES, reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
@pytest.mark.parametrize("title", MODES)
def test_a_replayed_call_gives_the_same_as_the_recorded_call(title: str) -> None:
    """A replay gives the same objects, exceptions, status, headers, body and chunks for every exchange."""
    streams_alone, mode, again = MODES[title]
    exchanges = tuple(exchange for exchange in EXCHANGES if exchange.stream or not streams_alone)

    verdicts = compare_all(exchanges, mode, again)

    differing = {
        (exchange.source, column)
        for exchange in exchanges
        for column, verdict in verdicts[exchange.number].items()
        if verdict is False
    }
    assert differing == set()


@pytest.mark.skipif(not EXCHANGES, reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
def test_an_answer_of_a_different_exchange_is_noticed(tmp_path: Path) -> None:
    """If an exchange gets the answer of a different one, the comparison fails."""
    chosen = [exchange for exchange in EXCHANGES if exchange.dialect == "openai-chat" and exchange.stream][:2]
    first = recorded(chosen, Mode(), tmp_path / "run.json")
    [one, other] = (exchange.number for exchange in chosen)
    swapped = Seen(
        {one: first.outcomes[other], other: first.outcomes[one]},
        {one: first.deliveries[other], other: first.deliveries[one]},
    )

    verdicts = compare(chosen[0], first, swapped, Mode())

    assert {column for column, verdict in verdicts.items() if verdict is False} >= {
        "objects",
        "headers",
        "body",
        "chunks",
    }
