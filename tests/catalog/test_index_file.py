"""The file of an index: damage to the file makes no answer wrong, and deleted runs are removed from it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.catalog.many_runs import make_runs, record_run, settle
from tests.cli.invoking import invoke, recorded
from tests.faults.unlucky import UnavailableError, immutable_directory
from trace_recorder import errors, load_all, open_index
from trace_recorder.catalog.index import IndexTask, KeptRun, NotKept, RunIndex, kept_run
from trace_recorder.catalog.index_file import INDEX_NAME, reading
from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.values.messages import Payload

QUERIES = ("alpha", "tool:bash", "-success:yes", 'text~"code 1"')
KILLS = int(os.environ.get("TRACE_RECORDER_INDEX_KILLS", "4"))
CODE = "import sys; from trace_recorder import open_index; open_index(sys.argv[1], sys.argv[2]).update()"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("runs"), 12)


@pytest.fixture(scope="module")
def answers(directory: Path) -> list[list[Path | None]]:
    """Return the answers to the queries by reading all runs."""
    return [[run.path for run in load_all(directory, where=query, strict=False)] for query in QUERIES]


def asked(directory: Path, index: Path) -> list[list[Path]]:
    """Return the answers to the queries with an index."""
    return [[*open_index(directory, index).find(query)] for query in QUERIES]


def is_used(directory: Path, index: Path) -> bool:
    """Return whether readers use an index."""
    with reading(index, directory) as tables:
        return tables is not None


@pytest.mark.parametrize("places", [("s3://bucket/runs",), (Path("s3://bucket/runs"),), ("runs", "s3://bucket/index")])
def test_an_index_is_refused_at_an_address(places: tuple[str | Path, ...]) -> None:
    with pytest.raises(errors.TrajectoryPathError, match=r"copy the runs into a local directory.*'s3://bucket/"):
        open_index(*places)


def cut(data: bytes, chosen: random.Random) -> bytes:
    """Return the first part of a file."""
    return data[: chosen.randrange(len(data))]


def scrambled(data: bytes, chosen: random.Random) -> bytes:
    """Return the bytes of a file with some of them changed."""
    changed = bytearray(data)
    for _ in range(chosen.randint(1, 40)):
        changed[chosen.randrange(len(changed))] = chosen.randrange(256)
    return bytes(changed)


def without_pages(data: bytes, chosen: random.Random) -> bytes:
    """Return a file with a page of zeros."""
    page = chosen.randrange(len(data) // 4096)
    return data[: page * 4096] + bytes(4096) + data[(page + 1) * 4096 :]


@pytest.mark.parametrize("damage", [cut, scrambled, without_pages])
def test_a_damaged_index_gives_no_wrong_answer(
    directory: Path, tmp_path: Path, answers: list[list[Path]], damage: Callable[[bytes, random.Random], bytes]
) -> None:
    """Readers ignore a damaged index, and the next indexer writes it again."""
    path = tmp_path / "index"
    index = open_index(directory, path)
    index.update()
    for seed in range(2):
        path.write_bytes(damage(path.read_bytes(), random.Random(seed)))
        assert not is_used(directory, path)
        assert asked(directory, path) == answers
        index.update()
        assert is_used(directory, path)
        assert asked(directory, path) == answers


def write_often(directory: Path, path: Path) -> None:
    """Update an index with a transaction for each run, so that a kill often comes within a transaction."""
    open_index(directory, path).update(transaction_runs=1)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_a_killed_indexer_causes_no_wrong_answer(directory: Path, tmp_path: Path, answers: list[list[Path]]) -> None:
    """After an indexer was killed at any moment, even several times, answers are right, and the next indexer completes
    the index.
    """
    path = tmp_path / "index"
    chosen, context = random.Random(5), multiprocessing.get_context("fork")
    begun, states = time.monotonic(), []
    write_often(directory, path)
    needed = time.monotonic() - begun
    for _ in range(KILLS):
        path.unlink(missing_ok=True)
        for _ in range(2):
            process = context.Process(target=write_often, args=(directory, path))
            process.start()
            time.sleep(chosen.random() * needed * 1.2)
            process.kill()
            process.join()
            states.append(is_used(directory, path))
            assert asked(directory, path) == answers
    assert open_index(directory, path).update().runs == 13
    assert asked(directory, path) == answers
    assert KILLS < 20 or {*states} == {True, False}


def test_several_simultaneous_indexers_write_one_index(
    directory: Path, tmp_path: Path, answers: list[list[Path]]
) -> None:
    """Several indexers write the same index one after another, and a reader gets right answers meanwhile."""
    path = tmp_path / "index"
    processes = [subprocess.Popen([sys.executable, "-c", CODE, directory, path]) for _ in range(2)]
    while any(process.poll() is None for process in processes):
        assert asked(directory, path) == answers

    assert [process.returncode for process in processes] == [0, 0]
    assert is_used(directory, path)
    assert asked(directory, path) == answers


def test_only_changed_runs_are_read(tmp_path: Path) -> None:
    """An update reads only changed runs, and removes deleted ones from the index."""
    make_runs(tmp_path, 6)
    index = open_index(tmp_path)
    first, second = index.update(), index.update()
    recorded(tmp_path / "new.json")
    (tmp_path / "run0.json").unlink()
    (tmp_path / "run0.jsonl").unlink()
    settle(tmp_path / "below")
    os.utime(tmp_path / "new.json", (1e9, 1e9))
    os.utime(tmp_path / "new.jsonl", (1e9, 1e9))
    third = index.update()

    assert (first.runs, first.read, second.runs, second.read) == (7, 8, 7, 1)
    assert (third.runs, third.removed, third.read) == (7, 1, 6)


def bytes_and_contents(index: RunIndex) -> bytes:
    """Return the bytes of an index, and the texts that it has compressed."""
    return index.path.read_bytes() + "\n".join(index.contents()).encode()


def test_deleted_runs_leave_no_text_in_the_index(tmp_path: Path) -> None:
    """The file of the index has no row and no text of a deleted run, and no text of a version with fewer masks."""
    for name, word in (("a", "keptword"), ("b", "secretone"), ("c", "secrettwo")):
        recorded(tmp_path / f"{name}.json", f"the {word} here", metadata={"k": word})
    settle(tmp_path)
    index = open_index(tmp_path)
    index.update()
    before = bytes_and_contents(index)
    for path in tmp_path.glob("b.json*"):
        path.unlink()
    for path in tmp_path.glob("c.json*"):
        path.write_bytes(path.read_bytes().replace(b"secrettwo", b"*********"))
    settle(tmp_path)
    index.update()
    after = bytes_and_contents(index)
    with closing(sqlite3.connect(index.path)) as connection:
        rows = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("runs", "files", "kept")]  # noqa: S608

    words = (b"keptword", b"secretone", b"secrettwo")
    assert [word in before for word in words] == [True, True, True]
    assert [word in after for word in words] == [True, False, False]
    assert rows == [(1,)] * 3  # the changed lines of c are damaged, and a damaged run is not kept
    assert [*tmp_path.glob(f"{INDEX_NAME}?*")] == []


def test_only_the_owner_can_read_an_index_and_readers_do_not_write_it(tmp_path: Path) -> None:
    """Only the owner can read an index, and a reader writes no file, with or without an index."""
    recorded(tmp_path / "a.json", "alpha")
    settle(tmp_path)
    invoke("find", "alpha", tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    invoke("index", tmp_path)
    path = tmp_path / INDEX_NAME
    state = path.stat()
    for command in (["find", "alpha"], ["list"], ["stats"], ["grep", "alpha"]):
        invoke(*command, tmp_path)

    assert INDEX_NAME not in before
    assert stat.S_IMODE(state.st_mode) == 0o600
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (state.st_mtime_ns, state.st_size)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([*before, INDEX_NAME])


def test_an_index_that_cannot_be_written_is_reported_in_one_sentence(directory: Path, tmp_path: Path) -> None:
    """One sentence reports that the directory is missing, or that another program prevents the write."""
    missing = invoke("index", directory, "--index", tmp_path / "none" / "index")
    (tmp_path / "index").mkdir()
    taken = invoke("index", directory, "--index", tmp_path / "index")

    assert [result.exit_code for result in (missing, taken)] == [1, 1]
    assert "No such file or directory" in missing.stderr
    assert "Is a directory" in taken.stderr


def test_for_a_read_only_directory_the_option_is_named(tmp_path: Path) -> None:
    """The message about a read-only directory names the option for an index elsewhere; that about another place does
    not.
    """
    recorded(tmp_path / "runs" / "run.json", "alpha")
    try:
        with immutable_directory(tmp_path / "runs"):
            refused = invoke("index", tmp_path / "runs")
            there = invoke("index", tmp_path / "runs", "--index", tmp_path / "runs" / "elsewhere")
            indexed = invoke("index", tmp_path / "runs", "--index", tmp_path / "index")
    except UnavailableError as error:
        pytest.skip(str(error))

    assert (refused.exit_code, refused.stderr.endswith(". --index FILE puts the index elsewhere\n")) == (1, True)
    assert (there.exit_code, "--index FILE" in there.stderr) == (1, False)
    assert indexed.exit_code == 0


def test_a_damaged_index_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader does not wait for a damaged index if no indexer works."""
    recorded(tmp_path / "run.json", "alpha")
    settle(tmp_path)
    open_index(tmp_path).update()
    os.utime(tmp_path / INDEX_NAME, (1e9, 1e9))
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    assert [*open_index(tmp_path).find("alpha")] == [tmp_path / "run.json"]
    assert pauses == []


