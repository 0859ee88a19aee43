"""docs/agents.md and the skill: every configuration starts the server, and every command runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.invoking import invoke
from tests.examples.environment import environment
from tests.mcp_server.agents_page import PAGE, configuration, written_configuration
from tests.mcp_server.connecting import connected_to
from tests.processes import ROOT
from tests.viewer.recorded import growing, record
from trace_recorder.mcp_server.answers import DEFAULT_CHARACTERS, MAX_CHARACTERS
from trace_recorder.mcp_server.tools import TOOLS

SKILL = (ROOT / "trace_recorder" / "cli" / "SKILL.md").read_text(encoding="utf-8")
PROGRAMS = ("Claude Code", "Codex", "Cursor")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", SKILL, re.DOTALL) for line in block.splitlines()]


def test_a_configuration_starts_the_server(tmp_path: Path) -> None:
    """The command in each program's configuration is an MCP server for the directory."""
    record(tmp_path / "run.json", growing(1))
    commands = {_command(program, tmp_path) for program in PROGRAMS}
    for command in commands:
        with connected_to(command) as client:
            assert [row["id"] for row in client.data("list_runs")["runs"]] == ["run.json"]

    assert len(commands) > 0


def _command(program: str, runs: Path) -> tuple[str, ...]:
    """Return the command in a program's configuration."""
    text = written_configuration(program, runs)
    read: dict[str, Any] = tomllib.loads(text)["mcp_servers"] if program == "Codex" else json.loads(text)["mcpServers"]
    return read["runs"]["command"], *read["runs"]["args"]


def test_the_page_has_each_configuration_and_tool() -> None:
    """Each block of the page is one that a test runs, and the page names every tool and both sizes of an answer."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)

    assert [text for language, text in blocks if language != "sh"] == [configuration(program) for program in PROGRAMS]
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [*TOOLS]
    assert f"{DEFAULT_CHARACTERS:,}" in PAGE
    assert f"{MAX_CHARACTERS:,}" in PAGE


def test_the_skill_is_saved_as_the_page_says(tmp_path: Path) -> None:
    """The commands of the page write the skill, whose front matter has a name and a description."""
    [commands] = [text for text in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "skill" in text]
    subprocess.run(["sh", "-e", "-c", commands], cwd=tmp_path, env=environment("", tmp_path), check=True)
    saved = (tmp_path / ".claude" / "skills" / "trace-recorder" / "SKILL.md").read_text(encoding="utf-8")
    front_matter = yaml.safe_load(saved.split("---\n")[1])

    assert saved == SKILL
    assert front_matter.keys() == {"name", "description"}
    assert front_matter["name"] == "trace-recorder"
    assert len(front_matter["description"]) <= 1024
    assert {*re.findall(r"`(\w+_\w+)`", SKILL)} >= TOOLS.keys()


def test_every_command_of_the_skill_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the skill has an answer about runs."""
    for name in ("monday", "tuesday"):
        prompts = growing(3)
        prompts[-1][-1]["content"] = f"exit code 1 on {name}"
        record(tmp_path / "trajectories" / f"{name}.json", prompts)
    monkeypatch.chdir(tmp_path)
    silent = []
    for command in COMMANDS:
        words = shlex.split(command)
        assert words[0] == "trace-recorder"
        done = invoke(*words[1:], environment={"COLUMNS": "200"})
        allowed = {0, 1} if words[1] in {"diff", "find", "grep"} else {0}
        assert (done.exit_code in allowed, done.stderr) == (True, ""), command
        if not done.stdout:
            silent.append(command)

    assert silent == ["trace-recorder find 'has:error since:7d' trajectories"]
    assert len(COMMANDS) == 10
