"""The paths of files: two runs never have the same files, and no existing file is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest

from tests.processes import ROOT, python
from tests.storage.small_runs import run, tasks
from trace_recorder import TrajectoryPathError, TrajectoryRecorder, load
from trace_recorder.storage.paths import create_files, default_name, document_path_for, journal_path_for


@pytest.mark.parametrize(
    ("name", "document", "journal"),
    [
        ("run.json", "run.json", "run.jsonl"),
        ("run.jsonl", "run.json", "run.jsonl"),
        ("run", "run", "run.journal.jsonl"),
        ("run.v1", "run.v1", "run.v1.journal.jsonl"),
        ("a.b.json", "a.b.json", "a.b.jsonl"),
        ("run.journal.jsonl", "run", "run.journal.jsonl"),
        ("run.journal.json", "run.journal.json", "run.journal.json.journal.jsonl"),
    ],
)
def test_a_document_and_its_journal_lead_to_each_other(name: str, document: str, journal: str) -> None:
    """The path of a run's document gives that of its journal, and the other way round."""
    path = Path("d") / name

    assert (document_path_for(path), journal_path_for(document_path_for(path)), journal_path_for(path)) == (
        *(Path("d") / document, Path("d") / journal, Path("d") / journal),
    )


def test_the_default_name_is_the_local_time() -> None:
    """A run without a path is named after the second in which it begins."""
    assert default_name(datetime(2025, 6, 12, 22, 5, 46, 433797)) == "trajectory_20250612_220546.json"  # noqa: DTZ001


def test_runs_of_one_second_in_one_process_have_their_own_files(tmp_path: Path) -> None:
    """Many threads that start a run in the same second each have two complete files."""
    barrier = threading.Barrier(8)

    def record(number: int) -> None:
        recorder = TrajectoryRecorder(directory=tmp_path, task=f"task {number}")
        barrier.wait()
        recorder.start()
        recorder.finalize(success=True)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(tasks(tmp_path).values()) == [f"task {number}" for number in range(8)]


RECORD = """
import sys, time
from trace_recorder import TrajectoryRecorder
time.sleep(max(0, float(sys.argv[2]) - time.time()))
for number in range(50):
    with TrajectoryRecorder(%s, task=f"{sys.argv[3]} {number}"):
        pass
"""


@pytest.mark.parametrize("where", ["directory=sys.argv[1]", "sys.argv[1] + '/run.json'"], ids=["by time", "by path"])
def test_runs_of_many_processes_have_their_own_files(tmp_path: Path, where: str) -> None:
    """Three processes that each record fifty runs at the same path leave 150 pairs of files."""
    at = str(datetime.now().timestamp() + 1)  # noqa: DTZ005
    arguments = [sys.executable, "-c", RECORD % where, tmp_path, at]
    processes = [subprocess.Popen([*arguments, str(number)], cwd=ROOT) for number in range(3)]

    codes = [process.wait() for process in processes]

    assert codes == [0, 0, 0]
    assert sorted(tasks(tmp_path).values()) == sorted(
        f"{process} {number}" for process in range(3) for number in range(50)
    )


def test_a_path_in_use_stays_in_use(tmp_path: Path) -> None:
    """A run at the path of a running run gets a number, and both runs are complete."""
    first = TrajectoryRecorder(tmp_path / "run.json", task="first")
    first.start()

    second = run(tmp_path / "run.json", "second")

    first.annotate("still", "here")
    first.finalize()
    assert (second.trajectory_path.name, tasks(tmp_path)) == (
        "run.1.json",
        {"run.json": "first", "run.1.json": "second"},
    )


def test_a_document_without_a_journal_is_not_overwritten(tmp_path: Path) -> None:
    """A numbered document without a journal stays unchanged when a later run needs a number."""
    (tmp_path / "run.1.json").write_text("precious")
    first = TrajectoryRecorder(tmp_path / "run.json", task="first")
    first.start()

    run(tmp_path / "run.json", "second")

    assert (tmp_path / "run.1.json").read_text() == "precious"


