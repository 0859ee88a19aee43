"""The command `import`: which runs it writes, what a second import does, and following files that grow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.cli.terminal import Stderr
from tests.waiting import wait_until
from trace_recorder import load, load_all
from trace_recorder.cli.import_command import Importing, files_in
from trace_recorder.cli.output import Progress
from trace_recorder.recording.amend import append_rewards


def _write(path: Path, answers: int = 1, *, ended: str | None = "Submitted") -> Path:
    messages = [{"role": "user", "content": "go"}]
    messages += [{"role": "assistant", "content": f"answer {number}"} for number in range(answers)]
    document = {"info": {"exit_status": ended}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_an_address_as_the_output_is_refused(tmp_path: Path) -> None:
    """The message says how runs come to an address, and nothing is written."""
    _write(tmp_path / "a.traj.json")
    done = invoke("import", tmp_path / "a.traj.json", "-o", "s3://bucket/runs")

    assert done.exit_code == 2
    assert "give one, and then copy it, as with `aws s3 sync`" in " ".join(done.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.traj.json"]


def test_a_directory_is_searched_recursively(tmp_path: Path) -> None:
    """Files in other formats and our own runs are skipped and counted."""
    _write(tmp_path / "in" / "a.traj.json")
    _write(tmp_path / "in" / "deep" / "er" / "b.traj.json", 2)
    (tmp_path / "in" / "notes.txt").write_text("none")
    recorded(tmp_path / "in" / "own.json")
    done = invoke("import", tmp_path / "in", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "2 runs written, 3 files in other formats skipped" in done.output
    runs = {run.trajectory_id: len(run.llm_interactions) for run in load_all(tmp_path / "out")}
    assert runs == {"a": 1, "b": 2}
    assert invoke("validate", tmp_path / "out").exit_code == 0
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").glob("*.json*")} == {0o600}


def test_a_named_file_must_be_readable(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    done = invoke(
        "import", tmp_path / "notes.txt", tmp_path / "missing.json", _write(tmp_path / "a.traj.json"), "-o", tmp_path
    )
    assert done.exit_code == 1
    assert "notes.txt" in done.output
    assert "missing.json" in done.output
    assert "1 run written, 2 sources could not be read" in done.output


def test_importing_again_changes_only_what_has_changed(tmp_path: Path) -> None:
    source, out = _write(tmp_path / "a.traj.json"), tmp_path / "out"
    invoke("import", source, "-o", out)
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert "1 unchanged" in invoke("import", source, "-o", out).output
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    _write(source, 3)
    assert "1 replaced" in invoke("import", source, "-o", out).output
    (run,) = load_all(out)
    assert len(run.llm_interactions) == 3
    assert load(out / "mini-swe-agent-a.json").to_document() == json.loads((out / "mini-swe-agent-a.json").read_bytes())


def test_a_run_that_was_scored_is_not_replaced(tmp_path: Path) -> None:
    source, out = _write(tmp_path / "a.traj.json"), tmp_path / "out"
    invoke("import", source, "-o", out)
    append_rewards(out / "mini-swe-agent-a.json", [{"name": "mine", "value": 1.0}])
    _write(source, 2)
    assert "1 run written" in invoke("import", source, "-o", out).output
    rewards = [([reward.name for reward in run.rewards], len(run.llm_interactions)) for run in load_all(out)]
    assert sorted(rewards) == [([], 2), (["mine"], 1)]


def test_runs_of_the_same_name_from_two_files_are_both_kept(tmp_path: Path) -> None:
    _write(tmp_path / "x" / "a.traj.json")
    _write(tmp_path / "y" / "a.traj.json", 2)
    for _ in range(2):
        invoke("import", tmp_path / "x", tmp_path / "y", "-o", tmp_path / "out")
    assert sorted(len(run.llm_interactions) for run in load_all(tmp_path / "out")) == [1, 2]


def test_watching_follows_a_file_that_grows(tmp_path: Path) -> None:
    source, out = _write(tmp_path / "in" / "a.traj.json"), tmp_path / "out"
    watching = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "trace_recorder", "import", str(source.parent), "-o", str(out), "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_for(out, {1})
        _write(source, 2)
        _wait_for(out, {2})
        _write(tmp_path / "in" / "b.traj.json", 5)
        _wait_for(out, {2, 5})
    finally:
        watching.send_signal(2)
        output, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0, output
    assert "2 runs written, 1 replaced" in output


@pytest.mark.parametrize(("presses", "message"), [(1, "1 run written"), (2, "0 runs written")])
def test_a_run_that_is_written_when_watching_ends_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, presses: int, message: str
) -> None:
    """The first Ctrl-C waits until the current run is written or skipped. The second Ctrl-C does not wait."""

    def replace_interrupted(old: str | Path, new: str | Path) -> None:
        rename(old, new)
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)

    rename = os.replace
    monkeypatch.setattr(os, "replace", replace_interrupted)
    for name in "ab":
        _write(tmp_path / "in" / f"{name}.traj.json")
    ended = invoke("import", tmp_path / "in", "-o", tmp_path / "out", "--watch")
    assert message in ended.output
    assert [run.trajectory_id for run in load_all(tmp_path / "out")] == ["a"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _wait_for(directory: Path, calls: set[int]) -> None:
    wait_until(lambda: directory.is_dir() and {len(run.llm_interactions) for run in load_all(directory)} == calls)


def test_only_known_services_have_projects(tmp_path: Path) -> None:
    done = invoke("import", "nowhere", "--project", "mine", "-o", tmp_path)
    assert done.exit_code == 2
    assert "langfuse, langsmith, mlflow, phoenix" in done.output


def test_a_service_needs_a_project(tmp_path: Path) -> None:
    done = invoke("import", "langfuse", "-o", tmp_path)
    assert done.exit_code == 2
    assert "langfuse is a service: name its project with --project NAME" in done.output


@pytest.mark.usefixtures("terminal")
def test_finished_files_are_counted_on_a_terminal(tmp_path: Path) -> None:
    """The progress bar is removed before a line about a run is printed, and at the end."""
    for number in range(3):
        _write(tmp_path / "in" / f"{number}.traj.json")
    stderr = Stderr(is_terminal=True)
    seconds = iter(range(100))
    importing = Importing(
        tmp_path / "out",
        lambda total: Progress(total, stderr, clock=lambda: float(next(seconds)), seconds_without=0),
    )
    importing.import_files(files_in([tmp_path / "in"]))
    assert [count for count in ("0/3", "1/3", "2/3", "3/3") if count in stderr.getvalue()] == [
        "0/3",
        "1/3",
        "2/3",
        "3/3",
    ]
    assert stderr.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))
    assert importing.counts == {"written": 3}


def test_json_lines_of_other_tools_are_imported_from_a_directory(tmp_path: Path) -> None:
    """A foreign session has the same suffix as our journals. It is imported, and a journal of ours next to it is
    skipped.
    """
    recorded(tmp_path / "in" / "own.json")
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]
    (tmp_path / "in" / "chats.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    done = invoke("import", tmp_path / "in", "-o", tmp_path / "out")
    assert "1 run written, 2 files in other formats skipped" in done.output, done.output
    (run,) = load_all(tmp_path / "out")
    assert [message.content for message in run.messages] == ["go", "gone"]