@pytest.mark.skipif(sys.platform == "win32", reason="it has no locks of this kind")
def test_without_locks_an_indexer_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without locks, a reader waits a moment, because an indexer may be at work."""
    recorded(tmp_path / "run.json", "alpha")
    settle(tmp_path)
    open_index(tmp_path).update()
    sealed = (tmp_path / INDEX_NAME).stat().st_mtime_ns
    os.utime(tmp_path / INDEX_NAME, (1e9, 1e9))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr(time, "sleep", lambda _: os.utime(tmp_path / INDEX_NAME, ns=(sealed, sealed)))

    assert is_used(tmp_path, tmp_path / INDEX_NAME)


@pytest.mark.parametrize("is_database", [False, True])
def test_a_user_s_file_is_never_overwritten(tmp_path: Path, is_database: bool) -> None:
    """A run, a database, or a link to one at the path of the index is not overwritten."""
    run = recorded(tmp_path / "run.json", "alpha")
    other = run
    if is_database:
        other = tmp_path / "app.sqlite3"
        with closing(sqlite3.connect(other)) as connection:
            connection.execute("CREATE TABLE mine (number)")
    before = other.read_bytes()
    (tmp_path / INDEX_NAME).symlink_to(other)
    results = [invoke("index", tmp_path, "--index", other), invoke("index", tmp_path)]

    assert [result.exit_code for result in results] == [1, 1]
    assert all("is not an index" in result.stderr for result in results)
    assert other.read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes")
def test_a_directory_with_a_name_that_is_not_unicode_can_have_an_index(tmp_path: Path) -> None:
    """A directory whose name is not Unicode can have an index, which is used and updated."""
    place = tmp_path / os.fsdecode(b"r\xff")
    recorded(place / "run.json", "alpha")
    settle(place)
    index = open_index(place)

    assert [index.update().read for _ in range(2)] == [1, 0]
    assert is_used(place, index.path)
    assert [*index.find("alpha")] == [place / "run.json"]


def test_an_index_moves_with_its_directory(tmp_path: Path) -> None:
    """An index is still valid after its directory was moved.

    An index outside of its directory is valid for this directory only.
    """
    make_runs(tmp_path / "old", 3)
    open_index(tmp_path / "old").update()
    open_index(tmp_path / "old", tmp_path / "index").update()
    (tmp_path / "old").rename(tmp_path / "new")

    assert is_used(tmp_path / "new", tmp_path / "new" / INDEX_NAME)
    assert not is_used(tmp_path / "new", tmp_path / "index")
    assert open_index(tmp_path / "new").update().read == 1


def test_a_common_text_is_stored_once(tmp_path: Path) -> None:
    """A text that many runs have, even in different directories, is stored once."""
    for number in range(20):
        recorded(tmp_path / f"{number % 2}" / f"{number}.json", "the same answer " * 50)
    settle(tmp_path)
    index = open_index(tmp_path)
    index.update()

    assert [*index.contents()].count("the same answer " * 50) == 1


def test_a_run_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """A run that changes while the indexer reads it is read again for the next answer."""
    record_run(tmp_path / "run.json", 1)
    settle(tmp_path)
    index = open_index(tmp_path)

    def read_all(
        work: Callable[[IndexTask], KeptRun | NotKept], tasks: Iterable[IndexTask]
    ) -> Iterator[KeptRun | NotKept]:
        for task in tasks:
            kept = work(task)
            recorded(tmp_path / "run.json", "omega")
            yield kept

    index.update(read_all)

    assert [path.name for path in index.find("omega")] == ["run.json"]


def test_a_run_that_changed_just_now_is_not_kept_yet(tmp_path: Path) -> None:
    """A run whose files changed less than a tenth of a second before it is read may change again unnoticed."""
    record_run(tmp_path / "run.json", 0)
    path, seconds = tmp_path / "run.json", 0.1

    def kept_after(age_ns: int) -> KeptRun | NotKept:
        changed = time.time_ns() - age_ns
        return kept_run(IndexTask(path, b"run.json", FilesState(changed, path.stat().st_size, changed, 0)))

    assert isinstance(kept_after(10**10), KeptRun)
    began, just_now = time.time(), kept_after(0)
    while time.time() - began > seconds:  # this process had to wait, so the change was not just now
        began, just_now = time.time(), kept_after(0)
    assert just_now is NotKept.NEW


UNCLEAR = {
    "task": "another task",
    "status": "interrupted",
    "success": True,
    "provider": "another",
    "model": None,
    "start_time": "2020-01-01T00:00:00+00:00",
    "execution_time": 1e6,
    "trajectory_id": "another",
    "parent": "another",
    "session": "another",
    "error": {"type": "RuntimeError", "message": "another"},
    "metadata": {"another": 1},
    "metrics": {"llm_calls": 77},
    "rewards": [{"name": "solved", "value": 0.25, "weight": 1.0}],
}
"""A value for each member of a document that the list shows, which the journal does not state."""
THE_SAME: dict[str, Payload] = {
    "final_result": "another",
    "annotations": {"another": 1},
    "end_time": None,
    "unknown": 1,
    "metrics": {},
    "success": "yes",
}
"""Changes of a document for which the list shows the values of the journal, or does not use the document."""


@pytest.mark.parametrize(
    ("member", "value", "is_clear"),
    [(*pair, False) for pair in UNCLEAR.items()] + [(*pair, True) for pair in THE_SAME.items()],
)
@pytest.mark.parametrize("number", [0, 1], ids=["failed", "completed"])
def test_a_run_whose_document_differs_from_its_journal_is_not_kept(
    tmp_path: Path, member: str, value: Payload, number: int, *, is_clear: bool
) -> None:
    """The list shows what the document states, so an index has no run whose files disagree about that."""
    path = tmp_path / "run.json"
    record_run(path, number)
    document = {**json.loads(path.read_bytes()), member: value}
    members = ",\n".join(f"{json.dumps(name)}: {json.dumps(stated)}" for name, stated in document.items())
    task = IndexTask(path, b"run.json", FilesState(0, 0, 0, 0))
    assert isinstance(kept_run(task), KeptRun)

    path.write_text(f"{{\n{members}\n}}")

    kept = kept_run(task)
    assert isinstance(kept, KeptRun) if is_clear else kept is NotKept.UNCLEAR