def test_two_documents_never_share_a_journal(tmp_path: Path) -> None:
    """A path without a suffix and the same path with a suffix are two runs, each with its own journal."""
    names = ["run", "run.json", "run.journal", "run.journal.json", "run.journal.json.journal.json"]
    documents = [run(tmp_path / name, name).trajectory_path for name in names]

    assert [(document.name, load(document).task) for document in documents] == [(name, name) for name in names]


@pytest.mark.parametrize("ending", ["os._exit(0)", "sys.exit(0)"])
def test_a_child_forked_before_the_start_has_its_own_name(tmp_path: Path, ending: str) -> None:
    """A child that is forked before its recorder starts writes to a new name, not to that of its parent."""
    ended = python(
        f"""
        import os, sys
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(directory=sys.argv[1])
        recorder.get_trajectory_path()
        if os.fork() == 0:
            if sys.argv[2] == "records":
                recorder.start(task="child")
                recorder.finalize()
            {ending}
        os.wait()
        recorder.start(task="parent")
        recorder.finalize()
        """,
        tmp_path,
        "records" if "_exit" in ending else "does not",
    )

    assert ended.stderr == ""
    assert sorted(tasks(tmp_path).values()) == (["child", "parent"] if "_exit" in ending else ["parent"])


@pytest.mark.parametrize("path", [None, "runs/run.json"])
def test_a_change_of_the_directory_does_not_move_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    """The runs of a recorder, also in a forked child, are in the working directory of the recorder's creation."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    recorder = TrajectoryRecorder(path, directory="runs")
    monkeypatch.chdir(tmp_path / "elsewhere")

    for _ in range(2):
        recorder.start()
        child = os.fork()
        if child == 0:
            recorder.finalize()
            os._exit(0)
        os.waitpid(child, 0)
        recorder.finalize()

    assert (len([*(tmp_path / "runs").glob("*.json")]), [*(tmp_path / "elsewhere").iterdir()]) == (4, [])


def test_in_a_deleted_directory_a_relative_path_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a deleted working directory, a recorder can be created, but only be used with an absolute path."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(TrajectoryPathError, match="give another path"):
        TrajectoryRecorder("run.json", strict=True).start()
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.annotate("a", 1)

    assert load(tmp_path / "run.json").status == "completed"


def test_a_directory_as_a_path_is_refused(tmp_path: Path) -> None:
    """A directory as the path raises an error that says what to do instead, and no file is left."""
    recorder = TrajectoryRecorder(tmp_path)

    with pytest.raises(TrajectoryPathError, match="is a directory; give TrajectoryRecorder the path of a file"):
        recorder.start()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["x" * 300 + ".json", "a\0b.json", "file/run.json"], ids=["too long", "nul", "in a file"]
)
def test_an_impossible_path_is_refused(tmp_path: Path, name: str) -> None:
    """A path that the system refuses for any reason raises an exception of this package that names the path."""
    (tmp_path / "file").touch()

    with pytest.raises(TrajectoryPathError) as raised:
        TrajectoryRecorder(tmp_path / name).start()

    assert Path(name).name in str(raised.value).replace("\\x00", "\0")


def test_a_name_as_long_as_the_system_allows_is_used(tmp_path: Path) -> None:
    """A name of 254 characters is used, which leaves room for the journal's name."""
    recorder = run(tmp_path / ("x" * 249 + ".json"), "task")

    assert load(recorder.trajectory_path).task == "task"


