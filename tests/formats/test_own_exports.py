"""Runs that are exported and read again: the same calls, arguments, results and tokens, if the format has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.formats.made import assistant, call, run, system
from tests.formats.runs import every
from trace_recorder import Trajectory, load
from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.content.chat_form import result_text, text_lines
from trace_recorder.formats.any_file import load_each
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace
from trace_recorder.values.token_counts import counts_of

ASPECTS = ("prompts", "answers", "calls", "results", "tokens")
RUNS = (
    *("tools", "thinking", "gemini", "local", "responses", "streamed", "images", "own_steps", "compacted"),
    *("sub_agents", "code_agent"),
)
EXPORTS = ("atif", "hierarchy", "inspect", "invariant", "otlp", "traces", "session-traces")
LOST: dict[tuple[str, str], set[str]] = {
    ("session-traces", "*"): {"tokens"},  # members that the format does not have
    ("invariant", "streamed"): {
        "prompts"
    },  # a call has fewer messages than the model saw, because the format has each event once
    ("invariant", "compacted"): {"prompts"},  # likewise
    ("traces", "images"): {"prompts"},  # an image with a URL is read as text
}
"""By export and run: what is not read back."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trajectory]:
    return {name: load(path) for name, path in every(tmp_path_factory.mktemp("runs")).items() if name in RUNS}


@pytest.mark.parametrize("told", RUNS)
@pytest.mark.parametrize("name", EXPORTS)
def test_the_exchanged_content_is_read_back(name: str, told: str, runs: dict[str, Trajectory], tmp_path: Path) -> None:
    """Each answer has its calls with their arguments, the tools' results, and its tokens."""
    before, after = facts([runs[told]]), facts([*exported_and_read(name, runs[told], tmp_path)])

    lost = LOST.get((name, told), LOST.get((name, "*"), set()))
    assert {aspect: after[aspect] for aspect in ASPECTS if aspect not in lost} == {
        aspect: before[aspect] for aspect in ASPECTS if aspect not in lost
    }
    assert all(before[aspect] != after[aspect] for aspect in lost if before[aspect])


def test_the_facts_of_tool_calls_come_back_from_invariant(runs: dict[str, Trajectory], tmp_path: Path) -> None:
    """The view changes ids that occur twice, and writes made-up ids and other members into metadata."""
    interactions = [*runs["gemini"].llm_interactions, *runs["local"].llm_interactions]
    run = Trajectory(llm_interactions=interactions)
    [read] = exported_and_read("invariant", run, tmp_path)

    assert _tool_calls(read) == _tool_calls(run)
    assert [call_id for call_id, *_ in _tool_calls(run)].count("call_0") == 2
    assert any(extra for *_, extra in _tool_calls(run))


@pytest.mark.parametrize("told", ["tools", "in_flight"])
def test_metadata_does_not_grow_from_invariant(told: str, tmp_path: Path) -> None:
    """Facts that are derived again, such as the metrics, do not come back as metadata."""
    run = load(every(tmp_path)[told])
    [read] = exported_and_read("invariant", run, tmp_path)

    assert read.metadata.keys() - {"imported_from"} == run.metadata.keys()


def _tool_calls(run: Trajectory) -> list[tuple[str, bool, Any]]:
    calls = (call for interaction in run.llm_interactions for call in interaction.response.tool_calls)
    return [(call.call_id, call.call_id_made_up, call.extra) for call in calls]


@pytest.mark.parametrize("name", EXPORTS)
def test_no_answer_is_read_back_twice(name: str, tmp_path: Path) -> None:
    """Two conversations begin with the same answer, and one prompt has an answer that an agent put into it."""
    before = [system("s"), "q", assistant("a")]
    made = run(
        call(before[:2], "a"),
        call([*before, "x?"], "x"),
        call([*before, "y?"], "y"),
        call([system("s"), "q", assistant("other"), "z?"], "z"),
    )

    assert facts([*exported_and_read(name, made, tmp_path)])["answers"] == ["a", "x", "y", "z"]


def facts(trajectories: list[Trajectory]) -> dict[str, list[Any]]:
    """Return the content of runs in an order that does not depend on the format, without white space."""
    calls = [one for trajectory in trajectories for one in trajectory.llm_interactions]
    counts = [counts_of(call) for call in calls]
    seen = {
        (message.call_id, text_lines(message))
        for call in calls
        for message in call.input_messages
        if message.role == "tool"
    }
    steps = [step for trajectory in trajectories for step in trajectory.agent_steps]
    shown = {call_id for call_id, _ in seen}
    unseen = {
        (one.call_id, result_text(one)) for step in steps for one in step.tool_results if one.call_id not in shown
    }
    return {
        "answers": sorted(call.response.content or "" for call in calls),
        "calls": sorted((call.name, json.dumps(call.arguments)) for one in calls for call in one.response.tool_calls),
        "prompts": sorted(
            [[message.role, "".join(text_of(message).split())] for message in call.input_messages] for call in calls
        ),
        "results": sorted(seen | unseen),
        "tokens": sorted(
            (count.prompt or 0, count.completion or 0, count.cache_read or 0) for count in counts if count
        ),
    }


def exported_and_read(name: str, trajectory: Trajectory, directory: Path) -> Iterator[Trajectory]:
    pieces, _ = EXPORT_FORMATS[name].outputs(
        EXPORT_FORMATS[name].with_options(), trajectory, OutputPlace("run", directory)
    )
    for number, (_, content) in enumerate(pieces):
        path = directory / f"export-{number}.json"
        lines = content if EXPORT_FORMATS[name].kind == "sessions" else [content]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        yield from load_each(path)
