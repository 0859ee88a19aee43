"""Compares the recorded calls with the sent and received bytes, and with the SDK's reading.

`judge` gives, for an exchange, a verdict on each aspect: True, False, or None if there is nothing to compare (an SDK
that raised has read no answer). JSON is compared as text: `1` is not `1.0`, and the order of members counts.
"""

from __future__ import annotations

import json
from typing import Any

from tests.wire.corpus import Exchange, Payload
from tests.wire.runs import Run
from tests.wire.sdk_reading import ASPECTS, Reading, read

WHOLE = ("recorded", "caller", "sent", "request", "response", "error")
COLUMNS = (*WHOLE, *ASPECTS)
Verdicts = dict[str, bool | None]


def judge(exchange: Exchange, plain: Run, recorded: Run) -> Verdicts:
    """Return the verdict on each of `COLUMNS` for an exchange that was made in both runs.

    recorded: there is exactly one interaction. caller: the caller's result is the same as without a recorder. sent: the
    server received the same bytes as without a recorder. request, response: the recorded bytes are those of the HTTP
    traffic. error: an error is recorded exactly if the server sent one. The others: our reading of the answer equals
    the SDK's.
    """
    number = exchange.number
    interactions = recorded.interactions.get(number, [])
    verdicts: Verdicts = dict.fromkeys(COLUMNS)
    verdicts["recorded"] = len(interactions) == 1
    verdicts["caller"] = recorded.outcomes[number].seen() == plain.outcomes[number].seen()
    verdicts["sent"] = recorded.received[number] == plain.received[number]
    if len(interactions) != 1:
        return verdicts
    (interaction,) = interactions
    verdicts["request"] = _same(interaction.raw_request, json.loads(recorded.received[number][-1].body))
    verdicts["response"] = _response_is_kept(exchange, interaction)
    verdicts["error"] = (interaction.error is not None) == (exchange.status >= 400)
    expected = read(exchange, plain.outcomes[number].objects)
    if expected is not None:
        found = reading_of(interaction)
        verdicts |= {aspect: _same(found[aspect], expected[aspect]) for aspect in ASPECTS}
    return verdicts


def reading_of(interaction: Any) -> Reading:
    """Return a recorded response in the form of the SDK's reading. An id that we made up is None."""
    response = interaction.response
    if not interaction.answered:
        return dict.fromkeys(ASPECTS, "no response")
    return {
        "content": response.content,
        "reasoning": response.reasoning,
        "tool_calls": [
            {"id": None if call.call_id_made_up else call.call_id, "name": call.name, "arguments": call.arguments}
            for call in response.tool_calls
        ],
        "finish_reason": response.finish_reason,
        "usage": _counts_of(response.usage),
    }


def _counts_of(usage: Any) -> Payload:
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = {name: getattr(usage, name, None) for name in (*names, "reasoning_tokens", "cost")}
    return {name: count for name, count in counts.items() if count is not None} or None


def _response_is_kept(exchange: Exchange, interaction: Any) -> bool:
    if exchange.stream:
        return bool(interaction.raw_stream == exchange.response_text)
    if not exchange.response_text:
        return not interaction.raw_stream and not interaction.raw_response
    return _same(interaction.raw_response, json.loads(exchange.response_text))


def _same(one: Payload, other: Payload) -> bool:
    return json.dumps(one) == json.dumps(other)
