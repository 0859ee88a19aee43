"""What every framework is held to: a run is recorded, exchange for exchange, and is what it was without recording.

An agent is a program that prints its answer. It is run twice, each time with a provider of its own that says the same:
as it is without us, and recorded. What it prints, and what it sends, are to be equal; what is on file is to be what
went over the wire. The steps and the results of tools are given back, to be compared by each framework's own tests.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from examples.demo.policy import Action
from tests.frameworks.page import without_us
from tests.frameworks.provider import SCRIPT, Provider, providing
from tests.recording import ROOT
from trace_recorder import TrajectoryRecorder, instrument, load, uninstrument
from trace_recorder.trajectory import Trajectory
from trace_recorder.validation import validate

Payload = Any
Program = Callable[[], object]
Step = tuple[str, list[tuple[str, Payload]], list[Payload]]
"""The state of a step; its tool calls as names and arguments; the results of its tools."""

ASKED = ("calling_tool", [("get_weather", {"city": "Tokyo"})], ["It's sunny in Tokyo."])
ANSWERED = ("completed", [], [])
STEPS = [ASKED, ANSWERED]
"""The steps of a run of two turns."""


MADE_UP = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")


@dataclass(frozen=True)
class Runs:
    """How a program was run: where it writes, and the fixture that sets its environment."""

    place: Path
    environment: pytest.MonkeyPatch

    def program(self, code: str) -> Program:
        """A program in a file of its own: some frameworks read the source of a tool."""
        path = self.place / f"agent_{crc32(code.encode()):08x}.py"
        path.write_text(code, encoding="utf-8")
        return lambda: runpy.run_path(str(path), run_name="__main__")

    def printed(self, program: Program, provider: Provider) -> str:
        """What a program prints that takes a provider for its own."""
        for name, value in provider.addresses().items():
            self.environment.setenv(name, value)
        with chdir(self.place), redirect_stdout(io.StringIO()) as out:
            program()
        return out.getvalue()

    def outside(self, code: str, script: Sequence[Action] = SCRIPT) -> list[Step]:
        """Run a program that knows nothing of us with `trace-recorder run`; give the steps on file."""
        (self.place / "agent.py").write_text(code, encoding="utf-8")
        command = [sys.executable, "-m", "trace_recorder.cli", "run", "--", sys.executable, "agent.py"]
        with providing(script) as alone:
            expected = self.printed(self.program(code), alone)
        with providing(script) as provider:
            environment = {**os.environ, **provider.addresses(), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
            done = subprocess.run(
                command, cwd=self.place, env=environment, stdout=subprocess.PIPE, text=True, check=False
            )
        assert (done.returncode, done.stdout, asked(provider)) == (0, expected, asked(alone))
        return judged(self.place, provider)

    def recorded(self, code: str, script: Sequence[Action] = SCRIPT) -> list[Step]:
        """Run a program that records itself, and the same one without our lines; give the steps on file."""
        try:
            return self._both(self.program(without_us(code)), self.program(code), script)
        finally:
            uninstrument()

    def instrumented(self, code: str, script: Sequence[Action] = SCRIPT) -> list[Step]:
        """Run a program that records nothing, with every call of the process recorded; give the steps on file."""
        program = self.program(code)

        def recording() -> None:
            instrument()
            try:
                with TrajectoryRecorder(strict=True):
                    program()
            finally:
                uninstrument()

        return self._both(program, recording, script)

    def _both(self, program: Program, recording: Program, script: Sequence[Action]) -> list[Step]:
        with providing(script) as alone:
            expected = self.printed(program, alone)
        with providing(script) as provider:
            printed = self.printed(recording, provider)
        assert (printed, asked(provider)) == (expected, asked(alone))
        return judged(self.place, provider)


def asked(provider: Provider) -> list[tuple[str, Payload]]:
    """What a provider was asked, in order, but for the ids that a framework makes up anew each time."""
    return [(one.path, json.loads(MADE_UP.sub("ID", json.dumps(one.body)))) for one in provider.sent]


def judged(place: Path, provider: Provider) -> list[Step]:
    """Hold the one run that was recorded against what went over the wire; give its steps."""
    [document] = place.glob("trajectories/*.json")
    trajectory = load(document)
    assert (validate(document).ok, trajectory.gaps, trajectory.status) == (True, (), "completed")
    assert on_file(trajectory) == on_the_wire(provider)
    return [
        (
            step.state,
            [(call.name, call.arguments) for call in step.tool_calls],
            [result.result for result in step.tool_results],
        )
        for step in trajectory.agent_steps
    ]


def on_file(trajectory: Trajectory) -> list[Payload]:
    """Each exchange that was recorded: the request, and what came back, of a stream its text."""
    return [
        (one.raw_request, one.raw_stream if one.stream else one.raw_response, len(one.attempts))
        for one in trajectory.llm_interactions
    ]


def on_the_wire(provider: Provider) -> list[Payload]:
    """Each exchange that there was, in the same form: one attempt each."""
    return [(one.body, one.answer.decode() if one.streamed else json.loads(one.answer), 1) for one in provider.sent]
