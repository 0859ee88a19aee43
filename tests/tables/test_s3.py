"""Runs in a store with the protocol of S3, on a local moto server. `nox -s ray` runs these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from tests.cli.invoking import invoke, recorded

moto = pytest.importorskip("moto.server", reason="moto is not installed: nox -s ray")
pytest.importorskip("s3fs", reason="s3fs is not installed: nox -s ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of botocore


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield the URL of the server."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of an empty bucket."""
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": server, "key": "k", "secret": "s"})
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
