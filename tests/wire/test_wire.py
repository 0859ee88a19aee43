"""The wire corpus through the real SDKs: the recorded calls equal the sent and received bytes, and the SDK's reading.

The corpus is not part of the project: where it is absent these tests are skipped. `python -m tests.wire.table` shows
the same comparison as a table, over more exchanges than a test has time for.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.searching import IS_SEARCH, covering
from tests.wire.corpus import DIRECTORY, kinds_of, load
from tests.wire.differences import DIFFERENCES
from tests.wire.judgement import COLUMNS
from tests.wire.runs import Mode, unwrapped
from tests.wire.sdk_changes import SDK_CHANGES, changes
from tests.wire.table import judge_all, raw_reasons

EXCHANGES = load()
TWO = tuple(covering(EXCHANGES, kinds_of, 2))
"""In CI: two exchanges of each kind, of which there are some hundreds."""
ONE = tuple(covering(TWO, kinds_of))
STREAMS = tuple(exchange for exchange in TWO if exchange.stream)
EVERY = 1 if IS_SEARCH else 2
"""Sync clients get every second stream that is cut in pieces, and async clients the other streams.

In a search, both get all streams.
"""

with_corpus = pytest.mark.skipif(not EXCHANGES, reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")


@with_corpus
@pytest.mark.parametrize(
    ("exchanges", "mode"),
    [
        pytest.param(TWO, Mode(), id="sync"),
        pytest.param(ONE, Mode(asynchronous=True), id="async"),
        pytest.param(STREAMS[EVERY - 1 :: EVERY], Mode(seed=1), id="sync-cut"),
        pytest.param(STREAMS[::EVERY], Mode(asynchronous=True, seed=2, compress=True), id="async-compressed-cut"),
    ],
)
def test_the_record_differs_only_in_named_ways(exchanges, mode):
    """Every exchange is recorded once, unchanged, and is read as the SDK reads it, except for the named differences."""
    verdicts = judge_all(exchanges, mode)

    named = {
        (exchange.source, column)
        for exchange in exchanges
        for difference in DIFFERENCES
        if difference.applies(exchange)
        for column in difference.columns
    }
    differing = {
        (exchange.source, column)
        for exchange in exchanges
        for column in COLUMNS
        if verdicts[exchange.number][column] is False
    }
    assert differing == named


@with_corpus
def test_the_sdks_send_the_recorded_requests():
    """The request that an SDK sends differs from the recorded one only in the named ways."""
    received = unwrapped(TWO, Mode()).received

    departures = [changes(exchange, json.loads(received[exchange.number][0].body)) for exchange in TWO]
    assert set().union(*departures) == SDK_CHANGES.keys()


@with_corpus
def test_few_exchanges_are_sent_raw():
    """All but eighteen exchanges are sent by a method of the SDK."""
    reasons = raw_reasons(EXCHANGES)

    assert Counter(reasons.values()) == {
        "an older Google library's call, which asks for enums as numbers": 16,
        "a gateway's stored prompt: no model and no prompt in the request": 2,
    }