@pytest.mark.parametrize("address", ["s3://bucket/run.json", "gs://bucket/runs/run.json", Path("s3://bucket/run.json")])
def test_an_address_is_refused_and_no_directory_of_its_name_is_made(
    address: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder at an address says that it records into local files."""
    monkeypatch.chdir(tmp_path)

    for recorder in (TrajectoryRecorder(address), TrajectoryRecorder(directory=str(Path(address).parent))):
        with pytest.raises(TrajectoryPathError, match=r"local directory, and copy its files.*: '(s3|gs)://bucket"):
            recorder.start(task="x")

    assert list(tmp_path.iterdir()) == []


def test_an_address_in_the_environment_leaves_the_agent_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The program did not choose the address, so it runs without files, and one line says why."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACE_RECORDER_DIR", "s3://bucket/runs")

    with TrajectoryRecorder(task="x"):
        pass

    assert list(tmp_path.iterdir()) == []
    assert "s3://bucket/runs" in caplog.text


def test_created_directories_are_excluded_from_version_control(tmp_path: Path) -> None:
    """A directory that the recorder creates has a .gitignore that excludes it; an existing directory gets none."""
    run(tmp_path / "new" / "deep" / "run.json", "task")
    run(tmp_path / "run.json", "task")

    ignored = {str(one.relative_to(tmp_path)): one.read_text() for one in tmp_path.rglob(".gitignore")}
    assert ignored == {"new/deep/.gitignore": "*\n"}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_only_the_owner_can_read_a_created_directory(tmp_path: Path, umask: int) -> None:
    """A directory that the recorder creates has the mode 0700 with any umask, and an existing one keeps its mode."""
    tmp_path.chmod(0o755)
    before = os.umask(umask)
    try:
        recorder = TrajectoryRecorder(directory=tmp_path / "a" / "b")
        recorder.start()
        recorder.finalize(success=True)
    finally:
        os.umask(before)

    modes = [one.stat().st_mode & 0o777 for one in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert modes == [0o755, 0o700, 0o700]


@pytest.mark.parametrize("name", ["run.json", "run.jsonl"])
@pytest.mark.parametrize("argument", ["run.json", "run.jsonl"])
def test_a_pipe_at_either_path_is_refused(tmp_path: Path, name: str, argument: str) -> None:
    """A pipe at the path of the document or journal is refused, because opening it would wait for a reader."""
    os.mkfifo(tmp_path / name)
    code = """
        import sys
        from trace_recorder import TrajectoryPathError, TrajectoryRecorder

        try:
            TrajectoryRecorder(sys.argv[1]).start()
        except TrajectoryPathError as error:
            print(error)
    """

    ended = python(code, tmp_path / argument)

    assert (ended.stdout, ended.stderr) == (
        *(f"[Errno 22] This path is not a file; give the path of a file: '{tmp_path / name}'\n", ""),
    )


def test_only_the_owner_can_read_both_files(tmp_path: Path) -> None:
    """Only the owner can read the document and the journal, whatever the umask."""
    before = os.umask(0)
    run(tmp_path / "run.json", "task")
    os.umask(before)

    modes = {one.name: oct(one.stat().st_mode & 0o777) for one in tmp_path.iterdir()}
    assert modes == {"run.json": "0o600", "run.jsonl": "0o600"}


def test_an_unused_reserved_name_is_freed(tmp_path: Path) -> None:
    """A recorder whose path was read but that never starts leaves no file."""
    recorder = TrajectoryRecorder(directory=tmp_path)
    reserved = [recorder.trajectory_path, recorder.trajectory_path]

    other = run_by_time(tmp_path)
    del recorder

    assert (reserved[0] == reserved[1], reserved[0] != other, list(tasks(tmp_path))) == (True, True, [other.name])


def run_by_time(directory: Path) -> Path:
    recorder = TrajectoryRecorder(directory=directory)
    recorder.start()
    recorder.finalize()
    return recorder.trajectory_path


def test_create_returns_the_path_of_the_document(tmp_path: Path) -> None:
    """A new run gets its path if the path is free, and otherwise the path with the first free number."""
    made = [create_files(tmp_path / "run.json", own=False, sync=False) for _ in range(3)]

    for _, journal in made:
        journal.close()
    assert [(document.name, journal.path.name) for document, journal in made] == [
        ("run.json", "run.jsonl"),
        ("run.1.json", "run.1.jsonl"),
        ("run.2.json", "run.2.jsonl"),
    ]
