"""Reading requests one after another gives what reading each as a whole does."""

from __future__ import annotations

import json
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recording import Answer, Payload, Wire
from tests.test_draft import agrees
from trace_recorder import TrajectoryRecorder
from trace_recorder.trajectory import History

ANSWER = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}],
}
ITEMS = {
    "user": {"role": "user", "content": "and now?"},
    "text": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
    "thought": {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    "call": {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
    "nameless": {"type": "function_call", "name": "bash", "arguments": "{}"},
    "result": {"type": "function_call_output", "call_id": "c", "output": "a.py"},
    "search": {"type": "web_search_call", "id": "ws", "status": "completed"},
    "nothing": None,
}
KINDS = st.lists(st.sampled_from(sorted(ITEMS)), max_size=6)
TURNS = st.lists(st.tuples(KINDS, st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8)


def ask(recorder: TrajectoryRecorder, items: list[Payload]) -> None:
    content = json.dumps({"model": "m", "instructions": "be brief", "input": items}).encode()
    with httpx.Client(transport=Wire(Answer(json.dumps(ANSWER).encode())), trust_env=False) as client:
        recorder.wrap(client).post("https://api.openai.com/v1/responses", content=content)


@given(TURNS, st.sampled_from(["inline", "delta"]))
def test_items_that_are_one_message_with_their_neighbours(
    turns: list[tuple[list[str], int, int]], history: str
) -> None:
    """Wherever a request ends, and whatever it drops of the one before, its messages are those of the whole of it."""
    numbers = count()
    items: list[Payload] = []
    with TemporaryDirectory() as directory:
        recorder = TrajectoryRecorder(Path(directory, "run.json"), history=history, strict=True)  # type: ignore[arg-type]
        for kinds, dropped, where in turns:
            del items[where : where + dropped]
            items += [one and {**one, "status": str(next(numbers))} for one in map(ITEMS.__getitem__, kinds)]
            ask(recorder, items)
            recorder.save_trajectory()
            assert agrees(recorder)
        recorder.finalize()
        assert agrees(recorder)


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_an_item_without_a_message_parts_no_neighbours(tmp_path: Path, history: History) -> None:
    """A request whose first new item says nothing goes on with the last message before it, and changes no other."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history, strict=True)
    items: list[Payload] = [ITEMS["user"], ITEMS["thought"]]
    ask(recorder, items)
    items += [ITEMS["nothing"], ITEMS["call"]]
    ask(recorder, items)
    recorder.update_lakeview(1, "shown anew")
    recorder.finalize()

    assert agrees(recorder)


def test_a_long_conversation_costs_what_is_new_in_it(tmp_path: Path) -> None:
    """With deltas, an agent's loop over this dialect adds to the document what each call adds to the last."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta")
    items: list[Payload] = [ITEMS["user"]]
    sizes = []
    for number in range(30):
        ask(recorder, items)
        recorder.save_trajectory()
        sizes.append(recorder.trajectory_path.stat().st_size)
        called = {**ITEMS["call"], "call_id": f"c{number}"}
        items += [ITEMS["thought"], called, {**ITEMS["result"], "call_id": f"c{number}", "output": "x" * 1000}]
    recorder.finalize()

    added = [after - before for before, after in pairwise(sizes[2:])]
    assert max(added) - min(added) < 100
