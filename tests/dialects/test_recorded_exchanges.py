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
from tests.wire.corpus import Exchange
from trace_recorder.values.messages import Payload

CORPUS = [exchange for dialect in DIALECTS for exchange in exchanges(dialect)]
pytestmark = pytest.mark.skipif(not CORPUS, reason="the corpus is absent: set TRACE_RECORDER_WIRE")


@pytest.mark.parametrize("exchange", CORPUS, ids=lambda exchange: f"{exchange.dialect}-{exchange.source}")
def test_the_sdk_reads_the_same_as_we_do(exchange: Exchange) -> None:
    """The SDK reads every exchange as we do, and our reading has each text of the exchange."""
    assert (_without_ids(exchange, our_reading(exchange)), lost(exchange)) == (sdk_reading(exchange), set())


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
