"""Tools that no model asked for: exported by every format that can express them, and counted by the others."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.chat_calls import asked, call, said
from tests.formats.made import dataset_of_one
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.figures.stats import Stats
from trace_recorder.formats.left_out import UNREQUESTED_TOOLS
from trace_recorder.views import (
    View,
    to_atif,
    to_hierarchy,
    to_invariant,
    to_openai_finetuning,
    to_traces,
    to_trae,
    to_trl,
    to_turns,
)


@pytest.fixture
def recorder(tmp_path: Path) -> TrajectoryRecorder:
    """A recorder that raises failures of recording."""
    return TrajectoryRecorder(tmp_path / "run.json", task="what is tea?", strict=True)


def use(recorder: TrajectoryRecorder, name: str, result: object, *, fails: bool = False) -> None:
    """Record a run of a tool with its outcome."""
    with suppress(OSError), recorder.tool_call(name, {"q": "tea"}) as running:
        running.result = result
        if fails:
            raise OSError("no index")


def retrieval(recorder: TrajectoryRecorder) -> Trajectory:
    """Record a run that retrieves before it asks the model. The first source fails."""
    use(recorder, "web", None, fails=True)
    use(recorder, "library", ["a book"])
    call(recorder, asked("what is tea?"), said("a drink"))
    recorder.finalize()
    return load(recorder.trajectory_path)


def test_invariant_has_unrequested_tools_before_the_first_message(recorder: TrajectoryRecorder) -> None:
    """Each call has its result. Both are marked as not requested and not seen by a model."""
    messages = to_invariant(retrieval(recorder))

    assert [
        (message["role"], message["content"], message["metadata"].get("asked_by_model")) for message in messages
    ] == [
        ("assistant", None, False),
        ("tool", "OSError: no index", False),
        ("tool", '["a book"]', False),
        ("user", "what is tea?", None),
        ("assistant", "a drink", None),
    ]
    assert [(tool_call["id"], tool_call["function"]) for tool_call in messages[0]["tool_calls"]] == [
        ("tool_1", {"name": "web", "arguments": {"q": "tea"}}),
        ("tool_2", {"name": "library", "arguments": {"q": "tea"}}),
    ]
    assert [(message["tool_call_id"], message["metadata"].get("result")) for message in messages[1:3]] == [
        ("tool_1", None),
        ("tool_2", ["a book"]),
    ]


def test_atif_has_unrequested_tools_in_a_step_of_their_own(recorder: TrajectoryRecorder) -> None:
    """The step comes before the user's message, and reading it gives the same step."""
    run = retrieval(recorder)
    document = to_atif(run)

    assert [(step["step_id"], step["source"], step.get("llm_call_count")) for step in document["steps"]] == [
        (1, "agent", 0),
        (2, "user", None),
        (3, "agent", 1),
    ]
    step = document["steps"][0]
    assert [tool_call["function_name"] for tool_call in step["tool_calls"]] == ["web", "library"]
    assert [(result["source_call_id"], result["content"]) for result in step["observation"]["results"]] == [
        ("tool_1", "OSError: no index"),
        ("tool_2", '["a book"]'),
    ]


def test_unrequested_tools_of_atif_are_read_as_a_step(recorder: TrajectoryRecorder, tmp_path: Path) -> None:
    """They are read as a separate step, and not as messages that the model saw."""
    run = retrieval(recorder)
    (tmp_path / "atif.json").write_text(json.dumps(to_atif(run)))

    again = load(tmp_path / "atif.json")

    [first, second], [interaction] = again.agent_steps, again.llm_interactions
    expected = run.agent_steps[0]
    assert (first.step_number, first.state, first.error, first.derived) == (1, expected.state, expected.error, True)
    assert [(call.call_id, call.name, call.arguments) for call in first.tool_calls] == [
        (call.call_id, call.name, call.arguments) for call in expected.tool_calls
    ]
    assert [(result.success, result.result, result.error) for result in first.tool_results] == [
        (False, None, "OSError: no index"),
        (True, ["a book"], None),
    ]
    assert (second.step_number, [message.role for message in interaction.input_messages]) == (2, ["user"])


def test_unrequested_tools_of_a_sub_agent_are_in_its_trajectory(recorder: TrajectoryRecorder) -> None:
    """The sub-agent may call a model too."""
    call(recorder, asked("what is tea?"), said("let me ask"))
    with recorder.agent("librarian"):
        use(recorder, "library", ["a book"])
        call(recorder, asked("which book?"), said("that one", identity="r2"))
    recorder.finalize()

    document = to_atif(load(recorder.trajectory_path))

    [sub] = document["subagent_trajectories"]
    assert [step.get("llm_call_count") for step in document["steps"]] == [None, 1]
    assert [step.get("llm_call_count") for step in sub["steps"]] == [0, None, 1]


