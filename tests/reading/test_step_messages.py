"""The messages of recorded steps are stored, shown and read like those of calls."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agreement import agrees, document
from tests.limits import limited
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.document import from_document
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.reading.validate import validate
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import History

MESSAGES: tuple[Payload, ...] = (
    {"role": "user", "content": "and now?"},
    {"role": "assistant", "content": None, "tool_calls": [{"name": "bash", "arguments": {}}]},
    {"content": "yes", "role": "assistant"},
    "a text",
    None,
)
FORMS = ("alone", "in a block", "twice in a block", "beside a block", "without messages", "as a call too")
TURNS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(MESSAGES), max_size=4),
        st.integers(0, 2),
        st.integers(0, 9),
        st.sampled_from(FORMS),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def record(recorder: TrajectoryRecorder, number: int, messages: list[Payload], form: str) -> None:
    if form == "as a call too":
        recorder.record_llm_interaction(messages, {"content": "yes"}, "openai", "m")
    if form in {"alone", "without messages", "as a call too"}:
        recorder.record_agent_step(number, "thinking", None if form == "without messages" else messages)
        return
    with recorder.step(number):
        recorder.record_agent_step(number, "thinking", messages[: len(messages) // 2] if "twice" in form else messages)
        if form == "twice in a block":
            recorder.record_agent_step(number, "thinking", messages)
        if form == "beside a block":
            recorder.record_agent_step(number + 1000, "thinking", [*messages, {"role": "user", "content": "beside"}])
            recorder.record_agent_step(number, "thinking", [*messages, {"role": "user", "content": "again"}])


@given(st.sampled_from(["inline", "delta", "auto"]), TURNS)
def test_changed_histories_are_read_back(
    history: History, turns: list[tuple[list[Payload], int, int, str, bool]]
) -> None:
    """The document equals the journal, whatever is removed from a history, and wherever a step is recorded."""
    numbers = count(1)
    messages: list[Payload] = []
    with TemporaryDirectory() as directory:
        recorder = limited(document=DocumentLimits(inline_bytes=3000))(
            Path(directory, "run.json"), history=history, strict=True
        )
        recorder.start()
        for added, dropped, where, form, saved in turns:
            del messages[where : where + dropped]
            messages += [{**one, "name": str(next(numbers))} if isinstance(one, dict) else one for one in added]
            record(recorder, next(numbers), messages, form)
            if saved:
                recorder.save_trajectory()
                assert agrees(recorder)
        recorder.finalize()
        assert agrees(recorder)
        assert validate(recorder.trajectory_path).ok
        run = load(recorder.trajectory_path)
        again = from_document(run.to_document("delta"), "a document")
        assert [step.messages for step in again.agent_steps] == [step.messages for step in run.agent_steps]
        of_document = from_document(document(recorder), "the document")
        assert [step.messages for step in of_document.agent_steps] == [step.messages for step in run.agent_steps]


def growing(recorder: TrajectoryRecorder, turns: int, *, block: bool) -> None:
    messages: list[Payload] = []
    for number in range(turns):
        messages.append({"role": "user", "content": f"{number:3} {'x' * 3000}"})
        record(recorder, number + 1, messages, "in a block" if block else "alone")
    recorder.finalize()


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("history", ["auto", "delta"])
def test_each_step_of_a_long_run_costs_its_new_messages(tmp_path: Path, history: History, block: bool) -> None:  # noqa: FBT001
    """With deltas, each step adds as much to the document as the previous step."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history)
    growing(recorder, 120, block=block)

    written = document(recorder)
    assert written["history"] == "delta"
    deltas = [step["llm_messages_delta"] for step in written["agent_steps"]]
    assert [delta["kept"] for delta in deltas] == [*range(120)]
    assert [len(delta["messages"]) for delta in deltas] == [1] * 120
    assert [delta["since"] for delta in deltas[1:]] == [delta["id"] for delta in deltas[:-1]]
    assert agrees(recorder)


def test_a_small_document_has_all_messages_of_each_step(tmp_path: Path) -> None:
    """Below the limit, `llm_messages` is the complete list."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    growing(recorder, 3, block=False)

    assert [len(step["llm_messages"]) for step in document(recorder)["agent_steps"]] == [1, 2, 3]


def test_a_loaded_run_has_each_message_once(tmp_path: Path) -> None:
    """Steps and calls share the messages that they have in common."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    messages: list[Payload] = []
    for number in range(4):
        messages.append({"role": "user", "content": str(number)})
        record(recorder, number, messages, "as a call too")
    recorder.finalize()

    run = load(recorder.trajectory_path)
    lists = [step.messages or () for step in run.agent_steps] + [call.input_messages for call in run.llm_interactions]
    assert len({id(message) for messages in lists for message in messages}) == 4


def test_a_difference_in_a_step_is_found(tmp_path: Path) -> None:
    """If a document's delta differs from the journal, `validate` reports an error with its place."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta")
    growing(recorder, 3, block=False)
    written = document(recorder)
    written["agent_steps"][2]["llm_messages_delta"]["messages"][0]["content"] = "other"
    recorder.trajectory_path.write_text(json.dumps(written))

    [finding] = [finding for finding in validate(recorder.trajectory_path).findings if finding.severity == "error"]
    assert "agent_steps[2].llm_messages[2].content" in finding.what


def test_a_step_recorded_in_its_block_has_its_response(tmp_path: Path) -> None:
    """What the agent records inside the block of a step is in the step, also a response, and there is no gap."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder, recorder.step(3):
        recorder.record_agent_step(3, "completed", [MESSAGES[0]], {"content": "a"}, reflection="good")

    run = load(recorder.trajectory_path)
    [step] = run.agent_steps
    assert (step.reflection, step.llm_response and step.llm_response.content, run.gaps) == ("good", "a", ())
