"""Replayed calls, and tools that were not run, take no time in any figure."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

import trace_recorder
from tests.provider import chat_chunk, serving, stream
from tests.rerun.runs import client
from trace_recorder import TrajectoryRecorder, diff, load, replay, to_dataframe
from trace_recorder.figures.stats import Stats
from trace_recorder.formats.hierarchy.writing import to_hierarchy
from trace_recorder.formats.inspect_ai.writing import to_inspect
from trace_recorder.formats.spans.writing.spans import to_spans

LONG = "word " * 30_000
"""A text of more bytes than recording keeps in memory, so that the stream is recorded in parts."""


@trace_recorder.tool
def count(word: str) -> int:
    """Count letters."""
    return len(word)


def work(made: openai.OpenAI) -> None:
    """Make a streamed call, and run a tool."""
    question = {"role": "user", "content": "one"}
    list(made.chat.completions.create(model="m", messages=[question], stream=True))  # type: ignore[call-overload]
    count("one")


@pytest.fixture
def again(tmp_path: Path) -> Path:
    """Record a replay of such a run."""
    first, again = tmp_path / "first.json", tmp_path / "again.json"
    chunks = [chat_chunk("hi"), chat_chunk(LONG), chat_chunk("you"), chat_chunk(None, "stop"), b"data: [DONE]\n\n"]
    with serving(stream(*chunks)) as server, TrajectoryRecorder(first, strict=True) as recorder:
        work(recorder.wrap(client(f"{server.url}/v1")))
    with replay(first) as run, TrajectoryRecorder(again, strict=True) as recorder:
        work(recorder.wrap(run.wrap(client())))
    return again


def test_replayed_calls_and_tools_take_no_time(again: Path) -> None:
    """No figure and no row has a time or an attempt of them, although the records do."""
    run, stats = load(again), Stats()
    stats.add(run)
    [call] = to_dataframe(run, library="polars").to_dicts()
    [tool] = to_dataframe(run, of="tool_calls", library="polars").to_dicts()
    times = to_hierarchy(run)["execution_metrics"]

    assert run.llm_interactions[0].duration_seconds is not None
    assert [one.duration_seconds is None for step in run.agent_steps for one in step.tool_results] == [False]
    assert {*stats.to_json()["seconds"]} == {"total"}
    assert [stats.to_json()["tools"][0].get(name) for name in ("calls", "seconds")] == [0, None]
    assert diff(run, run).a.figures.llm_seconds is None
    assert [call[name] for name in ("duration_seconds", "time_to_first_token_seconds", "attempts")] == [None, None, 0]
    assert (tool["duration_seconds"], tool["is_replayed"]) == (None, True)
    assert (times["env_time"], times["llm_time"]) == (None, None)


def test_spans_and_logs_give_replayed_tools_no_time(again: Path) -> None:
    """The tools are marked and get no time, because readers of both formats add up times."""
    run = load(again)
    [span] = [span for span in to_spans(run) if span.name == "execute_tool count"]
    [event] = [event for event in to_inspect(run)["samples"][0]["events"] if event["event"] == "tool"]

    assert (dict(span.attributes)["trace_recorder.replayed"], span.end - span.start) == (True, 0)
    assert (event["metadata"], event["completed"], event.get("working_time")) == (
        {"replayed": True},
        event["timestamp"],
        None,
    )


def test_an_incomplete_replayed_stream_keeps_its_source(again: Path) -> None:
    """A process that is killed during the answer leaves its first parts, which name the recorded call."""
    journal = again.with_suffix(".jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if '"llm_response"' in line)
    cut = journal.with_name("cut.jsonl")
    cut.write_text("".join(lines[:end]))

    [call] = load(cut).llm_interactions
    assert not call.complete
    assert call.response.content
    assert call.replayed_from == load(again).llm_interactions[0].replayed_from is not None
