"""Recorded exchanges of Anthropic, Google and Ollama: their SDKs read in them what we read."""

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
from tests.wire.corpus import Exchange
from trace_recorder.values.messages import Payload

CORPUS = [exchange for dialect in DIALECTS for exchange in exchanges(dialect)]
pytestmark = pytest.mark.skipif(not CORPUS, reason="the corpus is absent: set TRACE_RECORDER_WIRE")


@pytest.mark.parametrize("exchange", CORPUS, ids=lambda exchange: f"{exchange.dialect}-{exchange.source}")
def test_the_sdk_reads_the_same(exchange: Exchange) -> None:
    """The SDK reads every exchange as we do, and our reading has each of its texts."""
    assert (_without_ids(exchange, our_reading(exchange)), lost(exchange)) == (sdk_reading(exchange), set())


def _without_ids(exchange: Exchange, reading: Payload) -> Payload:
    """Take the ids of tool calls out of a reading for Ollama's SDK, which does not know them."""
    if exchange.dialect == "ollama-chat" and exchange.status == 200:
        for choice in reading["choices"]:
            choice["tool_calls"] = [(None, name, arguments) for _, name, arguments in choice["tool_calls"]]
    return reading


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_recorded_stream_may_be_cut_anywhere(dialect: str) -> None:
    """The reading of a stream that is cut off is the beginning of the whole reading."""
    assert cut_wrongly(dialect) == []
