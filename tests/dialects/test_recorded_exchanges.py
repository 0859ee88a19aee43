"""Recorded exchanges of Anthropic, Google and Ollama: their SDKs read the same as we do."""

from __future__ import annotations

import pytest

from tests.dialects.table_anthropic_google_ollama import (
    DIALECTS,
    cut_wrongly,
    exchanges,
    lost,
    our_reading,
    sdk_reading,
)
from tests.wire.corpus import DIRECTORY, Exchange
from trace_recorder.values.messages import Payload

pytestmark = pytest.mark.skipif(not DIRECTORY.is_dir(), reason="the corpus is absent: set TRACE_RECORDER_WIRE")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_sdk_reads_the_same_as_we_do(dialect: str) -> None:
    """The SDK reads every exchange as we do, and our reading has each text of the exchange."""
    ours, theirs = {}, {}
    for exchange in exchanges(dialect):
        ours[exchange.source] = _without_ids(exchange, our_reading(exchange)), lost(exchange)
        theirs[exchange.source] = sdk_reading(exchange), set()

    assert len(ours) == len(exchanges(dialect)) > 0
    assert ours == theirs


def _without_ids(exchange: Exchange, reading: Payload) -> Payload:
    """Remove the ids of tool calls from a reading, because Ollama's SDK does not know them."""
    if exchange.dialect == "ollama-chat" and exchange.status == 200:
        for choice in reading["choices"]:
            choice["tool_calls"] = [(None, name, arguments) for _, name, arguments in choice["tool_calls"]]
    return reading


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_recorded_stream_may_be_cut_anywhere(dialect: str) -> None:
    """The reading of a cut stream is a beginning of the whole reading."""
    assert cut_wrongly(dialect) == []
