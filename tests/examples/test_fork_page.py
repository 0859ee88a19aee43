"""The page docs/fork.md: its blocks run unchanged, on a run of two calls."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.environment import environment
from tests.examples.test_readme import alike
from tests.processes import ROOT
from tests.provider import serving
from tests.rerun.runs import said
from trace_recorder import load

BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "fork.md").read_text(encoding="utf-8"), re.DOTALL)
AGENT = BLOCKS.pop(0)[1]
RECORDING = """
import openai
from trace_recorder import TrajectoryRecorder
with TrajectoryRecorder("trajectories/run.json") as recorder:
    run_my_agent(recorder.wrap(openai.OpenAI()))
"""
LEFT = (
    (["one", "live", "live"], ["gpt-4o", "gpt-4o"]),
    (["one", "Ask me again.", "live"], ["gpt-4o-mini"]),
)
"""For each block, the model's answers in its run, and the models that were called."""


def test_every_block_is_run() -> None:
    """The tests know every block of the page."""
    assert [language for language, _ in BLOCKS] == ["python"] * len(LEFT) + ["console"]


def test_the_commands_print_the_shown_lines(tmp_path: Path) -> None:
    """Each command of the transcript prints the shown lines, also on stderr, for an agent of three calls."""
    agent = f"import openai\n{AGENT}\nrun_my_agent(openai.OpenAI())\n"
    (tmp_path / "agent.py").write_text(agent)
    transcript = BLOCKS[-1][1]
    printed = []
    with serving(said("one"), said("two"), said("three"), said("live")) as server:
        surroundings = environment(server.url, tmp_path)
        surroundings.pop("COLUMNS", None)
        for command in [line for line in transcript.splitlines() if line.startswith("$ ")]:
            run = ["sh", "-c", f"{command.removeprefix('$ ')} 2>&1"]
            done = subprocess.run(run, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
            printed += [command, *done.stdout.splitlines()]
        models = [json.loads(body)["model"] for _, _, body in server.requests]

    assert list(map(alike, printed)) == list(map(alike, transcript.splitlines()))
    assert models == ["gpt-4o-mini"] * 3 + ["gpt-4o"] * 2


@pytest.mark.parametrize("number", range(len(LEFT)))
def test_a_block_forks_a_run(number: int, tmp_path: Path) -> None:
    """Each block's fork replays the first call, sends the second or answers it by hand, and sends the third."""
    with serving(said("one"), said("two"), said("three"), said("live")) as server:
        surroundings = environment(server.url, tmp_path)
        for code in (RECORDING, BLOCKS[number][1]):
            subprocess.run([sys.executable, "-c", AGENT + code], cwd=tmp_path, env=surroundings, check=True)
        models = [json.loads(body)["model"] for _, _, body in server.requests[3:]]

    [child] = [path for path in (tmp_path / "trajectories").glob("*.json") if path.name != "run.json"]
    said_in_it = [call.response.content for call in load(child).llm_interactions if call.response]
    assert (said_in_it, models) == LEFT[number]
