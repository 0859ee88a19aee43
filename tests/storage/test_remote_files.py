"""Runs at URLs of fsspec are found, read and named like those of a directory, and each version is fetched once.

The store is fsspec's, in memory, with counts. `test_s3.py` has a store with the protocol of S3.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.cli.invoking import invoke, recorded
from trace_recorder import load, load_all
from trace_recorder.errors import MissingExtraError, TrajectoryFormatError, UnreadableRunsError
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.local_copies import copied_ahead, local_copy, local_directory
from trace_recorder.storage.remote_files import remote_runs
from trace_recorder.storage.run_files import runs_in_directory


class CountedMemory(MemoryFileSystem):
    """A file system in memory that counts what is asked of it. The content of all of its instances is the same."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    asked: ClassVar[Counter[str]] = Counter()
    fetched: ClassVar[list[str]] = []
    """The names of the files whose content was sent, as `name` or `name[start:end]`."""
    barrier: threading.Barrier | None = None
    before_get: Any = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).replace("counted://", "memory://"))

    def find(self, path: str, **options: Any) -> Any:
        self.asked["find"] += 1
        return super().find(path, **options)

    def get_file(self, rpath: str, lpath: str, **options: Any) -> None:
        self.fetched.append(rpath.rpartition("/")[2])
        if self.barrier is not None:
            self.barrier.wait(60)
        if self.before_get is not None:
            type(self).before_get(rpath)
        super().get_file(rpath, lpath, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self.fetched.append(f"{path.rpartition('/')[2]}[{start}:{end}]")
        content: bytes = super().cat_file(path, start, end, **options)
        return content


@pytest.fixture(autouse=True)
def counted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> type[CountedMemory]:
    """Return the counted file system, empty, and with an empty cache."""
    fsspec.register_implementation("counted", CountedMemory, clobber=True)
    monkeypatch.setenv("TRACE_RECORDER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(CountedMemory, "store", {})
    monkeypatch.setattr(CountedMemory, "pseudo_dirs", [""])
    monkeypatch.setattr(CountedMemory, "asked", Counter())
    monkeypatch.setattr(CountedMemory, "fetched", [])
    return CountedMemory


def put(directory: Path) -> str:
    """Put the files of a directory that are new or changed into the counted store, and return their address."""
    store = CountedMemory()
    for path in filter(Path.is_file, directory.rglob("*")):
        name = f"/there/{path.relative_to(directory).as_posix()}"
        if not store.exists(name) or store.cat(name) != path.read_bytes():
            store.pipe_file(name, path.read_bytes())
    fetched()
    return "counted://there"


def fetched() -> list[str]:
    """Return what was fetched since the last call, sorted."""
    names = sorted(CountedMemory.fetched)
    CountedMemory.fetched.clear()
    CountedMemory.asked.clear()
    return names


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs in it and below it, one of them damaged, and other files."""
    for name in ("b", "a", "below/c", "below.1/d", "below/deeper/e"):
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        recorded(tmp_path / "runs" / f"{name}.json", f"answer {name}")
    (tmp_path / "runs" / "b.json").unlink()
    (tmp_path / "runs" / "damaged.json").write_text("{")
    (tmp_path / "runs" / "notes.txt").write_text("no run")
    (tmp_path / "runs" / ".hidden").mkdir()
    recorded(tmp_path / "runs" / ".hidden" / "f.json")
    return tmp_path / "runs"


@pytest.fixture
def address(runs: Path) -> Iterator[str]:
    """Yield a URL with the same runs in fsspec's memory."""
    memory = fsspec.filesystem("memory")
    memory.put(str(runs), "/runs", recursive=True)
    yield "memory://runs"
    memory.rm("/runs", recursive=True)


def named(text: str, runs: Path) -> str:
    """Return the output for the directory with the URL in its place."""
    return text.replace(str(runs), "memory:/runs")


def test_the_runs_of_a_url_equal_those_of_a_directory(runs: Path, address: str) -> None:
    """A URL has the same runs as the directory, in the same order, without hidden ones; the URL of a file gives that
    file.
    """
    found = [str(path) for path in remote_runs(address)]

    assert found == [named(str(path), runs) for path in runs_in_directory(runs)]
    assert remote_runs(f"{address}/a.json") == [Path("memory:/runs/a.json")]


@pytest.mark.parametrize(
    "command",
    [
        ("list", "--json"),
        ("list", "--limit", "2"),
        ("list", "--where", "task:ask"),
        ("list", "--where", "text~answer", "--sort", "cost"),
        ("stats", "--json"),
        ("stats", "--jobs", "2"),
        ("validate", "--json"),
        ("export", "-f", "openai"),
        ("sql", "select file, content, status from calls order by 1", "--json"),
    ],
)
def test_a_command_reads_a_url_like_a_directory(runs: Path, address: str, command: tuple[str, ...]) -> None:
    """A command has the same output, reports and exit code for a URL, with paths that begin with the URL."""
    there, here = (invoke(*command, where) for where in (address, runs))

    printed = named(here.stdout, runs), named(here.stderr, runs)
    assert (there.exit_code, there.stdout, there.stderr) == (here.exit_code, *printed)


def test_find_searches_a_url_like_a_directory(runs: Path, address: str) -> None:
    """`find` has the same paths and reports for a URL as for a directory."""
    there, here = (invoke("find", "--paths", "answer", where) for where in (address, runs))

    assert here.stdout
    assert (there.exit_code, there.stdout) == (here.exit_code, named(here.stdout, runs))
    assert there.stderr == named(here.stderr, runs)


def test_a_missing_url_is_reported(address: str) -> None:
    """A missing URL, or one with an unknown scheme, is reported in one sentence."""
    missing, unknown = invoke("stats", "memory://nothing/run.json"), invoke("stats", "nosuch://runs")

    assert (missing.exit_code, len(missing.stderr.splitlines())) == (1, 1)
    assert (unknown.exit_code, len(unknown.stderr.splitlines())) == (1, 1)


def test_rewards_cannot_be_appended_at_a_url(address: str, tmp_path: Path) -> None:
    """A reward for a run at a URL is refused, because rewards are appended only to local files."""
    (tmp_path / "rewards.py").write_text("def good(trajectory):\n    return 1\n")
    result = invoke("score", f"{address}/a.json", "--reward", f"{tmp_path / 'rewards.py'}:good")

    assert result.exit_code == 1
    assert "memory://runs/a.json is an address" in result.stderr


@pytest.mark.parametrize(("name", "out"), [("parquet", "out"), ("trae", "out/"), ("openai", "out/rows.jsonl")])
def test_an_export_may_be_written_to_a_url(address: str, tmp_path: Path, name: str, out: str) -> None:
    """An export to a URL writes the files of a directory, and replaces existing ones only if asked."""
    memory = fsspec.filesystem("memory")
    results = [
        invoke("export", f"{address}/a.json", "-f", name, "-o", f"memory://{out}", *more)
        for more in ([], [], ["--force"], ["--resume"])
    ]
    invoke("export", f"{address}/a.json", "-f", name, "-o", tmp_path / out)
    found = {path: memory.cat_file(path) for path in memory.find("/out")}
    memory.rm("/out", recursive=True)

    assert [result.exit_code for result in results] == [0, 1, 0, 2]
    assert found == {
        f"/{path.relative_to(tmp_path)}": path.read_bytes()
        for path in (tmp_path / "out").rglob("*.*")
        if path.is_file()
    }


def test_replacing_tables_removes_older_parts(address: str) -> None:
    """An export that replaces tables removes older parts, whose rows would count twice, and keeps other files."""
    memory = fsspec.filesystem("memory")
    for name in ("part-00000.parquet", "part-00001.parquet", "notes.txt"):
        memory.pipe_file(f"/out/runs/{name}", b"old")
    result = invoke("export", f"{address}/a.json", "-f", "parquet", "-o", "memory://out", "--force")
    files = {path: memory.cat_file(path) for path in memory.find("/out/runs")}
    memory.rm("/out", recursive=True)

    assert result.exit_code == 0
    assert sorted(files) == ["/out/runs/notes.txt", "/out/runs/part-00000.parquet"]
    assert files["/out/runs/part-00000.parquet"] != b"old"


def test_a_path_is_not_a_url(tmp_path: Path) -> None:
    """A Windows path, and a path with a colon, are not URLs."""
    (tmp_path / "s3:").mkdir()

    assert [remote_address(Path(one)) for one in ("runs", "/a/b.json", "c:/runs", f"{tmp_path}/s3:")] == [None] * 4
    assert [remote_address(Path(one)) for one in ("s3://b/r", "hf://datasets/o/n/a.json", "file:///tmp/a")] == [
        "s3://b/r",
        "hf://datasets/o/n/a.json",
        "file:///tmp/a",
    ]


# ── what is fetched ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return a directory with three runs. The document of `long` is larger than what is fetched as a whole."""
    for name in ("a", "b"):
        recorded(tmp_path / "three" / f"{name}.json", f"answer {name}")
    recorded(tmp_path / "three" / "long.json", "\n".join(f"line {number} of a log" for number in range(8000)))
    return tmp_path / "three"


def test_a_list_fetches_the_ends_of_documents(three: Path) -> None:
    """A list in the order of a figure gets no journal, and of a long document only the ends; the next one gets
    nothing.
    """
    address = put(three)
    size = (three / "long.json").stat().st_size
    options = ("--sort", "tokens", "--limit", "1", "--json")
    first = invoke("list", address, *options)

    assert json.loads(first.stdout) == json.loads(
        invoke("list", three, *options).stdout.replace(str(three), "counted:/there")
    )
    assert fetched() == ["a.json", "b.json", "long.json[0:16384]", f"long.json[{size - 16384}:{size}]"]
    assert invoke("list", address, *options).stdout == first.stdout
    assert (CountedMemory.asked["find"], fetched()) == (1, [])


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize(
    ("options", "shown"), [((), ["long", "long2"]), (("--reverse",), ["long4", "long3"])], ids=["oldest", "newest"]
)
def test_the_first_runs_are_found_by_their_beginnings(
    tmp_path: Path, options: tuple[str, ...], shown: list[str], suffix: str
) -> None:
    """A list of the first runs in the order of time gets the beginning of each file, and only the listed runs whole."""
    names = ["long", "long2", "long3", "long4"]
    for name in names:
        recorded(tmp_path / "runs" / f"{name}.json", "\n".join(f"line {number} of a log" for number in range(8000)))
        (tmp_path / "runs" / name).with_suffix({".json": ".jsonl", ".jsonl": ".json"}[suffix]).unlink()
    address = put(tmp_path / "runs")
    first = invoke("list", address, "--limit", "2", "--json", *options)

    local = invoke("list", tmp_path / "runs", "--limit", "2", "--json", *options)
    assert first.stdout == local.stdout.replace(str(tmp_path / "runs"), "counted:/there")
    assert fetched() == sorted([*(f"{name}{suffix}[0:4096]" for name in names), *(f"{name}{suffix}" for name in shown)])
    assert invoke("list", address, "--limit", "2", "--json", *options).stdout == first.stdout
    assert fetched() == []


def earlier(directory: Path, days: int) -> None:
    """Make the only run of a directory begin some days earlier, and move it to the store, with the time of its end."""
    [document] = directory.glob("*.json")
    began = datetime.fromisoformat(load(document).start_time or "")
    text = document.read_text().replace(began.date().isoformat(), (began - timedelta(days)).date().isoformat())
    store = CountedMemory()
    store.pipe_file(f"/there/{document.name}", text.encode())
    store.store[f"/there/{document.name}"].created = began - timedelta(days) + timedelta(minutes=5)


def test_runs_that_ended_before_the_newest_began_are_not_fetched(tmp_path: Path) -> None:
    """If the newest runs come first, those whose files changed before them are not fetched: by `list` and `show`."""
    for number in range(40):
        recorded(tmp_path / f"{number}" / f"run{number:02}.json", f"answer {number}")
        earlier(tmp_path / f"{number}", 39 - number)
    listed = json.loads(invoke("list", "counted://there", "--reverse", "--limit", "2", "--json").stdout)
    names = {*fetched()}
    shown = invoke("show", "counted://there").stdout

    assert [row["file"] for row in listed["trajectories"]] == ["run39.json", "run38.json"]
    assert names == {f"run{number:02}.json" for number in range(24, 40)}
    assert "answer 39" in shown
    assert fetched() == []


def test_a_first_run_that_cannot_be_read_leaves_its_place_to_the_next(three: Path) -> None:
    """If the oldest run states its start and is damaged behind, the list has the next run, and says why."""
    document = (three / "a.json").read_bytes()
    (three / "a.jsonl").unlink()
    (three / "a.json").write_bytes(document[: document.index(b"llm_interactions") + 40])
    there, here = (invoke("list", place, "--limit", "1") for place in (put(three), three))

    assert "b.json" in there.stdout
    assert "Not shown" in there.stdout
    assert there.stdout.replace("counted:/there", str(three)) == here.stdout


def test_ended_runs_are_read_from_their_journals_once(three: Path) -> None:
    """A reader of whole runs gets the journals; the next command gets only the run that changed."""
    address = put(three)
    figures = invoke("stats", address, "--json").stdout

    assert figures == invoke("stats", three, "--json").stdout
    assert fetched() == ["a.jsonl", "b.jsonl", "long.jsonl"]
    assert invoke("stats", address, "--json").stdout == figures
    assert fetched() == []

    for file in (three / "b.json", three / "b.jsonl"):
        file.unlink()
    recorded(three / "b.json", "another answer")
    put(three)
    assert invoke("grep", "another answer", address, "-l").stdout.split() == ["counted:/there/b.json"]
    assert fetched() == ["b.jsonl"]


def test_load_reads_an_address(three: Path) -> None:
    """`load` of an address gives the run of the file, under the address, and asks for its version each time."""
    address, here = put(three), load(three / "a.json")
    there = load(f"{address}/a.json")

    assert there.path == Path("counted:/there/a.json")
    assert there == replace(here, path=there.path)
    assert [run.task for run in load_all(address)] == [run.task for run in load_all(three)]
    assert len([*load_all(address, where='"answer b"')]) == 1
    assert load(Path(f"{address}/a.jsonl")).llm_interactions == here.llm_interactions
    fetched()
    CountedMemory().pipe_file("/there/a.jsonl", (three / "b.jsonl").read_bytes())
    assert load(f"{address}/a.json").llm_interactions[0].response != here.llm_interactions[0].response
    assert fetched() == ["a.jsonl"]


def test_a_run_without_an_end_is_interrupted(tmp_path: Path) -> None:
    """A run whose journal has no end is read with its document beside it, as one of a directory is."""
    recorded(tmp_path / "cut" / "run.json")
    journal = tmp_path / "cut" / "run.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    address, here = put(tmp_path / "cut"), load(tmp_path / "cut" / "run.json")
    there = load(f"{address}/run.json")

    assert (there.status, there.gaps) == ("interrupted", here.gaps)
    assert here.gaps
    assert fetched() == ["run.json", "run.jsonl"]


def test_several_files_are_fetched_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen files are fetched at the same time: each waits until the others have begun."""
    for number in range(32):
        recorded(tmp_path / "many" / f"{number}.json")
    address = put(tmp_path / "many")
    monkeypatch.setattr(CountedMemory, "barrier", threading.Barrier(16))

    assert len([*load_all(address)]) == 32


def test_a_file_that_changes_is_read_in_one_version(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changed between the listing and the request is read as it is now, and not kept as the old version."""
    address = put(three)

    def change(name: str) -> None:
        monkeypatch.setattr(CountedMemory, "before_get", None)
        CountedMemory().pipe_file(name, (three / "long.jsonl").read_bytes())

    monkeypatch.setattr(CountedMemory, "before_get", change)
    run = load(f"{address}/a.json")

    assert run.llm_interactions == load(three / "long.json").llm_interactions
    assert fetched() == ["a.jsonl", "a.jsonl"]
    assert load(f"{address}/a.json").llm_interactions == run.llm_interactions
    assert fetched() == []


def test_a_file_that_always_changes_is_reported(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes during each request is an error that says so, and says what to do."""
    address = put(three)
    contents = iter(range(100))
    monkeypatch.setattr(
        CountedMemory, "before_get", lambda name: CountedMemory().pipe_file(name, b"%d" % next(contents))
    )

    with pytest.raises(OSError, match="it changed 3 times while it was read; try again later") as raised:
        load(f"{address}/a.json")
    assert raised.value.filename == f"{address}/a.json"


def test_copies_are_bounded_and_follow_the_store(three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies that were used last stay within the limit; those of runs that are gone from the store go."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("TRACE_RECORDER_CACHE", str(cache))
    monkeypatch.setenv("TRACE_RECORDER_CACHE_BYTES", "1000")
    address = put(three)
    assert invoke("stats", address).exit_code == 0
    unused = cache / "in-use" / f"{2**22 + 1}-killed"
    unused.mkdir()
    script = "import sys, fsspec; sys.path.insert(0, '.'); from trace_recorder.storage.copy_cache import CopyCache; "
    script += "from pathlib import Path; c = CopyCache(Path(sys.argv[1]), 1000); f = Path(sys.argv[1], 'x'); "
    script += "f.write_bytes(b'x'); c.add(f, c.version('p', 'r', 'v'), 'r.json')"
    subprocess.run([sys.executable, "-c", script, cache], check=True)

    kept = [path.name for path in cache.rglob("*.json*") if path.is_file()]
    assert len(kept) == 1  # the sweep left nothing of the three runs, and the new copy came after it
    assert not unused.exists()
    CountedMemory().rm("/there/a.json")
    CountedMemory().rm("/there/a.jsonl")
    invoke("stats", address)
    invoke("list", address)
    assert not [path for path in cache.rglob("a.json*") if path.is_file()]
    assert stat_mode(cache / "copies") == 0o700


def stat_mode(path: Path) -> int:
    """Return the permissions of a path."""
    return path.stat().st_mode & 0o777


def test_a_reader_keeps_what_others_remove(three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is being read stays, even if another process removes all copies; then it is fetched again."""
    monkeypatch.setenv("TRACE_RECORDER_CACHE", str(tmp_path / "cache"))
    path = Path(f"{put(three)}/a.json")
    with local_copy(path) as local:
        shutil.rmtree(tmp_path / "cache" / "copies")
        assert local.read_bytes() == (three / "a.json").read_bytes()
    with local_copy(path) as local:
        assert local.with_suffix(".jsonl").read_bytes() == (three / "a.jsonl").read_bytes()
    assert not [*(tmp_path / "cache" / "in-use").iterdir()]


def test_a_directory_that_cannot_be_written_is_no_obstacle(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place for the cache, the copies are in a temporary directory."""
    monkeypatch.setenv("TRACE_RECORDER_CACHE", str(three / "a.json" / "no directory"))
    assert load(f"{put(three)}/b.json").status == "completed"


# ── other uses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_commands_read_addresses(three: Path, tmp_path: Path) -> None:
    """`show`, `diff`, `check` and `share` read runs and directories at addresses."""
    address = put(three)
    for command in (["show"], ["diff"], ["check", "--against"]):
        name, *option = command
        results = []
        for where in (three, address):
            paths = [f"{where}/a.json", *option, f"{where}/b.json"] if name != "show" else [where]
            results.append(invoke(name, *paths))
        here, there = results
        assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout.replace(str(three), "counted:/there"))
        assert there.stdout
    result = invoke("share", address, "--content", "full", "--yes", "-o", tmp_path / "shared.zip")
    assert result.exit_code == 0, result.stderr
    assert len([*load_all(tmp_path / "shared.zip")]) == 3
    assert not list((three / "..").glob("copy-*"))


def test_sql_reads_exported_tables_at_an_address(three: Path, tmp_path: Path) -> None:
    """`sql` gets only the files of the tables that a query names."""
    pytest.importorskip("duckdb")
    assert invoke("export", three, "-f", "parquet", "-o", tmp_path / "tables").exit_code == 0
    address = put(tmp_path / "tables")
    query = "select task, count(*) as runs from runs group by all"

    assert invoke("sql", query, address, "--json").stdout == invoke("sql", query, tmp_path / "tables", "--json").stdout
    assert fetched() == ["part-00000.parquet"]
    invoke("sql", query, address)
    assert fetched() == []


@pytest.mark.parametrize(
    "command", ["recover", "prune --where is:failed", "redact --text-from x", "index", "tail", "replay", "serve"]
)
def test_commands_that_write_in_place_refuse_addresses(three: Path, command: str, tmp_path: Path) -> None:
    """A command that changes files in place says that it needs a local directory, and what to do."""
    address = put(three)
    name, *options = command.split()
    if name == "redact":
        (tmp_path / "x").write_text("x")
        options = ["--text-from", str(tmp_path / "x")]
    arguments = [address, "--", "true"] if name == "replay" else [address, *options]
    result = invoke(name, *arguments)

    assert result.exit_code in {1, 2}
    assert result.stderr == (
        f"trace-recorder: {address} is an address, and `{name}` works on local files only: copy the runs into a "
        "directory first, and copy changed files back afterwards\n"
    )
    assert fetched() == []


def test_errors_name_the_address(three: Path) -> None:
    """Missing files, unknown schemes and damaged files are reported with the address, in the type of `load`."""
    address = put(three)
    CountedMemory().pipe_file("/there/damaged.json", b"{")
    with pytest.raises(FileNotFoundError, match="No such file, directory or bucket") as missing:
        load(f"{address}/none.json")
    with pytest.raises(FileNotFoundError):
        load_all("counted://nothing")
    with pytest.raises(TrajectoryFormatError, match=r"counted:/there/damaged\.json is not a trajectory"):
        load(f"{address}/damaged.json")
    with pytest.raises(UnreadableRunsError, match="damaged"):
        [*load_all(address)]
    with pytest.raises(MissingExtraError, match="gs://x needs a package that is not installed"):
        load_all("gs://x")

    assert missing.value.filename == f"{address}/none.json"


def test_tasks_without_addresses_are_passed_on_one_by_one() -> None:
    """Local tasks are not read ahead, because their order and their number are the caller's affair."""
    taken = []

    def tasks() -> Iterator[object]:
        for task in (1, Path("a"), (Path("b"), "b")):
            taken.append(task)
            yield task

    for number, task in enumerate(copied_ahead(tasks()), 1):
        assert task == taken[-1]
        assert len(taken) == number


def test_local_work_imports_no_remote_files(three: Path) -> None:
    """Reading local runs imports neither fsspec nor the module that reads addresses."""
    code = "import sys, trace_recorder as t; [*t.load_all(sys.argv[1])]; import trace_recorder.cli.list_command; "
    code += (
        "print([name for name in sys.modules if name.startswith(('fsspec', 's3fs', 'botocore')) or 'remote' in name])"
    )
    result = subprocess.run([sys.executable, "-c", code, three], check=True, capture_output=True, env=dict(os.environ))

    assert result.stdout.strip() == b"[]"


def test_a_directory_of_copies_has_the_runs(runs: Path, three: Path) -> None:
    """Programs that work on a directory, such as the viewer, get all runs of an address under their relative paths."""
    with local_directory(Path(put(runs))) as copied:
        names = [path.relative_to(copied) for path in runs_in_directory(copied)]
        assert names == [path.relative_to(runs) for path in runs_in_directory(runs)]
        assert (copied / "below" / "c.jsonl").read_bytes() == (runs / "below" / "c.jsonl").read_bytes()
    assert not copied.exists()
    with local_directory(three) as here:
        assert here == three
