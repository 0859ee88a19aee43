"""Results that come after the document listed a call as finished, since too many others waited."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement import agrees, document
from tests.chat_calls import asked, call, said
from tests.limits import limited
from trace_recorder.derive.live_document.limits import DocumentLimits
from trace_recorder.values.messages import Payload

FEW = limited(document=DocumentLimits(min_open=1, max_waiting=4))


def conversation(number: int) -> list[Payload]:
    return [{"role": "user", "content": f"conversation {number}"}]


def answered(number: int) -> list[Payload]:
    asking = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number}"}
    return [*conversation(number), {"role": "assistant", "tool_calls": [asking]}, result]


@pytest.mark.parametrize("order", ["the oldest first", "the newest first"])
def test_results_of_many_open_calls(tmp_path: Path, order: str) -> None:
    """Each of many calls that waited at the same time has its result in the document, in whichever order they come."""
    recorder = FEW(tmp_path / "run.json")
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
