"""Which runs `prune` deletes, what of them it deletes, and what it leaves."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq
import pytest

from tests.catalog.many_runs import settle
from tests.cli.invoking import invoke
from tests.data.written import Writing
from tests.faults.unlucky import UnavailableError, immutable_journal
from tests.processes import ROOT
from tests.retention.stored import fork_of, places_of, store, tree
from trace_recorder import load, open_index, prune
from trace_recorder.errors import QueryError
from trace_recorder.recording.amend import append_annotation
from trace_recorder.retention.choice import StayReason
from trace_recorder.retention.pruning import Pruning
from trace_recorder.retention.removal import remove_runs
from trace_recorder.storage.paths import crc_of_name

OPEN_RUN = """
import sys
from trace_recorder import TrajectoryRecorder
with TrajectoryRecorder(sys.argv[1], task="open", metadata={"old": 1}):
    print("open", flush=True)
    sys.stdin.read()
"""


def named(pruning: Pruning) -> tuple[list[str], dict[str, StayReason]]:
    """Return the names of the runs that go, and why the others stay, by name."""
    return [run.path.name for run in pruning.runs], {run.path.name: run.reason for run in pruning.staying}


def there(directory: Path) -> list[str]:
    """Return the names of the files of runs in a directory."""
    return sorted(path.name for path in directory.glob("*.json*"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with two old runs and a new run, an index and tables."""
    directory = tmp_path / "runs"
    store(directory / "a.json", "planted in a", metadata={"old": 1}, days=90)
    store(directory / "below" / "b.json", "planted in b", metadata={"old": 1}, days=60)
    store(directory / "c.json", "kept in c")
    settle(directory)
    for form in ("tables", "scout"):
        tables = directory / "below" / form
        assert invoke("export", directory, "-f", "parquet", "--form", form, "-o", tables).exit_code == 0
    assert open_index(directory).update().runs == 3
    return directory


# ── what goes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_yes_no_byte_changes(directory: Path) -> None:
    """A dry run names the same runs as the deletion, and leaves each file, its time and its inode."""
    before = tree(directory)
    plan = prune(directory, where="meta:old")
    assert (tree(directory), named(plan), plan.is_done) == (before, (["a.json", "b.json"], {}), False)

    done = prune(directory, where="meta:old", yes=True)
    assert (named(done), done.size, done.is_done) == (named(plan), plan.size, True)


def test_a_run_goes_with_its_texts_in_the_index_and_in_tables(directory: Path) -> None:
    """No file has a text of the deleted runs. The other run, its entry and its rows are as they were."""
    kept = {name: file for name, file in tree(directory).items() if name.startswith("c.")}
    places = places_of("kept in c", directory)
    assert {"a.json", "a.jsonl", ".trace-recorder.sqlite3"} < {*places_of("planted in a", directory)}

    prune(directory, where="meta:old", yes=True)

    assert places_of("planted", directory) == []
    assert places_of("kept in c", directory) == places
    assert {name: file for name, file in tree(directory).items() if name.startswith("c.")} == kept
    assert [path.name for path in open_index(directory).find("calls>0")] == ["c.json"]
    assert open_index(directory).update().read == 0


def test_temporary_files_of_dead_processes_go_with_their_run(directory: Path) -> None:
    """A half-written document or journal of a run goes. Those of other runs and of living processes stay."""
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    temporary = {
        run: directory / f".{int(dead.stdout)}.{crc_of_name(directory / f'{run}.json')}.tmp" for run in ("a", "c")
    }
    living = directory / f".{os.getpid()}.{crc_of_name(directory / 'a.json')}.tmp"
    copy = directory / ".0123456789abcdef.tmp"
    for path in (*temporary.values(), living):
        path.write_text("planted in a")
    shutil.copy(directory / "a.jsonl", copy)

    prune(directory, where="meta:old", yes=True)

    left = {path.name for path in directory.glob(".*.tmp")}
    assert left == {temporary["c"].name, living.name}


def test_a_run_that_was_moved_aside_is_a_run_like_others(tmp_path: Path) -> None:
    for name in ("run.json", "run.1.json", "run.2.json"):
        store(tmp_path / name, metadata={"of": name})

    prune(tmp_path, where="meta:of=run.1.json", yes=True)

    assert there(tmp_path) == ["run.2.json", "run.2.jsonl", "run.json", "run.jsonl"]


