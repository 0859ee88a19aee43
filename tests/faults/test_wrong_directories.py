"""A wrong path that the program did not choose never ends the agent, and a wrong path that it chose raises.

The default directory and TRACE_RECORDER_DIR belong to the place in which the agent runs, not to the agent.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import ROOT
from trace_recorder import TrajectoryPathError, TrajectoryRecorder

AGENT = """
import sys, trace_recorder
from tests.chat_calls import CHAT, Wire, asked, said
import httpx

client = trace_recorder.wrap(httpx.Client(transport=Wire(said("hello")), trust_env=False))
answers = []

def ask():
    answers.append(client.post(CHAT, json=asked("hi")).json()["choices"][0]["message"]["content"])

with trace_recorder.TrajectoryRecorder(task="block") as recorder, recorder.step():
    ask()
    recorder.annotate("a", 1)
started = trace_recorder.TrajectoryRecorder()
started.start("started")
started.record_agent_step(1, "thinking")
ask()
started.save_trajectory()
started.finalize(success=True)
trace_recorder.instrument(recorder=trace_recorder.TrajectoryRecorder())
ask()
trace_recorder.uninstrument()
lazy = trace_recorder.TrajectoryRecorder()
lazy.reward("r", 1)
str(lazy.trajectory_path)
print(*answers)
"""


def make_file(path: Path) -> None:
    path.write_text("notes")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def run_agent(place: Path, code: str = AGENT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("make", [make_file, make_loop, make_dangling, make_pipe])
def test_a_default_directory_that_is_no_directory_stops_no_agent(make: Callable[[Path], None], tmp_path: Path) -> None:
    """The agent has all answers, and each recorder logs once that it records nothing."""
    make(tmp_path / "trajectories")
    done = run_agent(tmp_path)

    assert (done.returncode, done.stdout) == (0, "hello hello hello\n"), done.stderr
    assert (done.stderr.count("the agent runs unrecorded (logged once)"), "Traceback" in done.stderr) == (4, False)


@pytest.mark.parametrize(
    "directory", ["notes", "notes/below", "/dev/null", "x" * 300, "/proc/none", "a\udcff\n/b" * 900]
)
def test_a_wrong_directory_of_the_environment_stops_no_agent(directory: str, tmp_path: Path) -> None:
    """The agent has all answers, whatever TRACE_RECORDER_DIR is."""
    make_file(tmp_path / "notes")
    done = run_agent(tmp_path, TRACE_RECORDER_DIR=directory)

    assert (done.returncode, done.stdout) == (0, "hello hello hello\n"), done.stderr
    assert (done.stderr.count("the agent runs unrecorded (logged once)"), "Traceback" in done.stderr) == (4, False)


MANY_RECORDERS = """
import resource, trace_recorder

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
recorders = [trace_recorder.TrajectoryRecorder() for _ in range(300)]
for recorder in recorders:
    recorder.start("task")
for recorder in recorders:
    recorder.finalize(success=True)
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_limit_of_open_files_is_logged_with_a_count_and_not_for_each_run(tmp_path: Path) -> None:
    """Of the failures of 300 recorders, the first, the tenth and the hundredth are logged, each as one sentence."""
    done = run_agent(tmp_path, MANY_RECORDERS)

    counts = re.findall(r"Too many open files.*; failure (\d+) of this kind", done.stderr)
    assert (done.returncode, done.stdout, counts) == (0, "done\n", ["1", "10", "100"]), done.stderr
    assert len(done.stderr.splitlines()) == 3


def test_a_removed_working_directory_stops_no_agent(tmp_path: Path) -> None:
    """The agent goes on if its working directory is gone before the first recorder is made."""
    (tmp_path / "gone").mkdir()
    done = run_agent(tmp_path / "gone", "import os; os.rmdir(os.getcwd())\n" + AGENT)

    assert (done.returncode, done.stdout) == (0, "hello hello hello\n"), done.stderr
    assert (done.stderr.count("the agent runs unrecorded (logged once)"), "Traceback" in done.stderr) == (4, False)


@pytest.mark.parametrize(
    "variables",
    [
        {"TRACE_RECORDER_RUN": "{"},
        {"TRACE_RECORDER_RUN": '{"directory": 5, "reports": null}'},
        {"TRACE_RECORDER_RUN": '{"directory": "out", "reports": "/none", "other": 1}'},
        {"TRACE_RECORDER_PARENT": "\udcff\n" * 999},
        {"TRACE_RECORDER_DISABLED": "\udcff"},
    ],
    ids=["no JSON", "wrong types", "unknown member", "no id", "no answer"],
)
def test_other_variables_of_ours_stop_no_agent(variables: dict[str, str], tmp_path: Path) -> None:
    """The agent has all answers if a variable of ours has a value that we never wrote."""
    site = ROOT / "trace_recorder" / "attach" / "subprocess" / "site"
    done = run_agent(tmp_path, PYTHONPATH=f"{site}{os.pathsep}{ROOT}", **variables)

    assert (done.returncode, done.stdout) == (0, "hello hello hello\n"), done.stderr


@pytest.mark.parametrize("keyword", ["trajectory_path", "directory"])
def test_a_wrong_path_that_the_program_chose_raises(
    keyword: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Misuse raises at once, also if the environment names a good directory."""
    monkeypatch.setenv("TRACE_RECORDER_DIR", str(tmp_path / "good"))
    make_file(tmp_path / "notes")
    given = {"trajectory_path": tmp_path / "notes" / "run.json", "directory": tmp_path / "notes"}[keyword]
    with pytest.raises(TrajectoryPathError):
        TrajectoryRecorder(**{keyword: given}).start()  # type: ignore[arg-type]


def test_a_strict_recorder_raises_for_the_default_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`strict` asks that failures of recording are raised, whoever chose the path."""
    monkeypatch.chdir(tmp_path)
    make_file(tmp_path / "trajectories")
    with pytest.raises(TrajectoryPathError):
        TrajectoryRecorder(strict=True).start()
