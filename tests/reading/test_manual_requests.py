"""Calls recorded by hand are stored and shown like captured calls."""

from __future__ import annotations

import json
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agreement import agrees, document
from tests.chat_calls import Answer, Wire
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import History

MESSAGES: tuple[Payload, ...] = (
    {"role": "user", "content": "and now?"},
    {"role": "assistant", "content": None, "tool_calls": [{"name": "bash", "arguments": {}}]},
    {"role": "user", "tool_result": {"call_id": "c", "success": True, "result": "a.py"}},
    {"content": "yes", "role": "assistant"},
    "a text",
    None,
)
TURNS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(MESSAGES), max_size=4),
        st.integers(0, 2),
        st.integers(0, 9),
        st.sampled_from(["alone", "captured before", "captured after"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def capture(recorder: TrajectoryRecorder, identity: str) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    answer = Answer(json.dumps({"id": identity, "object": "chat.completion", "choices": [choice]}).encode())
    with httpx.Client(transport=Wire(answer), trust_env=False) as client:
        messages = [{"role": "user", "content": "and now?"}]
        recorder.wrap(client).post("https://api.openai.com/v1/chat/completions", json={"messages": messages})


@given(TURNS, st.sampled_from(["inline", "delta"]))
def test_changed_histories_are_read_back(
    turns: list[tuple[list[Payload], int, int, str, bool]], history: History
) -> None:
    """The document equals the journal, whatever is removed from a history, and if some calls are captured too."""
    numbers = count()
    messages: list[Payload] = []
    with TemporaryDirectory() as directory:
        recorder = TrajectoryRecorder(Path(directory, "run.json"), history=history, strict=True)
        for added, dropped, where, captured, saved in turns:
            del messages[where : where + dropped]
            messages += [{**one, "name": str(next(numbers))} if isinstance(one, dict) else one for one in added]
            identity = f"resp_{next(numbers)}"
            if captured == "captured before":
                capture(recorder, identity)
            recorder.record_llm_interaction(messages, {"id": identity, "content": "yes"}, "openai", "m")
            if captured == "captured after":
                capture(recorder, identity)
            if saved:
                recorder.save_trajectory()
                assert agrees(recorder)
        recorder.finalize()
        assert agrees(recorder)
        assert validate(recorder.trajectory_path).ok


@pytest.mark.parametrize("history", ["auto", "delta"])
def test_each_call_of_a_long_run_costs_its_new_messages(tmp_path: Path, history: str) -> None:
    """With deltas, each call adds as much to the document as the previous call."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history)  # type: ignore[arg-type]
    messages: list[Payload] = []
    for number in range(120):
        messages.append({"role": "user", "content": f"{number:3} {'x' * 3000}"})
        recorder.record_llm_interaction(messages, {"content": "yes"}, "openai", "m")
    recorder.finalize()

    written = document(recorder)
    assert written["history"] == "delta"
    deltas = [call["input_messages_delta"] for call in written["llm_interactions"]]
    assert [delta["kept"] for delta in deltas] == [*range(120)]
    assert [len(delta["messages"]) for delta in deltas] == [1] * 120
    assert agrees(recorder)


def test_a_delta_refers_to_a_shown_call(tmp_path: Path) -> None:
    """A call that was captured too is not shown twice. The next delta refers to a shown call, and is not longer for
    that.
    """
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta")
    messages: list[Payload] = []
    for number in range(6):
        messages.append({"role": "user", "content": f"{number} {'x' * 2000}"})
        if number % 2:
            capture(recorder, f"resp_{number}")
        recorder.record_llm_interaction(messages, {"id": f"resp_{number}", "content": "yes"}, "openai", "m")
    recorder.finalize()

    by_hand = [call for call in document(recorder)["llm_interactions"] if call["api"] is None]
    assert [one["input_messages_delta"]["kept"] for one in by_hand] == [0, 1, 3]
    bases = [one["input_messages_delta"]["since"] for one in by_hand[1:]]
    assert bases == [one["interaction_id"] for one in by_hand[:-1]]
    assert agrees(recorder)


def test_a_loaded_run_has_each_message_once(tmp_path: Path) -> None:
    """Calls share the messages and tools that they have in common. Loading them a second time creates none."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    messages: list[Payload] = []
    for number in range(4):
        messages.append({"role": "user", "content": str(number)})
        recorder.record_llm_interaction(messages, {"content": "yes"}, "openai", "m", [{"name": "bash"}])
    recorder.finalize()

    calls = load(recorder.trajectory_path).llm_interactions
    assert calls[-1].input_messages is calls[-1].input_messages
    for one, other in pairwise(calls):
        assert other.input_messages[:-1] == one.input_messages
        assert all(mine is theirs for mine, theirs in zip(one.input_messages, other.input_messages, strict=False))
        assert one.tools[0] is other.tools[0]
