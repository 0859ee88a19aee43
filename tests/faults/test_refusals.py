"""A system refuses operations that most systems offer, or fails only when a file is closed. The run continues without
them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.faults.refusing import environment
from tests.processes import ROOT
from trace_recorder import load
from trace_recorder.reading.validate import validate

Payload = Any

AGENT = """
    import json, logging, os, sys
    from trace_recorder import TrajectoryRecorder
    from tests.chat_calls import asked, call, said

    class Told(logging.Handler):
        def emit(self, record):
            told.append(record.getMessage())

    told, path, refused = [], sys.argv[1], sys.argv[2]
    logging.getLogger("trace_recorder").addHandler(Told())

    class AgentsError(Exception):
        pass
"""
"""The code before each of the programs."""


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which system calls are refused."""
    return environment(tmp_path_factory.mktemp("refusing"))


def agent(refusing: dict[str, str], path: Path, refused: str, code: str) -> Payload:
    """Run an agent whose system calls are refused from a moment on, and return its JSON output."""
    program = textwrap.dedent(AGENT) + textwrap.dedent(code)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path), refused],
        env={**refusing, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def errors(path: Path) -> list[str]:
    """Return the faults in the files of a run."""
    return [f"{finding.where}: {finding.what}" for finding in validate(path).findings if finding.severity == "error"]


CLOSING = """
    raised = ""
    try:
        with TrajectoryRecorder(path) as recorder:
            call(recorder, asked("x"), said("y"))
            os.environ["REFUSED"] = refused
            raise AgentsError("its own")
    except BaseException as error:
        raised = repr(error)
    second = TrajectoryRecorder(path + ".2.json")
    second.start()
    second.finalize(success=True)
    print(json.dumps([raised, len(told)]))
"""


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EDQUOT"])
@pytest.mark.parametrize("file", [".jsonl", ".json", ".tmp", ""])
def test_a_failing_close_hides_no_exception(refusing: dict[str, str], tmp_path: Path, error: str, file: str) -> None:
    """If the system cannot write the last bytes, the agent's own exception is raised, and a gap states the failure."""
    path = tmp_path / "run.json"

    raised, told = agent(refusing, path, f"close:{error}:{file}", CLOSING)

    trajectory = load(path)
    assert (raised, told > 0) == ("AgentsError('its own')", file != ".json")
    assert (trajectory.status, len(trajectory.llm_interactions), errors(path)) == ("failed", 1, [])
    expected = {".jsonl": {"close the journal"}, ".tmp": {"write the document"}, ".json": set()}
    assert {gap.what for gap in trajectory.gaps} == expected.get(file, {"close the journal", "write the document"})


WHOLE = """
    os.environ["REFUSED"] = refused
    for name in (path, path, path + ".other.json"):
        recorder = TrajectoryRecorder(name, durability="disk", strict=True)
        recorder.start()
        call(recorder, asked("x"), said("y"))
        call(recorder, asked("x", "z"), said("y"))
        recorder.finalize(success=True)
    print(json.dumps(told))
"""


@pytest.mark.parametrize(
    ("refused", "warning"),
    [
        *((f"flock:{error}:", "this file system has no locks") for error in ("ENOSYS", "EOPNOTSUPP", "ENOLCK")),
        ("fsync:EINVAL:", "this file system does not support fsync"),
        ("renameat2:EPERM:", ""),
    ],
)
def test_a_run_is_recorded_without_a_missing_feature(
    refusing: dict[str, str], tmp_path: Path, refused: str, warning: str
) -> None:
    """A run is recorded without the feature, an earlier run is moved aside, and the user is warned once."""
    path = tmp_path / "run.json"

    told = agent(refusing, path, refused, WHOLE)

    about = [message.partition(" (")[0] for message in told if "belonged to an earlier run" not in message]
    assert about == ([warning] if warning else [])
    names = ("run.json", "run.1.json", "run.json.other.json")
    assert sorted(one.name for one in tmp_path.glob("*.json")) == sorted(names)
    assert [(load(tmp_path / name).status, errors(tmp_path / name)) for name in names] == [("completed", [])] * 3


def test_without_locks_an_unfinished_run_is_not_moved(refusing: dict[str, str], tmp_path: Path) -> None:
    """A run without a recorded end stays at its path, and the new run takes a number."""
    code = """
        os.environ["REFUSED"] = refused
        first, second = TrajectoryRecorder(path), TrajectoryRecorder(path)
        first.start(), second.start()
        first.finalize(True), second.finalize(True)
        print(json.dumps([os.path.basename(one.trajectory_path) for one in (first, second)]))
    """

    assert agent(refusing, tmp_path / "run.json", "flock:ENOLCK:", code) == ["run.json", "run.1.json"]


CLOSED = """
    recorder = TrajectoryRecorder(path)
    recorder.start()
    call(recorder, asked("before"), said("y"))
    os.closerange(3, 256)
    others = [os.open(f"{path}.{number}.agent", os.O_RDWR | os.O_CREAT) for number in range(20)]
    call(recorder, asked("after"), said("y"))
    recorder.annotate("k", 1)
    recorder.finalize(success=True)
    print(json.dumps([told, [os.fstat(one).st_size for one in others]]))
"""


def test_a_run_survives_closed_descriptors(tmp_path: Path) -> None:
    """After `os.closerange`, no record goes to a different file with the same number, and no such file is closed."""
    path = tmp_path / "run.json"

    told, sizes = agent(dict(os.environ), path, "", CLOSED)

    assert (len(told), sizes) == (1, [0] * 20)
    trajectory = load(path)
    asked = [call.input_messages[-1].content for call in trajectory.llm_interactions]
    assert (asked, trajectory.status, trajectory.annotations, errors(path)) == (
        *(["before", "after"], "completed", {"k": 1}, []),
    )
