"""Unmodified agents, which are programs in a directory: the tests start them with `trace-recorder run`, and read their
files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.processes import ROOT
from tests.provider import Server
from trace_recorder import load
from trace_recorder.reading.validate import validate

HTTPX = """
    import os, sys
    sys.modules["httpx._main"] = None  # httpx's own command line takes half of the time that its import takes
    import httpx
"""
CALL = (
    HTTPX
    + """
    def call():
        httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json={"model": "m", "messages": []})
"""
)


@dataclass
class Done:
    """The exit code of a command, and its output on stdout and stderr."""

    returncode: int
    stdout: str
    stderr: str


_RECORDED: dict[str, tuple[dict[str, bytes], list[tuple[str, dict[str, str], bytes]]]] = {}
"""Results of agents that were recorded for a test: the run's two files, and the requests to the server."""


class Place:
    """A directory with agents, and the command that runs them."""

    def __init__(self, path: Path, server: Server, capture: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._server = server
        self._capture = capture
        self.environment = {
            **os.environ,
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "k",
            "PYTHONPATH": str(ROOT),
        }

    def program(self, *arguments: object, python: str = sys.executable) -> list[str]:
        """Return the command line of `run` with these arguments."""
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from trace_recorder.cli import main; main()"
        return [python, "-c", code, "run", *map(str, arguments)]

    def agent(self, code: str, name: str = "agent.py") -> list[object]:
        """Write an agent that can `call()`, and return the command that starts it."""
        (self.path / name).write_text(textwrap.dedent(CALL) + textwrap.dedent(code))
        return ["--", sys.executable, name]

    def run(self, *arguments: object, **environment: str) -> Done:
        """Run a command of this package to its end in this process. The agent has a separate process."""
        return self.command("run", *arguments, **environment)

    def command(self, *arguments: object, **environment: str) -> Done:
        """Run a command of this package. The first argument is the name of the command."""
        with chdir(self.path):
            result = invoke(*arguments, environment={**self.environment, **environment})
        out, errors = self._capture.readouterr()
        return Done(result.exit_code, out, errors + result.stderr)

    def record(self, *arguments: object) -> None:
        """Record an agent, and return its two files as run.json and its journal.

        The agent runs once for all tests with the same answers.
        """
        key = repr((arguments, (self.path / "agent.py").read_text(), self._server.answers))
        if key in _RECORDED:
            files, asked = _RECORDED[key]
            for name, data in files.items():
                (self.path / name).write_bytes(data)
            self._server.requests += asked
            del self._server.answers[: min(len(asked), len(self._server.answers) - 1)]
            return
        done = self.run("--quiet", "--trajectory-file", "run.json", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        files = {name: (self.path / name).read_bytes() for name in ("run.json", "run.jsonl")}
        _RECORDED[key] = files, [*self._server.requests]

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start a command without a terminal, and wait for the line that says that it is ready."""
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        program = self.program(*arguments)
        started = subprocess.Popen(
            program, cwd=self.path, env=self.environment, text=True, start_new_session=True, **streams
        )
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        return started

    def files(self) -> list[Path]:
        """Return the documents, after a check that each is valid."""
        found = sorted((self.path / "trajectories").glob("*.json"))
        assert [path for path in found if not validate(path).ok] == []
        return found


def ending(path: Path) -> dict[str, Any]:
    """Return the members of a document that describe the end of the run."""
    document = json.loads(path.read_bytes())
    assert load(path).status == document["status"]
    return {
        "status": document["status"],
        "success": document["success"],
        "error": (document["error"] or {}).get("type"),
        "exit_code": document["annotations"].get("exit_code"),
        "calls": len(document["llm_interactions"]),
    }