def test_a_journal_or_a_document_alone_goes(tmp_path: Path) -> None:
    store(tmp_path / "document.json").with_suffix(".jsonl").unlink()
    store(tmp_path / "journal.json").unlink()
    store(tmp_path / "unusual.name")

    prune(tmp_path, where="calls>0", yes=True)

    assert [path.name for path in tmp_path.iterdir()] == []


def test_indexes_of_parent_directories_and_elsewhere_lose_the_texts(directory: Path, tmp_path: Path) -> None:
    """Every index that is found at its default path above a run loses the run, and so does the one that is named."""
    elsewhere = tmp_path / "elsewhere" / "index"
    elsewhere.parent.mkdir()
    open_index(directory, elsewhere).update()
    open_index(tmp_path).update()

    prune(directory / "below", where="meta:old", yes=True)
    assert places_of("planted in b", tmp_path) == ["elsewhere/index"]
    prune(directory, where="meta:old", index=elsewhere, yes=True)
    assert places_of("planted", tmp_path) == []


def test_a_damaged_index_is_emptied(directory: Path) -> None:
    """An index that no reader uses loses all texts, and the next indexer fills it."""
    os.utime(directory / ".trace-recorder.sqlite3", (1, 1))

    prune(directory, where="meta:old", yes=True)

    assert (places_of("planted", directory), open_index(directory).update().runs) == ([], 1)


def test_tables_elsewhere_are_named_by_hand(directory: Path, tmp_path: Path) -> None:
    """Tables that are not below the directory lose the rows only if they are named. Copies of a run lose theirs too."""
    tables = shutil.copytree(directory / "below" / "tables", tmp_path / "tables")
    shutil.rmtree(directory / "below" / "scout")

    assert prune(directory, where="id:a", yes=True).tables == [directory / "below" / "tables"]
    assert places_of("planted in a", tables) != []
    store(directory / "a.json", "planted in a")
    prune(directory, where="id:a", tables=[tables], yes=True)
    assert (places_of("planted in a", tmp_path), places_of("planted in b", tables) != []) == ([], True)


def test_a_wrong_path_of_tables_stops_the_deletion(directory: Path, tmp_path: Path) -> None:
    """Otherwise the run would go, and its rows would stay in tables that nobody names again."""
    before = tree(tmp_path)
    for wrong in (tmp_path / "nowhere", directory / "below" / "tables" / "runs" / "part-00000.parquet"):
        done = invoke("prune", directory, "--where", "meta:old", "--tables", wrong, "--yes")
        assert (done.exit_code, done.stderr) == (
            1,
            f"trace-recorder: {wrong}: there are no tables here; name their directory. Nothing was deleted\n",
        )
    assert tree(tmp_path) == before
    below = prune(directory, where="meta:old", tables=directory / "below").tables
    assert sorted(below) == [directory / "below" / "scout", directory / "below" / "tables"]


def test_one_text_is_one_query_to_keep(directory: Path) -> None:
    """The letters of the text are not queries, which would keep no run."""
    assert named(prune(directory, where="meta:old", keep="id:a")) == (["b.json"], {"a.json": "kept"})


def test_files_of_other_programs_that_look_like_tables_stay(directory: Path) -> None:
    """Parquet files in directories of the same names stay, and so does everything beside them."""
    other = directory / "other"
    for table in ("runs", "calls"):
        (other / table).mkdir(parents=True)
        pq.write_table(
            pyarrow.table({"trajectory_id": ["a"], "file": ["a.json"]}), other / table / "part-00000.parquet"
        )
    (other / "calls" / ".part-00001.parquet.x.tmp").write_text("theirs")
    (other / "runs" / "part-00000.parquet").unlink()
    before = tree(other)

    prune(directory, where="meta:old", yes=True)

    assert tree(other) == before


