"""Recorders cannot be sent to another process, and tools are sent by name."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.processes import python
from trace_recorder import TrajectoryRecorder, load, tool

recorder = TrajectoryRecorder(Path("never.json"))


@recorder.tool
def double(number: int) -> int:
    return 2 * number


@recorder.tool(name="triple")
async def treble(number: int) -> int:
    return 3 * number


@tool
def halve(number: int) -> float:
    return number / 2


class Tools:
    @recorder.tool
    def method(self) -> None: ...

    @staticmethod
    @recorder.tool
    def static() -> None: ...


@pytest.mark.parametrize("function", [double, treble, halve, Tools.method, Tools.static])
def test_a_tool_is_pickled_by_its_name(function: Any) -> None:
    """A decorated function is pickled by its name, like the plain function."""
    assert pickle.loads(pickle.dumps(function)) is function


class Agent:
    """An agent with its recorder as an attribute."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self.recorder = recorder


def test_a_recorder_cannot_be_pickled(tmp_path: Path) -> None:
    """Pickling a recorder raises an error that says what to do instead, and the run continues."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.record_agent_step(1, "thinking")

    blocks = recorder.step(), recorder.agent("researcher"), recorder.tool_call("search")
    for what in (recorder, recorder.step, Agent(recorder), *blocks):
        with pytest.raises(TypeError, match=r"cannot be pickled: its run belongs to this process"):
            pickle.dumps(what)
    spawned = multiprocessing.get_context("spawn").Process(target=print, args=(recorder,))
    with pytest.raises(TypeError, match=r"child_environment\(\)"):
        spawned.start()

    recorder.finalize(success=True)
    assert load(tmp_path / "run.json").status == "completed"


def test_a_worker_with_its_own_recorder_is_linked(tmp_path: Path) -> None:
    """A spawned worker records to its own file, which names the parent, as docs/attach.md says."""
    (tmp_path / "work.py").write_text(WORK)
    done = python(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import work
        work.main({str(tmp_path)!r})
    """)

    parent, child = load(tmp_path / "parent.json"), load(tmp_path / "child.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (child.status, [result.result for step in child.agent_steps for result in step.tool_results]) == (
        "completed",
        [42],
    )
    assert f'"parent":"{parent.trajectory_id}"' in (tmp_path / "child.jsonl").read_text()


WORK = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
import trace_recorder
from trace_recorder import TrajectoryRecorder

@trace_recorder.tool
def double(number):
    return 2 * number

def work(directory, function):
    with TrajectoryRecorder(f"{directory}/child.json", task="a part"):
        return function(21)

def main(directory):
    with TrajectoryRecorder(f"{directory}/parent.json", task="the whole"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(work, directory, double).result() == 42
"""
