"""Invariant's view: messages in the order of time, datasets, and uploads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.formats.sdk_conversations import PIXEL
from trace_recorder import Trajectory
from trace_recorder.formats.invariant.writing import to_invariant, to_invariant_dataset

Trajectories = Mapping[str, Trajectory]


def _bare(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in message.items() if name != "metadata"} for message in messages]


def _call(name: str, tool: str, **arguments: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}


def _said(text: str | None, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | ({"tool_calls": list(calls)} if calls else {})


def _tool(name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": name, "id": name}


SYSTEM = {"role": "system", "content": "You answer in one sentence."}


def test_each_message_of_a_conversation_is_written_once(trajectories: Trajectories) -> None:
    """Four calls, each of which repeats the history, are ten messages."""
    assert _bare(to_invariant(trajectories["tools"])) == [
        SYSTEM,
        {"role": "user", "content": "Is it warmer in Ulm or in Rome?"},
        _said("I look.", _call("call_1", "weather", city="Ulm"), _call("call_2", "weather", city="Rome")),
        _tool("call_1", '{"celsius": 7}'),
        _tool("call_2", "Error: no such city"),
        _said("Ulm has 7 °C."),
        {"role": "user", "content": "And in Bonn?"},
        _said(None, _call("call_3", "weather", city="Bonn")),
        _tool("call_3", "9"),
        _said("9 °C."),
    ]


def test_a_rewritten_history_adds_only_its_new_messages(trajectories: Trajectories) -> None:
    """If a history is compacted, only the summary is added."""
    told = _bare(to_invariant(trajectories["compacted"]))

    assert [one["content"] for one in told] == [
        "You answer in one sentence.",
        "Is it warmer in Ulm or in Rome?",
        None,
        "7",
        "7, so far.",
        "Summary: Ulm has 7 °C. Go on.",
        None,
        "31",
        "Rome.",
    ]


def test_messages_of_sub_agents_are_in_the_order_of_time(trajectories: Trajectories) -> None:
    """The researcher's messages are between the planner's call and its result, and name the researcher."""
    messages = to_invariant(trajectories["sub_agents"])

    assert [(message["role"], message["metadata"]["agent"]) for message in messages] == [
        ("system", "planner"),
        ("user", "planner"),
        ("assistant", "planner"),
        ("user", "researcher"),
        ("assistant", "researcher"),
        ("tool", "researcher"),
        ("assistant", "researcher"),
        ("tool", "planner"),
        ("assistant", "planner"),
    ]


def test_images_as_data_are_exported_and_others_are_named(trajectories: Trajectories) -> None:
    """The format has only data URIs. The URL of an image on the web is in the metadata."""
    shown = to_invariant(trajectories["images"])[0]

    assert shown["content"] == [
        {"type": "text", "text": "The same?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "text", "text": "[image: https://example.org/a.png]"},
    ]
    assert shown["metadata"] == {"parts": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}


def test_metadata_has_what_messages_cannot_express(trajectories: Trajectories) -> None:
    """The metadata has thoughts, failures of tools, and the objects that tools returned."""
    thinking, own_steps = (to_invariant(trajectories[run]) for run in ("thinking", "own_steps"))

    assert thinking[2]["metadata"]["reasoning"] == "A red pixel."
    assert thinking[4]["metadata"] == {"is_error": True}
    assert own_steps[3]["metadata"] == {"result": {"celsius": 7, "wind": [1, 2]}}


def test_results_that_no_model_saw_are_exported(trajectories: Trajectories) -> None:
    """A result that was recorded by its tool is an event, even if no request has it."""
    [*_, last] = to_invariant(trajectories["steps_alone"])

    assert last == {**_tool("c1", "denied"), "metadata": last["metadata"]}
    assert last["metadata"] == {"name": "bash", "is_error": True, "shown_to_model": False}


def test_ids_are_unique_within_a_run(trajectories: Trajectories) -> None:
    """Ids that a dialect's reader made up repeat in the next conversation. The export changes them, because readers
    pair by id.
    """
    twice = Trajectory(
        llm_interactions=[*trajectories["local"].llm_interactions, *trajectories["gemini"].llm_interactions]
    )
    messages = to_invariant(twice)

    assert [call["id"] for message in messages for call in message.get("tool_calls", ())] == [
        "call_0",
        "call_0#2",
        "call_1",
    ]
    assert [message["id"] for message in messages if message["role"] == "tool"] == ["call_0", "call_0#2", "call_1"]


@pytest.mark.parametrize(
    ("run", "roles"),
    [("empty", []), ("failed", ["system", "user"]), ("interrupted", ["system", "user", "assistant", "tool"])],
)
def test_runs_of_every_state_are_exported(trajectories: Trajectories, run: str, roles: list[str]) -> None:
    """An empty run has no message, a failed call has its question, and an interrupted run has everything so far."""
    assert [one["role"] for one in to_invariant(trajectories[run])] == roles


def test_a_dataset_begins_with_its_metadata(trajectories: Trajectories) -> None:
    """After the metadata, each run is an object of one line with all five members."""
    first, *lines = map(
        json.loads, to_invariant_dataset([trajectories["tools"], trajectories["failed"]], {"accuracy": 0.5})
    )

    assert first == {"metadata": {"accuracy": 0.5}}
    assert [list(line) for line in lines] == [["messages", "annotations", "metadata", "index", "name"]] * 2
    assert [(line["index"], line["name"]) for line in lines] == [
        (0, trajectories["tools"].trajectory_id),
        (1, trajectories["failed"].trajectory_id),
    ]
    assert lines[0]["messages"] == to_invariant(trajectories["tools"])
    assert (lines[0]["metadata"]["metadata"], lines[0]["metadata"]["success"]) == ({"seed": 7}, True)
    assert lines[1]["metadata"]["failed_calls"][0]["error"]["message"] == "too long"


def test_annotations_have_addresses(trajectories: Trajectories) -> None:
    """A step's reward has the address of the model's message. Rewards and annotations of the run have the address of
    the root.
    """
    [line] = map(json.loads, to_invariant_dataset([trajectories["tools"]]))

    assert [(annotation["address"], annotation["content"]) for annotation in line["annotations"]] == [
        ("<root>", '{"score": 3}'),
        ("<root>", "correct: 1.0 (both were right)"),
        ("messages.2", "short: 0.5"),
    ]


def test_other_contents_of_steps_are_annotations(trajectories: Trajectories) -> None:
    """Reflections, errors and summaries of steps are annotations."""
    [line] = map(json.loads, to_invariant_dataset([trajectories["by_hand"]]))

    assert [(annotation["address"], annotation["content"]) for annotation in line["annotations"]] == [
        ("messages.1", "looked"),
        ("<root>", "again"),
        ("<root>", "ValueError: bad"),
    ]