# ── what stays ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_another_process_writes_stays(directory: Path) -> None:
    command = [sys.executable, "-c", OPEN_RUN, str(directory / "open.json")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        during = prune(directory, where="meta:old", yes=True)
        writer.communicate()

    assert named(during) == (["a.json", "b.json"], {"open.json": "running"})
    assert load(directory / "open.json").status == "completed"
    assert named(prune(directory, where="meta:old", yes=True)) == (["open.json"], {})


def test_a_run_that_may_be_open_on_another_host_stays(tmp_path: Path) -> None:
    Writing(tmp_path / "run.jsonl", host="elsewhere").journal.close()

    assert named(prune(tmp_path, max_size=0, yes=True)) == ([], {"run.jsonl": "unknown"})
    assert there(tmp_path) == ["run.jsonl"]


def test_a_run_that_is_amended_meanwhile_stays(directory: Path) -> None:
    """A run whose lock another process takes after the choice keeps its files, and the failure is named."""
    with (directory / "a.jsonl").open("rb") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        done = prune(directory, where="meta:old", yes=True)

    assert (named(done), [*done.failures]) == ((["b.json"], {}), [directory / "a.json"])
    assert there(directory) == ["a.json", "a.jsonl", "c.json", "c.jsonl"]


def test_a_run_whose_document_is_written_meanwhile_stays(directory: Path) -> None:
    """`recover` writes the document of a run after the choice. Then the run is neither whole nor gone without it."""
    document = (directory / "a.json").read_bytes()
    (directory / "a.json").unlink()
    plan = prune(directory, where="meta:old")
    (directory / "a.json").write_bytes(document)
    failures = remove_runs(plan.runs, [], [])

    assert {path.name: str(failure).split(", ")[-1] for path, failure in failures.items()} == {
        "a.jsonl": "because it has changed since it was selected. Try again."
    }
    assert there(directory) == ["a.json", "a.jsonl", "c.json", "c.jsonl"]


@pytest.mark.parametrize(
    "reference",
    [
        fork_of("parent"),
        {"parent": "parent"},
        {"replay_of": "parent", "metadata": {"replay_of": {"trajectory_id": "parent", "file": "parent.jsonl"}}},
    ],
    ids=["fork", "sub-run", "replay"],
)
@pytest.mark.parametrize("with_index", [False, True])
def test_a_run_to_which_a_staying_run_refers_stays(
    tmp_path: Path, reference: dict[str, object], with_index: bool
) -> None:
    """If both go, both may go. A chain of references keeps each run in it."""
    store(tmp_path / "parent.json", days=3)
    store(tmp_path / "child.json", days=2, **reference)
    store(tmp_path / "grandchild.json", days=1, **fork_of("child"))
    settle(tmp_path)
    if with_index:
        assert open_index(tmp_path).update().runs == 3

    (tmp_path / "damaged.json").write_text('{\n"task": 1')
    beside = prune(tmp_path / "parent.json", where="calls>0")
    assert (named(beside), beside.failures) == (([], {"parent.json": "referred"}), {})
    (tmp_path / "damaged.json").unlink()
    kept = prune(tmp_path, where="calls>0", keep=["id:grandchild"])
    assert named(kept) == (
        [],
        {"grandchild.json": "kept", "child.json": "referred", "parent.json": "referred"},
    )
    done = prune(tmp_path, where="calls>0", yes=True)
    assert (named(done), there(tmp_path)) == ((["parent.json", "child.json", "grandchild.json"], {}), [])


def test_links_and_files_of_others_stay(tmp_path: Path) -> None:
    """A linked run, a run beside which another program has its file, and another tool's run stay."""
    runs = tmp_path / "runs"
    target = store(tmp_path / "target.json")
    store(runs / "a.json").with_suffix(".jsonl").write_text('{"prompt": "p", "completion": "c"}\n')
    (runs / "linked.json").symlink_to(target)
    (runs / "notes.json").write_text("{}")
    before = tree(tmp_path)

    done = prune(runs, max_size=0, yes=True)

    assert named(done) == ([], {"a.json": "other file", "linked.json": "link", "notes.json": "foreign"})
    assert tree(tmp_path) == before


def test_the_journal_decides_if_its_document_is_older(tmp_path: Path) -> None:
    """A tag that is in the journal, but not yet in the document, keeps its run: a process may be killed in between."""
    path = store(tmp_path / "run.json", days=9)
    document = path.read_bytes()
    append_annotation(path, "tags", ["audit"])
    path.write_bytes(document)

    assert named(prune(tmp_path, where="older:1d", keep=["tag:audit"], yes=True)) == ([], {"run.json": "kept"})
    assert prune(tmp_path, where="-tag:audit").unmatched == 1
    (tmp_path / "retention.toml").write_text('[[keep]]\nwhere = "tag:audit"\nmin_age = "52w"\n')
    assert named(prune(tmp_path, where="older:1d", yes=True)) == ([], {"run.json": "young"})


def test_runs_of_a_directory_whose_path_has_two_forms_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files by relative and absolute paths, and a link beside its target, are runs of one directory."""
    for name in ("a", "b", "c"):
        store(tmp_path / f"{name}.json")
    (tmp_path / "b.json").unlink()
    (tmp_path / "a_link.jsonl").symlink_to("b.jsonl")
    monkeypatch.chdir(tmp_path)

    done = prune("a.json", tmp_path / "b.jsonl", tmp_path / "a_link.jsonl", where="calls>0", yes=True)

    assert named(done) == (["a.json", "b.jsonl"], {"a_link.jsonl": "link"})
    assert there(tmp_path) == ["a_link.jsonl", "c.json", "c.jsonl"]


def test_runs_go_until_the_others_fit(tmp_path: Path) -> None:
    """The oldest go first, and a run that a younger one needs goes with it."""
    for days, name in enumerate(("newest", "middle", "oldest")):
        store(tmp_path / f"{name}.json", days=days)
    store(tmp_path / "needed.json", days=9)
    store(tmp_path / "needing.json", days=1.5, **fork_of("needed"))
    sizes = {run.path.stem: run.size for run in prune(tmp_path, max_size=0).runs}
    total = sum(sizes.values())

    def going(max_size: int) -> list[str]:
        return [run.path.stem for run in prune(tmp_path, max_size=max_size).runs]

    assert going(total) == []
    assert going(total - 1) == ["oldest"]
    assert going(total - sizes["oldest"] - 1) == ["needed", "oldest", "needing"]
    assert going(sizes["newest"]) == ["needed", "oldest", "needing", "middle"]
    plan = prune(tmp_path, where="id:middle", max_size=0)
    assert (named(plan), plan.unmatched, plan.size_before) == ((["middle.json"], {}), 4, total)


def test_a_known_run_is_not_read(directory: Path) -> None:
    """A choice by facts that the index has gives the same, even if the files have other contents in the meantime."""
    plan = named(prune(directory, where='text~"planted" until:30d'))
    for path in directory.rglob("*.json*"):
        state, content = path.stat(), path.read_bytes()
        path.write_bytes(content[:30] + b"?" * (len(content) - 30))
        os.utime(path, ns=(state.st_mtime_ns, state.st_mtime_ns))

    assert named(prune(directory, where='text~"planted" until:30d')) == plan == (["a.json", "b.json"], {})


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    """The journal, which cannot be deleted, is a whole run. The other run goes."""
    store(tmp_path / "run.json")
    store(tmp_path / "other.json")
    try:
        with immutable_journal(tmp_path):
            done = invoke("prune", tmp_path, "--where", "calls>0", "--yes")
    except UnavailableError as error:
        pytest.skip(str(error))

    assert (done.exit_code, "run.jsonl: Operation not permitted" in done.stderr) == (1, True)
    assert there(tmp_path) == ["run.jsonl"]
    assert invoke("recover", tmp_path).exit_code == 0


def test_tables_that_cannot_be_changed_stop_the_deletion(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process writes the tables, or pyarrow is missing, nothing is deleted."""
    before = tree(directory)
    lock = os.open(directory / "below" / "tables" / "runs", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    locked = invoke("prune", directory, "--where", "meta:old", "--yes")
    os.close(lock)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    missing = invoke("prune", directory, "--where", "meta:old", "--yes")

    assert (locked.exit_code, missing.exit_code, tree(directory)) == (1, 1, before)
    assert "another process writes into these tables. Try again later. Nothing was deleted" in locked.stderr
    assert "Tables need pyarrow" in missing.stderr


def test_prune_needs_a_path_and_a_choice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a query"):
        prune(tmp_path)
    with pytest.raises(ValueError, match="needs the path"):
        prune(where="calls>0")
    with pytest.raises(FileNotFoundError):
        prune(tmp_path / "nowhere", max_size=0)


@pytest.mark.parametrize("queries", [{"where": ""}, {"where": " ", "max_size": 1}, {"where": "calls>0", "keep": [""]}])
def test_an_empty_query_is_refused(tmp_path: Path, queries: dict[str, Any]) -> None:
    """The variable of a shell that is not set does not select every run."""
    store(tmp_path / "run.json")
    with pytest.raises(QueryError, match="the query is empty, and would match every run"):
        prune(tmp_path, **queries, yes=True)


def test_an_index_needs_its_directory(directory: Path, tmp_path: Path) -> None:
    """An index elsewhere names runs relative to its directory, so it cannot lose the texts of other paths."""
    open_index(directory, tmp_path / "index").update()
    for paths in ([directory / "a.json"], [directory, directory / "below"]):
        with pytest.raises(ValueError, match="belongs to one directory"):
            prune(*paths, where="meta:old", index=tmp_path / "index", yes=True)
