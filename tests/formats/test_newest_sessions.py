"""The sessions of programs of November 2026, compared with the calls that their scripted provider answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.formats.files import check_run, real_files, runs_of
from trace_recorder.values.trajectory import Trajectory

_DIRECTORY = "newest/2026-11-28"


class Exchanged(NamedTuple):
    """The calls of a session: the agent (None for the main agent) and the output tokens of each, with thoughts.

    A failed call has no tokens.
    """

    file: str
    calls: list[tuple[str | None, int | None]]
    model: str | None = "gpt-4o"
    reasoning: list[int | None] | None = None
    task: str | None = "SCN:full Find out about the weather."


_GENERAL = "general-purpose"
_THOUGHTS = [6, 8, 0, 0, 6, 7]
EXCHANGED = [
    Exchanged(
        "codex-0.171/rollout-2026-11-28T15-49-13-*.jsonl",
        [(None, 11), (None, 13), (None, 14), ("Dewey", 15), (None, 16), ("Dewey", 17), (None, 18)],
        "gpt-5",
    ),
    Exchanged(
        "claude-2.1.332/*.jsonl",
        [(None, 11), (None, None), (None, 13), (_GENERAL, 14), (_GENERAL, 15), (None, 16), (None, 17)],
        "claude-opus-5-5",
    ),
    Exchanged(
        "copilot-1.0.102/events.jsonl",
        [(None, 11), (None, 13), (_GENERAL, 14), (_GENERAL, 15), (None, 16), (None, 17)],
        reasoning=_THOUGHTS,
    ),
    Exchanged(
        "opencode-1.18.33/opencode.db",
        [(None, 12), (None, 14), ("general", 15), ("general", 16), (None, 17), (None, 18)],
        reasoning=[7, 9, 0, 0, 7, 8],
        task='"SCN:full Find out about the weather."',
    ),
    Exchanged("kimi-2.1.0/wire.jsonl", [(None, 11), (None, None), (None, 13), (None, 14), (None, 15)], "m"),
    Exchanged(
        "pi-1.6.0/session.jsonl",
        [(None, 11), (None, None), (None, 13), (None, 14), (None, 15)],
        "m",
        reasoning=[6, None, 0, 9, 5],
    ),
    Exchanged(
        "qwen-0.24.4/chats/*.jsonl",
        [(None, 11), (None, 13), (_GENERAL, 14), (_GENERAL, 15), (None, 16), (None, 17)],
        "m",
        reasoning=_THOUGHTS,
    ),
    Exchanged(
        "cline-3.0.65/*[0-9]_*k5u8.messages.json",
        [(None, 11), (None, 13), ("subagent", 14), (None, 15), (None, 16), (None, 17)],
    ),
    Exchanged("droid-0.215/session.jsonl", [(None, None)] * 4, "custom:M-0"),
    Exchanged("cursor-agent-transcript.jsonl", [(None, None)] * 2, None, task="list files"),
    Exchanged("antigravity-cli.jsonl", [(None, None)] * 2, None, task="List the files."),
]


def _run(pattern: str, directory: Path) -> Trajectory:
    [path] = real_files(f"{_DIRECTORY}/{pattern}")
    (run,) = runs_of(path)
    return check_run(run, directory)


@pytest.mark.parametrize("exchanged", EXCHANGED, ids=[exchanged.file.partition("/")[0] for exchanged in EXCHANGED])
def test_each_call_has_the_agent_and_the_tokens_that_the_provider_counted(exchanged: Exchanged, tmp_path: Path) -> None:
    run = _run(exchanged.file, tmp_path)
    calls = run.llm_interactions
    assert [(call.agent, call.response.usage.output_tokens) for call in calls] == exchanged.calls
    assert (run.model, run.task) == (exchanged.model, exchanged.task)
    if exchanged.reasoning is not None:
        assert [call.response.usage.reasoning_tokens for call in calls] == exchanged.reasoning
    agents = {call.agent_id for call in calls if call.agent is not None}
    started = {call.parent_execution_id for call in calls if call.agent is not None}
    assert len(agents) == len(started) == len({agent for agent, _ in exchanged.calls} - {None})
    assert None not in started


def test_the_only_gap_is_the_message_whose_text_was_shortened(tmp_path: Path) -> None:
    """The requests of Claude Code are complete. The hash of the shortened message is not that of its request."""
    for exchanged in EXCHANGED:
        gaps = [gap.why for gap in _run(exchanged.file, tmp_path).gaps]
        expected = ["1 of them are lines of the session with other hashes"] * exchanged.file.startswith("claude")
        assert gaps == expected, exchanged.file
    prompts = [call.input_messages for call in _run("claude-2.1.332/*.jsonl", tmp_path).llm_interactions]
    assert [[message.role for message in prompt[:2]] for prompt in prompts] == [["system", "user"]] * 7
    assert [len(prompt) for prompt in prompts] == [3, 6, 6, 3, 6, 8, 10]


def test_a_session_of_kimi_is_named_after_its_directory(tmp_path: Path) -> None:
    [path] = real_files(f"{_DIRECTORY}/kimi-2.1.0/wire.jsonl")
    copy = tmp_path / "session_1" / "agents" / "main" / "wire.jsonl"
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    failed = _run("kimi-2.1.0/wire.jsonl", tmp_path).llm_interactions[1]
    assert [run.identity for run in runs_of(copy)] == ["session_1"]
    assert failed.error is not None
    assert (failed.error.type, failed.error.status) == ("APIProviderRateLimitError", 429)


def test_a_sub_agent_of_codex_is_found_without_the_event_that_shows_it(tmp_path: Path) -> None:
    """The output of `spawn_agent` names the thread, too."""
    for path in real_files(f"{_DIRECTORY}/codex-0.171/*"):
        lines = [line for line in path.read_text().splitlines() if "CollabAgentToolCall" not in line]
        (tmp_path / path.name).write_text("\n".join(lines))
    main, _ = sorted(tmp_path.glob("*.jsonl"))
    (run,) = runs_of(main)
    (tmp_path / "journals").mkdir()
    calls = check_run(run, tmp_path / "journals").llm_interactions
    assert [call.agent for call in calls] == [agent for agent, _ in EXCHANGED[0].calls]


def test_the_tokens_of_a_whole_session_of_droid_are_those_of_its_settings(tmp_path: Path) -> None:
    [path] = real_files(f"{_DIRECTORY}/droid-0.215/session.settings.json")
    run = _run("droid-0.215/session.jsonl", tmp_path)
    assert run.annotations["session_usage"] == json.loads(path.read_text())["tokenUsage"]
