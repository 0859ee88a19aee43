"""The demo's agent in five dialects, with its tools decorated, in a directory whose files are compared afterwards.

As a program (`python -m tests.rerun.demo_runs SDK FORM URL DIRECTORY FILE`) it records a run, so that it can be killed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo import project
from examples.demo.agent import solve, solve_async
from examples.demo.runs import LOOPS, Form, Job
from examples.demo.tools import Toolbox
from trace_recorder import TrajectoryRecorder, tool

FORMS: dict[str, Form] = {
    "openai": "sync",
    "openai-responses": "streaming",
    "anthropic": "streaming",
    "google": "sync",
    "ollama": "async",
}
"""The dialects, each with one form of client."""
_SECONDS = re.compile(r"in \d+\.\d+s")


class MarkedToolbox(Toolbox):
    """The demo's tools with the decorator. `ran` names the tools that were run."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ran: list[str] = []
        self._tools = {name: tool(name=name)(self._noting(name, function)) for name, function in self._tools.items()}

    def _noting(self, name: str, function: Any) -> Any:
        def noted(**arguments: str) -> str:
            self.ran.append(name)
            return str(function(**arguments))

        return noted


@dataclass(frozen=True)
class Done:
    """The result of an agent: its final answer, the tools that it ran, and its files."""

    answer: str
    ran: list[str]
    files: dict[str, str]


def work(sdk: str, url: str, root: Path, wrap: Any, ran: list[str] | None = None) -> Done:
    """Let the agent repair a new project in a directory. `ran` is called with each tool, also if the agent fails."""
    root.mkdir()
    project.create(root)
    toolbox = MarkedToolbox(root)
    toolbox.ran = toolbox.ran if ran is None else ran
    job = Job(sdk, FORMS[sdk], "local-model", url, key="k", thinking=True)
    loop = importlib.import_module(f"examples.demo.loops.{LOOPS[sdk]}")
    answer = (
        asyncio.run(_awaited(loop, job, wrap, toolbox)) if job.form == "async" else _called(loop, job, wrap, toolbox)
    )
    return Done(answer, toolbox.ran, files(root))


def _called(loop: Any, job: Job, wrap: Any, toolbox: Toolbox) -> str:
    with loop.connect(job.endpoint, job.key) as client:
        chat = loop.Chat(wrap(client), job.model, project.TASK, thinking=job.thinking)
        return solve(chat, toolbox, streaming=job.form == "streaming")


async def _awaited(loop: Any, job: Job, wrap: Any, toolbox: Toolbox) -> str:
    async with loop.connect_async(job.endpoint, job.key) as client:
        return await solve_async(loop.Chat(wrap(client), job.model, project.TASK, thinking=job.thinking), toolbox)


def files(root: Path) -> dict[str, str]:
    """Return the files of a project by their names."""
    return {path.name: path.read_text(encoding="utf-8") for path in root.iterdir() if path.is_file()}


def but_for_seconds(live: Any, recorded: Any) -> bool:
    """Return whether two requests differ only in the seconds that the project's tests took."""
    return _SECONDS.sub("", json.dumps(live)) == _SECONDS.sub("", json.dumps(recorded))


if __name__ == "__main__":
    with TrajectoryRecorder(sys.argv[4]) as recorder:
        work(sys.argv[1], sys.argv[2], Path(sys.argv[3]), recorder.wrap)
