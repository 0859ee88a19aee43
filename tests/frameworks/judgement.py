"""The checks for every framework: a run is recorded completely, and recording does not change it.

An agent is a program that prints its answer. It is run twice, each time in a separate process and with a separate
provider that gives the same answers: without recording, and recorded. Its output and requests must be equal, and the
recorded calls must equal the HTTP traffic. Then it is run a third time, answered from its run without a provider, and
must print the same. The steps and tool results are returned, so that each framework's own tests can compare them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from examples.demo.policy import Action
from tests.frameworks.page import without_us
from tests.processes import ROOT
from tests.provider import serving
from tests.scripted_model import SCRIPT, Model, addresses, script_of
from trace_recorder import load
from trace_recorder.reading.validate import validate
from trace_recorder.values.trajectory import Trajectory

Payload = Any
Step = tuple[str, list[tuple[str, Payload]], list[Payload]]
"""A step as its state, its tool calls as names and arguments, and the results of its tools."""

ASKED: Step = ("calling_tool", [("get_weather", {"city": "Tokyo"})], ["It's sunny in Tokyo."])
ANSWERED: Step = ("completed", [], [])
STEPS = [ASKED, ANSWERED]
"""The expected steps of a run of two turns."""

INSTRUMENTED = """
import trace_recorder
trace_recorder.instrument()
recorder = trace_recorder.TrajectoryRecorder(strict=True)
recorder.start()
{}
recorder.finalize(success=True)
"""
RUN = ("-m", "trace_recorder", "run", "--", sys.executable)
MADE_UP = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
NOWHERE = "http://127.0.0.1:9"
"""An address where no server listens."""
QUIET = {
    "PYTHONWARNINGS": "ignore",  # warnings of frameworks are not our concern
    "OPENAI_AGENTS_DISABLE_TRACING": "1",  # the framework's own tracer sends to api.openai.com
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise LiteLLM asks github.com for prices
}
_SETTINGS = ("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_", "LANGSMITH_", "LANGCHAIN_", "LITELLM_", "DSPY_")


@dataclass(frozen=True)
class Runs:
    """Runs the programs of one test in a separate directory."""

    place: Path

    ignore: tuple[str, ...] = ()
    """The allowed differences between requests of a replay: ids that a framework generates each time."""

    def ignoring(self, *paths: str) -> Runs:
        """Return a runner for programs that never send the same request twice."""
        return replace(self, ignore=paths)

    def recorded(self, code: str, script: Sequence[Action] = SCRIPT) -> list[Step]:
        """Run a program that records itself, and the same program without our lines. Return the recorded steps."""
        return self._both(without_us(code), code, script)

    def instrumented(self, code: str, script: Sequence[Action] = SCRIPT) -> list[Step]:
        """Run a program without a recorder, and have every call of its process recorded. Return the recorded steps."""
        return self._both(code, INSTRUMENTED.format(code), script)

    def outside(self, code: str, script: Sequence[Action] = SCRIPT) -> list[Step]:
        """Run an unmodified program with `trace-recorder run`. Return the recorded steps."""
        return self._both(code, code, script, *RUN)

    def once(self, code: str, script: Sequence[Action] = SCRIPT, *command: str) -> tuple[str, list[Step]]:
        """Run a recorded program once, and return its output and the recorded steps.

        Programs whose requests differ each time, and calls through aiohttp that are not replayed, need this.
        """
        model = Model(script_of(script))
        with serving(model) as server:
            printed = self.printed(code, server.url, *command)
        [document] = self.place.glob("trajectories/*.json")
        return printed, judged(document, model)

    def once_outside(self, code: str, script: Sequence[Action] = SCRIPT) -> tuple[str, list[Step]]:
        """Run an unmodified program once with `trace-recorder run`, and return its output and the recorded steps."""
        return self.once(code, script, *RUN)

    def unseen(self, code: str, script: Sequence[Action] = SCRIPT) -> tuple[str, int, int]:
        """Run a program as `instrumented` does.

        Return its output, the exchanges of the server, and the recorded exchanges.
        """
        model = Model(script_of(script))
        with serving(model) as server:
            printed = self.printed(INSTRUMENTED.format(code), server.url)
        [document] = self.place.glob("trajectories/*.json")
        return printed, len(model.sent), len(load(document).llm_interactions)

    def printed(self, code: str, url: str, *command: str) -> str:
        """Return the output of a program whose providers are all at `url`."""
        path = self.place / url.rpartition(":")[2] / "agent.py"
        path.parent.mkdir()
        path.write_text(code, encoding="utf-8")
        own = {name: value for name, value in os.environ.items() if not _is_setting(name)}
        done = subprocess.run(
            [sys.executable, *command, str(path)],
            cwd=self.place,
            env={**own, **QUIET, **addresses(url), "PYTHONPATH": str(ROOT), "DSPY_CACHEDIR": str(path.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _both(self, plain: str, recording: str, script: Sequence[Action], *command: str) -> list[Step]:
        models = Model(script_of(script)), Model(script_of(script))
        with serving(models[0]) as alone, serving(models[1]) as server, ThreadPoolExecutor() as pool:
            expected = pool.submit(self.printed, plain, alone.url)
            printed = self.printed(recording, server.url, *command)
        assert (printed, asked(models[1])) == (expected.result(), asked(models[0]))
        [document] = self.place.glob("trajectories/*.json")
        steps = judged(document, models[1])
        assert self._replayed(recording, document) == printed
        return steps

    def _replayed(self, code: str, document: Path) -> str:
        """Return the output of a program that a replay answers.

        The program must use all recorded calls and no others.
        """
        options = [word for path in self.ignore for word in ("--ignore", path)]
        command = ["-m", "trace_recorder", "replay", *options, str(document), "--", sys.executable]
        return self.printed(code, NOWHERE, *command)


def _is_setting(name: str) -> bool:
    return name.startswith(_SETTINGS) or name.lower().endswith("_proxy")


def asked(model: Model) -> list[tuple[str, Payload]]:
    """Return the requests to a model in order, without the ids that a framework generates for each run."""
    return [(sent.path, json.loads(MADE_UP.sub("ID", json.dumps(sent.body)))) for sent in model.sent]


def judged(document: Path, model: Model) -> list[Step]:
    """Compare the recorded run with the HTTP traffic, and return the run's steps."""
    trajectory = load(document)
    assert (validate(document).ok, trajectory.gaps, trajectory.status) == (True, (), "completed")
    assert on_file(trajectory) == on_the_wire(model)
    return [
        (
            step.state,
            [(call.name, call.arguments) for call in step.tool_calls],
            [result.error if result.result is None else result.result for result in step.tool_results],
        )
        for step in trajectory.agent_steps
    ]


def on_file(trajectory: Trajectory) -> list[Payload]:
    """Return each recorded exchange: the request, and the response or the text of the stream."""
    return [
        (call.raw_request, call.raw_stream if call.stream else call.raw_response, len(call.attempts))
        for call in trajectory.llm_interactions
    ]


def on_the_wire(model: Model) -> list[Payload]:
    """Return each exchange with a model in the form of `on_file`, with one attempt each."""
    return [(sent.body, sent.answer.decode() if sent.streamed else json.loads(sent.answer), 1) for sent in model.sent]
