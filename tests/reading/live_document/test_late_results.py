"""Results that come long after their calls, when only the positions of the calls are in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.agreement import agrees, document
from tests.chat_calls import CHAT, asked, call, said
from tests.counting import calls
from tests.limits import limited
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.values.messages import Payload

READ_TWICE = limited(document=DocumentLimits(kept_bytes=0))


def conversation(number: int) -> list[Payload]:
    return [{"role": "user", "content": f"conversation {number}"}]


def answered(number: int) -> list[Payload]:
    asking = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number}"}
    return [*conversation(number), {"role": "assistant", "tool_calls": [asking]}, result]


@pytest.mark.parametrize("order", ["the oldest first", "the newest first"])
def test_many_open_calls_get_their_results(tmp_path: Path, order: str) -> None:
    """Each of many open calls has its result in the document, in whichever order the results come."""
    recorder = READ_TWICE(tmp_path / "run.json")
    recorder.start()
    for number in range(40):
        asks = said(None, identity=f"r{number}", calls=[(f"c{number}", "bash", "{}")])  # type: ignore[arg-type]
        call(recorder, asked(*conversation(number)), asks)
        recorder.save_trajectory()
    for number in range(40) if order == "the oldest first" else reversed(range(40)):
        call(recorder, asked(*answered(number)), said("done", identity=f"s{number}"))
        recorder.save_trajectory()
    recorder.finalize()

    steps = document(recorder)["agent_steps"]
    assert [step["tool_results"][0]["result"] for step in steps[:40]] == [f"result {number}" for number in range(40)]
    assert agrees(recorder)


class _AtOnce(httpx.AsyncBaseTransport):
    """A transport that answers no request before a number of requests have arrived."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._have_come = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._missing -= 1
        if not self._missing:
            self._have_come.set()
        await self._have_come.wait()
        return httpx.Response(200, headers={"content-type": "application/json"}, content=said("done").body)


def _cost_of_end(directory: Path, at_once: int) -> float:
    """Return how many functions the end of a run calls for each of this many calls that were open at once."""
    recorder = READ_TWICE(directory / f"{at_once}.json")
    recorder.start()

    async def ask() -> None:
        async with recorder.wrap(httpx.AsyncClient(transport=_AtOnce(at_once))) as client:
            bodies = [asked(*conversation(number)) for number in range(at_once)]
            await asyncio.gather(*[client.post(CHAT, json=body) for body in bodies])

    asyncio.run(ask())
    taken = calls(recorder.finalize)
    assert len(document(recorder)["llm_interactions"]) == at_once
    return taken / at_once


def test_the_end_of_a_run_costs_each_open_call_the_same(tmp_path: Path) -> None:
    _cost_of_end(tmp_path, 3)
    assert _cost_of_end(tmp_path, 100) < 3 * _cost_of_end(tmp_path, 4)