def test_a_run_of_tools_without_a_model_is_exported(recorder: TrajectoryRecorder) -> None:
    """The export does not make up a model that asked for the tools."""
    use(recorder, "library", ["a book"])
    recorder.finalize()
    run = load(recorder.trajectory_path)

    assert [step["llm_call_count"] for step in to_atif(run)["steps"]] == [0]
    assert [one["role"] for one in to_invariant(run)] == ["assistant", "tool"]
    assert to_turns(run) == []


def test_trae_has_a_step_for_unrequested_tools(recorder: TrajectoryRecorder) -> None:
    """The step has the names of Trae Agent's format."""
    step = to_trae(retrieval(recorder))["agent_steps"][0]

    assert (step["step_number"], step["state"], step["llm_response"]) == (1, "calling_tool", None)
    assert [tool_call["name"] for tool_call in step["tool_calls"]] == ["web", "library"]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (to_atif, 0),
        (dataset_of_one, 0),
        (to_trae, 0),
        (to_hierarchy, 2),
        (to_turns, 2),
        (to_traces, 2),
        (to_trl, 2),
        (to_openai_finetuning, 2),
    ],
    ids=["atif", "invariant", "trae", "hierarchy", "toolbrain", "traces", "trl", "openai"],
)
def test_formats_without_unrequested_tools_count_them(
    recorder: TrajectoryRecorder, view: View[..., Any], expected: int
) -> None:
    """A format that has only messages of the model reports how many tools it leaves out."""
    _, left_out = view.with_report(retrieval(recorder))

    assert left_out[UNREQUESTED_TOOLS] == expected


def test_a_step_number_of_the_agent_does_not_collide_with_derived_numbers(recorder: TrajectoryRecorder) -> None:
    """The step that an agent numbers 1 keeps its results, although derived steps are numbered from 1 too."""
    use(recorder, "library", ["a book"])
    with recorder.step(1):
        call(recorder, asked("q"), said(None, calls=[("c1", "bash", "{}")]))
        with recorder.tool_call("bash", {}) as running:
            running.result = {"out": 1}
    recorder.finalize()

    [turn] = to_turns(load(recorder.trajectory_path))

    assert turn["action_output"] == {"out": 1}


def test_stats_count_unrequested_tools(recorder: TrajectoryRecorder) -> None:
    """They are counted by the name of each tool, including failed ones."""
    figures = Stats()
    figures.add(retrieval(recorder))

    assert [(tool["name"], tool["calls"], tool["failed"]) for tool in figures.to_json()["tools"]] == [
        ("library", 1, 0),
        ("web", 1, 1),
    ]


def linted(recorder: TrajectoryRecorder) -> Trajectory:
    """Record a run with a tool that its model asked for, and a tool that the agent ran by itself."""
    call(recorder, asked("mend it"), said("I look.", calls=[("c1", "bash", "{}")]))
    with recorder.tool_call("bash", {}) as running:
        running.result = "a.py"
    use(recorder, "lint", "clean")
    answer = {"role": "assistant", "content": "I look.", "tool_calls": [CALLED]}
    given = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
    call(recorder, asked("mend it", answer, given), said("done", identity="r2"))
    recorder.finalize()
    return load(recorder.trajectory_path)


CALLED = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}


def test_atif_distinguishes_requested_and_unrequested_tools(recorder: TrajectoryRecorder, tmp_path: Path) -> None:
    """An unrequested tool within a call's step becomes a later step with name and arguments. Reading it gives
    the same.
    """
    document = to_atif(linted(recorder))

    assert [(step["source"], step.get("llm_call_count")) for step in document["steps"]] == [
        ("user", None),
        ("agent", 1),
        ("agent", 0),
        ("agent", 1),
    ]
    looked, ran = document["steps"][1:3]
    assert [result["source_call_id"] for result in looked["observation"]["results"]] == ["c1"]
    assert [(tool_call["function_name"], tool_call["arguments"]) for tool_call in ran["tool_calls"]] == [
        ("lint", {"q": "tea"})
    ]
    assert [result["content"] for result in ran["observation"]["results"]] == ["clean"]
    (tmp_path / "atif.json").write_text(json.dumps(document))
    again = load(tmp_path / "atif.json")
    assert [[(tool_call.name, tool_call.arguments) for tool_call in step.tool_calls] for step in again.agent_steps] == [
        [("bash", {})],
        [("lint", {"q": "tea"})],
        [],
    ]
    assert to_atif(again) == document


def test_a_pi_session_has_only_requested_results(recorder: TrajectoryRecorder) -> None:
    """Pi's sessions cannot express a result without a call. The result is counted, and not exported."""
    [session], left_out = to_traces.with_report(linted(recorder))

    messages = [line["message"] for line in session if line["type"] == "message"]
    assert [message["toolName"] for message in messages if message["role"] == "toolResult"] == ["bash"]
    assert left_out[UNREQUESTED_TOOLS] == 1
