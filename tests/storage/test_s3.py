"""Runs in a store with the protocol of S3, on a local moto server. `nox -s stores` runs these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import fsspec
import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder import load, load_all

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from tests.s3_server import CountedStore

pytest.importorskip("moto.server", reason="moto is not installed: nox -s stores")
pytest.importorskip("s3fs", reason="s3fs is not installed: nox -s stores")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of botocore


@pytest.fixture(scope="module")
def server() -> Iterator[CountedStore]:
    """Yield a store."""
    from tests.s3_server import serving

    with serving() as store:
        yield store


@pytest.fixture
def store(server: CountedStore, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of an empty bucket. The cache is empty."""
    server.reset()
    monkeypatch.setenv("TRACE_RECORDER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": server.url, "key": "k", "secret": "s"})
    bucket = f"bucket-{uuid4().hex}"
    fsspec.filesystem("s3").mkdir(bucket)
    return f"s3://{bucket}"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs in it and below it, one of them damaged."""
    for number in range(4):
        recorded(tmp_path / "runs" / "below" / f"run{number}.json", f"answer {number}", success=number > 0)
    recorded(tmp_path / "runs" / "run.json", "answer")
    (tmp_path / "runs" / "damaged.json").write_text("{")
    return tmp_path / "runs"


@pytest.mark.parametrize(
    "command",
    [
        ("list", "--json"),
        ("list", "--where", "is:failed"),
        ("stats", "--json"),
        ("validate", "--json"),
        ("grep", "answer", "--json"),
        ("find", "is:failed", "--paths"),
        ("export", "-f", "openai"),
        ("sql", "select content, status from calls order by 1", "--json"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_reads_a_store_like_a_directory(store: str, runs: Path, command: tuple[str, ...]) -> None:
    """A command has the same output, reports and exit code for a store, with URLs as paths."""
    fsspec.filesystem("s3").put(str(runs), f"{store}/runs", recursive=True)
    name, *options = command
    arguments = [options.pop(0)] if name in {"find", "grep", "sql"} else []
    here, there = (invoke(name, *arguments, where, *options) for where in (runs, f"{store}/runs"))

    expected = [text.replace(str(runs), str(Path(f"{store}/runs"))) for text in (here.stdout, here.stderr)]
    assert there.exit_code == here.exit_code
    assert [there.stdout, there.stderr] == expected


def test_tables_may_be_written_to_a_store(store: str, runs: Path, tmp_path: Path) -> None:
    """An export to a store writes the files of a directory."""
    (runs / "damaged.json").unlink()
    for out in (f"{store}/tables", tmp_path / "tables"):
        assert invoke("export", runs, "-f", "parquet", "-o", out).exit_code == 0
    files = fsspec.filesystem("s3")
    written = {path.partition("/tables/")[2]: files.cat_file(path) for path in files.find(f"{store}/tables")}

    assert written == {
        path.relative_to(tmp_path / "tables").as_posix(): path.read_bytes()
        for path in (tmp_path / "tables").rglob("*.parquet")
    }


def put(runs: Path, store: str) -> str:
    """Put a directory into a bucket, and return its address."""
    fsspec.filesystem("s3").put(str(runs), f"{store}/runs", recursive=True)
    return f"{store}/runs"


def test_a_second_command_only_lists(store: str, server: CountedStore, runs: Path) -> None:
    """The first command gets one file of each run, several at a time; the second one only lists."""
    (runs / "damaged.json").unlink()
    where = put(runs, store)
    counts = []
    for command in (["list", where], ["list", where], ["stats", where], ["stats", where], ["validate", where]):
        server.reset()
        assert invoke(*command).exit_code == 0
        counts.append(dict(server.requests))

    assert counts == [{"LIST": 1, "GET": 5}, {"LIST": 1}, {"LIST": 1, "GET": 5}, {"LIST": 1}, {"LIST": 1}]


def test_a_list_of_the_first_runs_gets_their_beginnings(store: str, server: CountedStore, tmp_path: Path) -> None:
    """A list of the first runs gets each beginning, and the files of the listed runs; the next one only lists."""
    for number in range(6):
        recorded(tmp_path / f"run{number}.json", "\n".join(f"line {number} of a log" for number in range(8000)))
    where = put(tmp_path, store)
    counts, sent = [], []
    for options in ([], [], ["--reverse"], ["--reverse"]):
        server.reset()
        assert invoke("list", where, "--limit", "2", *options).exit_code == 0
        counts.append(dict(server.requests))
        sent.append(server.sent_bytes)

    assert counts == [{"LIST": 1, "GET": 8}, {"LIST": 1}, {"LIST": 1, "GET": 2}, {"LIST": 1}]
    assert sent[0] < 2.2 * (tmp_path / "run0.json").stat().st_size


def test_one_run_is_asked_for_by_head(store: str, server: CountedStore, runs: Path) -> None:
    """`load` asks for the versions of both files, and gets the journal once."""
    where = put(runs, store)
    counts = []
    for _ in range(2):
        server.reset()
        assert load(f"{where}/run.json").llm_interactions == load(runs / "run.json").llm_interactions
        counts.append(dict(server.requests))

    assert counts == [{"HEAD": 2, "GET": 1}, {"HEAD": 2}]


def busy(_: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    """Answer as a store that has too many requests."""
    start_response("503 Slow Down", [("Content-Type", "application/xml")])
    return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]


def test_a_busy_store_is_asked_again(store: str, server: CountedStore, runs: Path) -> None:
    """A store that answers 503 a few times is asked again."""
    where = put(runs, store)
    times = iter(range(2))

    def busy_twice(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes] | None:
        if environ["PATH_INFO"].endswith("run.jsonl") and next(times, None) is not None:
            return busy(environ, start_response)
        return None

    server.fault = busy_twice
    assert load(f"{where}/run.json").status == "completed"


def test_a_body_that_is_cut_is_an_error(store: str, server: CountedStore, runs: Path) -> None:
    """A body that always ends early is an error that names the address; the copy is not kept."""
    where = put(runs, store)
    size = (runs / "run.jsonl").stat().st_size

    def cut(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes] | None:
        if environ["REQUEST_METHOD"] != "GET" or not environ["PATH_INFO"].endswith("run.jsonl"):
            return None
        start_response("200 OK", [("Content-Length", str(size)), ("Connection", "close")])
        return [(runs / "run.jsonl").read_bytes()[: size // 2]]

    server.fault = cut
    with pytest.raises(OSError, match="try again") as raised:
        load(f"{where}/run.json")
    assert raised.value.filename == f"{where}/run.json"
    server.fault = None
    assert load(f"{where}/run.json").status == "completed"


def test_a_file_that_changes_after_the_listing_is_read_as_it_is_now(
    store: str, server: CountedStore, runs: Path
) -> None:
    """If an object is replaced between the listing and the request, its new content is read."""
    where = put(runs, store)
    [expected] = load_all(runs / "below", where='"answer 3"')
    replacement = (runs / "below" / "run3.jsonl").read_bytes()

    def replace(kind: str, key: str) -> None:
        if kind == "GET" and key.endswith("/run.jsonl"):
            server.before = None
            fsspec.filesystem("s3").pipe_file(f"{where}/run.jsonl", replacement)

    server.before = replace
    by_name = {run.path.name: run for run in load_all(where, strict=False) if run.path}
    assert by_name["run.json"].llm_interactions == expected.llm_interactions


def test_missing_buckets_and_credentials_are_reported(
    store: str, server: CountedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing bucket, a refusal and missing credentials are sentences that name the address and say what to do."""
    missing = invoke("list", "s3://no-such-bucket/runs")

    def refuse(_: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]

    server.fault = refuse
    refused = invoke("list", f"{store}/runs")
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": server.url})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    unknown = invoke("list", f"{store}/runs")

    path = Path(f"{store}/runs")
    assert [result.exit_code for result in (missing, refused, unknown)] == [1, 1, 1]
    assert missing.stderr == "trace-recorder: s3:/no-such-bucket/runs: No such file, directory or bucket\n"
    assert refused.stderr.startswith(f"trace-recorder: {path}: The store refused access (")
    assert unknown.stderr.startswith(f"trace-recorder: {path}: There are no credentials (")
    assert "set AWS_ACCESS_KEY_ID" in unknown.stderr
    assert "check the credentials" in refused.stderr
