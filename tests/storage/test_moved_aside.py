"""A file at the path of a new run is renamed, and the log names it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tests.processes import python
from tests.storage.small_runs import run, tasks
from trace_recorder import TrajectoryPathError, TrajectoryRecorder, load


def test_the_user_s_path_is_used_unchanged(tmp_path: Path) -> None:
    """The newest run has the given path, and the files of earlier runs have numbers."""
    for number in range(4):
        run(tmp_path / "run.json", f"task {number}")

    assert tasks(tmp_path) == {
        "run.json": "task 3",
        "run.1.json": "task 0",
        "run.2.json": "task 1",
        "run.3.json": "task 2",
    }


@pytest.mark.parametrize("taken", ["run.1.json", "run.1.jsonl"])
def test_both_files_of_a_run_get_the_same_number(taken: str, tmp_path: Path) -> None:
    """Both files of an earlier run get the first number that neither a document nor a journal has."""
    run(tmp_path / "run.json", "earlier")
    (tmp_path / taken).touch()

    run(tmp_path / "run.json", "new")

    assert tasks(tmp_path) == {"run.json": "new", taken: "alone", "run.2.json": "earlier"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("a.py", "print(1)"), ("run.json", "precious"), ("run.json", '{"task": "a list of mine"}')),
        *(("run.jsonl", '{"row": 1}'), ("run.json", "[]"), ("notes", "{")),
    ],
)
def test_a_file_that_is_not_a_run_is_refused(name: str, content: str, tmp_path: Path) -> None:
    """A user's file at the path is refused and stays unchanged, and no file is written next to it."""
    (tmp_path / name).write_text(content)

    with pytest.raises(TrajectoryPathError, match="not a run"):
        TrajectoryRecorder(tmp_path / name).start()

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: content}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("run.json", b""), ("run.jsonl", b""), ("run.jsonl", b'{"se'), ("run.jsonl", b'{"seq":1,"time":"2025')),
        *(("run.jsonl", b"\0" * 4096), ("run.json", b'{"task": "t", "llm_interactions": []}')),
    ],
)
def test_files_of_an_ended_process_are_moved_aside(name: str, content: bytes, tmp_path: Path) -> None:
    """An empty file, a journal that is torn in its first record, and a document of one line are renamed as runs."""
    (tmp_path / name).write_bytes(content)

    run(tmp_path / "run.json", "task")

    moved = tmp_path / name.replace("run", "run.1")
    assert (moved.read_bytes(), load(tmp_path / "run.json").task) == (content, "task")


@pytest.mark.parametrize("step", ["open", "fcntl.flock", "os.remove"])
def test_a_run_that_starts_while_another_is_moved_aside_is_kept(tmp_path: Path, step: str) -> None:
    """If a second run starts between two steps of the first one's start, all three runs are kept."""
    ended = python(
        """
        import sys
        from pathlib import Path
        from trace_recorder import TrajectoryRecorder
        path = Path(sys.argv[1]) / "run.json"
        with TrajectoryRecorder(path, task="old"):
            pass
        between = []

        def listen(event, arguments):
            if event == sys.argv[2] and not between:
                between.append(TrajectoryRecorder(path, task="between"))
                between[0].start()

        sys.addaudithook(listen)
        with TrajectoryRecorder(path, task="new"):
            between[0].annotate("a", 1)
        between[0].finalize()
        """,
        tmp_path,
        step,
    )

    assert [line for line in ended.stderr.splitlines() if "belonged to an earlier run" not in line] == []
    assert sorted(tasks(tmp_path).values()) == ["between", "new", "old"]


def test_a_path_that_is_not_a_file_is_not_moved_aside(tmp_path: Path) -> None:
    """A path such as /dev/null is refused, and stays unchanged."""
    os.mkfifo(tmp_path / "null")

    with pytest.raises(TrajectoryPathError):
        TrajectoryRecorder(tmp_path / "null").start()

    assert [(one.name, one.is_fifo()) for one in tmp_path.iterdir()] == [("null", True)]


@pytest.mark.parametrize("name", ["run.json", "run.jsonl"])
def test_a_dangling_symlink_is_moved_aside_like_a_file(tmp_path: Path, name: str) -> None:
    """A symlink without a target is renamed like a file, and neither replaced nor followed."""
    (tmp_path / name).symlink_to(tmp_path / "nothing")

    run(tmp_path / "run.json", "new")

    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        ["run.json", "run.jsonl", f"run.1{Path(name).suffix}"]
    )
    assert ((tmp_path / f"run.1{Path(name).suffix}").readlink(), load(tmp_path / "run.json").task) == (
        *(tmp_path / "nothing", "new"),
    )


def moved(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the log's messages about files."""
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "trace_recorder"]


def test_files_moved_aside_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the old and the new name of a renamed file, and nothing if there was no file."""
    path = tmp_path / "run.json"
    run(path, "first")
    assert moved(caplog) == []

    run(path, "second")
    run(tmp_path / "run.jsonl", "third")
    assert moved(caplog) == [
        ("WARNING", f"{path} belonged to an earlier run, and was renamed to {tmp_path / name}")
        for name in ("run.1.json", "run.2.json")
    ]
    assert tasks(tmp_path) == {"run.json": "third", "run.1.json": "first", "run.2.json": "second"}


def test_a_journal_moved_aside_without_a_document_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log has both names of a renamed journal that has no document."""
    run(tmp_path / "run.json", "first")
    (tmp_path / "run.json").unlink()
    run(tmp_path / "run.json", "second")

    journal, now = tmp_path / "run.jsonl", tmp_path / "run.1.jsonl"
    assert moved(caplog) == [("WARNING", f"{journal} belonged to an earlier run, and was renamed to {now}")]


def test_a_failing_log_damages_no_run(tmp_path: Path) -> None:
    """If the user's log filter raises, the run is recorded, and only the log message is lost."""
    run(tmp_path / "run.json", "first")

    def broken(_: logging.LogRecord) -> bool:
        raise RuntimeError("no log today")

    logger = logging.getLogger("trace_recorder")
    logger.addFilter(broken)
    try:
        run(tmp_path / "run.json", "second")
    finally:
        logger.removeFilter(broken)
    assert tasks(tmp_path) == {"run.json": "second", "run.1.json": "first"}
