"""Recorded runs of the demo's agent, with its tools."""

from __future__ import annotations

import asyncio
import importlib
import tempfile
from pathlib import Path
from typing import Any

from examples.demo import project
from examples.demo.agent import solve, solve_async
from examples.demo.local_provider import LocalProvider
from examples.demo.runs import LOOPS, Form
from tests.rerun.demo_runs import MarkedToolbox
from trace_recorder import TrajectoryRecorder


def record_demo(
    path: Path, provider: LocalProvider, sdk: str = "openai", form: Form = "sync", model: str = "local-model"
) -> Path:
    """Record a run of the agent, with its tools, and return its file."""
    loop: Any = importlib.import_module(f"examples.demo.loops.{LOOPS[sdk]}")
    with tempfile.TemporaryDirectory() as directory, TrajectoryRecorder(path, task=project.TASK) as recorder:
        root = Path(directory)
        project.create(root)
        toolbox = MarkedToolbox(root)

        def chat(client: Any) -> Any:
            return loop.Chat(recorder.wrap(client), model, project.TASK, thinking=True)

        async def awaited() -> str:
            async with loop.connect_async(provider.url, "k") as client:
                return await solve_async(chat(client), toolbox)

        if form == "async":
            answer = asyncio.run(awaited())
        else:
            with loop.connect(provider.url, "k") as client:
                answer = solve(chat(client), toolbox, streaming=form == "streaming")
        recorder.finalize(success=project.tests_pass(root), final_result=answer)
    return path
