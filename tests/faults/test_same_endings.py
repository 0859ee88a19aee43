"""A run ends with the same status in a block, in async code, open at the exit, or run from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.agents import Place, ending
from tests.processes import ROOT, in_forks
from tests.provider import CHAT, Server, plain, serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.final_status import status_from_exception
from trace_recorder.values.messages import Payload

BLOCK = """
import asyncio, os, signal, sys
from trace_recorder import TrajectoryRecorder
with TrajectoryRecorder('run.json'):
    {code}
"""
ASYNC = """
import asyncio, os, signal, sys
from trace_recorder import TrajectoryRecorder
async def main():
    async with TrajectoryRecorder('run.json'):
        {code}
        await asyncio.sleep(0)
asyncio.run(main())
"""
OPEN = """
import asyncio, os, signal, sys
from trace_recorder import TrajectoryRecorder
recorder = TrajectoryRecorder('run.json')
recorder.start()
{code}
"""

COMPLETED: Payload = ("completed", None, None)
INTERRUPTED: Payload = ("interrupted", None, None)
ENDINGS = {
    "the end": ("pass", COMPLETED),
    "exit": ("sys.exit()", COMPLETED),
    "exit 0": ("sys.exit(0)", COMPLETED),
    "exit 3": ("sys.exit(3)", ("failed", False, ("SystemExit", "3"))),
    "exit with a text": ("sys.exit('no')", ("failed", False, ("SystemExit", "no"))),
    "exit 130": ("sys.exit(130)", INTERRUPTED),
    "an exception": ("raise ValueError('no')", ("failed", False, ("ValueError", "no"))),
    "Ctrl-C": ("os.kill(os.getpid(), signal.SIGINT); [None] * 100", INTERRUPTED),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); __import__('time').sleep(100)", INTERRUPTED),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", INTERRUPTED),
}


def told(path: Path) -> Payload:
    """Return the recorded end of a run."""
    run = load(path)
    return run.status, run.success, run.error and (run.error.type, run.error.message)


AT_THE_EXIT = ("an exception", "Ctrl-C", "SIGTERM", "SIGKILL")
UNENDED = ("pass", "sys.exit(0)", "sys.exit(3)")
PROGRAMS = {
    **{f"block, {name}": BLOCK.format(code=code) for name, (code, _) in ENDINGS.items()},
    **{f"async block, {name}": ASYNC.format(code=code) for name, (code, _) in ENDINGS.items()},
    **{f"open, {name}": OPEN.format(code=ENDINGS[name][0]) for name in AT_THE_EXIT},
    **{f"open, {code}": OPEN.format(code=code) for code in UNENDED},
}


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Payload]:
    """Run each program in a process of its own, and return the recorded ends."""
    places = {name: tmp_path_factory.mktemp("program") for name in PROGRAMS}
    programs = {name: (PROGRAMS[name], place) for name, place in places.items()}
    in_forks(programs, "import asyncio, trace_recorder; trace_recorder.TrajectoryRecorder", environment())
    return {name: told(place / "run.json") for name, place in places.items()}


@pytest.mark.parametrize("form", ["block", "async block"])
@pytest.mark.parametrize("name", ENDINGS)
def test_a_block_records_how_its_code_ended(endings: dict[str, Payload], name: str, form: str) -> None:
    """The recorded end is the same in a sync and an async program."""
    assert endings[f"{form}, {name}"] == ENDINGS[name][1]


@pytest.mark.parametrize("name", AT_THE_EXIT)
def test_a_run_that_is_open_at_the_exit_ends_like_its_process(endings: dict[str, Payload], name: str) -> None:
    """The uncaught exception decides how the run ended."""
    assert endings[f"open, {name}"] == ENDINGS[name][1]


@pytest.mark.parametrize("code", UNENDED)
def test_a_run_without_an_end_is_interrupted(endings: dict[str, Payload], code: str) -> None:
    """If nobody ended the run, it is interrupted, because the process does not know its own exit code."""
    assert endings[f"open, {code}"] == INTERRUPTED


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(plain(CHAT)) as server:
        yield server


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_run_from_outside_ends_the_same(
    tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """The recorded end is the same, and a program that exits with a text has the exit code 1."""
    code, expected = ENDINGS[name]
    if name == "exit with a text":
        expected = ("failed", False, ("SystemExit", "1"))
    place = Place(tmp_path, server, capfd)
    arguments = ["--quiet", *place.agent(f"import signal\ncall()\n{code}")]
    if expected == INTERRUPTED:  # the command may end by its program's signal
        subprocess.run(
            place.program(*arguments), cwd=place.path, env=place.environment, capture_output=True, check=False
        )
    else:
        place.run(*arguments)

    [document] = place.files()
    assert told(document) == expected
    assert ending(document)["calls"] == 1


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_ctrl_c_in_async_code_is_recorded_as_ctrl_c(tmp_path: Path) -> None:
    """asyncio cancels the task after Ctrl-C, and gives the block no other sign."""

    async def main() -> None:
        async with TrajectoryRecorder(tmp_path / "run.json"):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(100)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())

    assert told(tmp_path / "run.json") == INTERRUPTED


def test_a_cancelled_task_is_interrupted(tmp_path: Path) -> None:
    """A task that asyncio or trio cancels has the status "interrupted"."""

    async def work() -> None:
        async with TrajectoryRecorder(tmp_path / "asyncio.json"):
            await asyncio.sleep(100)

    async def cancelled() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work(), 0.01)

    async def in_trio() -> None:
        with trio.move_on_after(0.01):
            async with TrajectoryRecorder(tmp_path / "trio.json"):
                await trio.sleep(100)

    asyncio.run(cancelled())
    trio.run(in_trio)

    assert [told(tmp_path / name) for name in ("asyncio.json", "trio.json")] == [INTERRUPTED] * 2


def test_a_generator_that_is_closed_is_interrupted(tmp_path: Path) -> None:
    """The caller of a generator may close it before its end."""

    def agent() -> Iterator[int]:
        with TrajectoryRecorder(tmp_path / "run.json"):
            yield 1

    running = agent()
    next(running)
    running.close()  # type: ignore[attr-defined]

    assert told(tmp_path / "run.json") == INTERRUPTED


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BaseExceptionGroup("all", [KeyboardInterrupt(), asyncio.CancelledError()]), "interrupted"),
        (BaseExceptionGroup("some", [KeyboardInterrupt(), ValueError()]), "failed"),
        (ExceptionGroup("none", [ValueError()]), "failed"),
        (SystemExit(False), "completed"),
        (SystemExit(True), "failed"),
    ],
    ids=repr,
)
def test_a_group_of_exceptions_is_an_interruption_if_all_are(error: BaseException, status: str) -> None:
    """A group with any other exception is a failure."""
    assert status_from_exception(error).status == status


def test_a_step_that_exits_with_0_has_not_failed(tmp_path: Path) -> None:
    """Neither the step nor the run around it counts as failed."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    with pytest.raises(SystemExit), recorder, recorder.step():
        sys.exit(0)

    [step] = load(tmp_path / "run.json").agent_steps
    assert (step.state, step.error, told(tmp_path / "run.json")) == ("completed", None, COMPLETED)
