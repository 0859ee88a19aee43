"""`import SERVICE --project NAME` as a program: killed in the middle, watching, without a key, with a progress bar."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.cli.terminal import Stderr
from tests.formats.services.stand_ins import LangfuseServer, serving
from tests.waiting import wait_until
from trace_recorder import load_all
from trace_recorder.cli.import_command import Importing
from trace_recorder.cli.output import Progress

needs_langfuse = pytest.mark.skipif(find_spec("langfuse") is None, reason="langfuse is not installed")
KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-public", "LANGFUSE_SECRET_KEY": "sk-lf-secret-key"}


def _started(address: str, out: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [
            sys.executable,
            "-m",
            "trace_recorder",
            "import",
            "langfuse",
            "--project",
            "demo",
            "-o",
            str(out),
            *arguments,
        ],
        env={**os.environ, **KEYS, "LANGFUSE_BASE_URL": address, "NO_PROXY": "*"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _wait_for_runs(out: Path, count: int) -> None:
    wait_until(lambda: len([*out.glob("*.json")]) >= count)


@needs_langfuse
def test_a_kill_leaves_whole_files_and_the_next_import_goes_on(tmp_path: Path) -> None:
    kept = LangfuseServer(25)
    with serving(kept) as address:
        for count in (3, 9, 16):
            importing = _started(address, tmp_path)
            _wait_for_runs(tmp_path, count)
            importing.send_signal(signal.SIGKILL)
            importing.communicate(timeout=60)
            assert importing.returncode == -signal.SIGKILL
            assert invoke("validate", tmp_path).exit_code == 0
            assert {run.status for run in load_all(tmp_path)} == {"completed"}
        whole = {path.stem.partition("-")[2] for path in tmp_path.glob("*.json")}
        kept.fetched.clear()
        importing = _started(address, tmp_path)
        output, _ = importing.communicate(timeout=60)
        assert importing.returncode == 0, output
        assert whole.isdisjoint(kept.fetched)
    assert f"{25 - len(whole)} runs written, {len(whole)} unchanged" in output
    assert sorted(run.trajectory_id for run in load_all(tmp_path)) == sorted(kept.ids)
    assert "secret" not in output


@needs_langfuse
def test_watching_a_project_fetches_what_is_new(tmp_path: Path) -> None:
    """The watching import goes on after the service was away for a while, and fetches no trace twice."""
    kept = LangfuseServer(2)
    with serving(kept) as address:
        watching = _started(address, tmp_path, "--watch")
        try:
            _wait_for_runs(tmp_path, 2)
            kept.fetched.clear()
            new = kept.add()
            _wait_for_runs(tmp_path, 3)
        finally:
            watching.send_signal(signal.SIGINT)
            output, _ = watching.communicate(timeout=60)
    assert (watching.returncode, set(kept.fetched)) == (0, {new}), output
    assert "3 runs written" in output
    assert "unchanged" not in output


@needs_langfuse
def test_watching_ends_if_the_service_refuses_the_first_request(tmp_path: Path) -> None:
    kept = LangfuseServer(1)
    kept.refuses = 401
    with serving(kept) as address:
        watching = _started(address, tmp_path, "--watch")
        output, _ = watching.communicate(timeout=60)
    assert watching.returncode == 1
    assert "langfuse:demo: the service refused the key (HTTP status 401)" in output
    assert "Traceback" not in output
    assert "secret" not in output


@needs_langfuse
def test_without_keys_the_variables_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    done = invoke("import", "langfuse", "--project", "demo", "-o", tmp_path)
    assert done.exit_code == 1
    assert "put them into the environment variables LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in done.output


@pytest.mark.skipif(find_spec("langsmith") is None, reason="langsmith is not installed")
def test_without_a_key_langsmith_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    done = invoke("import", "langsmith", "--project", "demo", "-o", tmp_path)
    assert done.exit_code == 1
    assert "put it into the environment variable LANGSMITH_API_KEY" in done.output


@pytest.mark.parametrize("service", ["langfuse", "langsmith", "mlflow", "phoenix"])
def test_a_client_that_is_not_installed_is_named(service: str, tmp_path: Path) -> None:
    if find_spec(service) is not None:
        pytest.skip(f"{service} is installed")
    done = invoke("import", service, "--project", "demo", "-o", tmp_path)
    assert done.exit_code == 1
    assert f"pip install 'trace-recorder[{service}]'" in done.output


@needs_langfuse
@pytest.mark.usefixtures("terminal")
def test_finished_traces_are_counted_on_a_terminal(tmp_path: Path) -> None:
    """The bar shows no total, because services do not say how many traces there are."""
    from httpx import Client
    from langfuse.api import LangfuseAPI

    from trace_recorder.formats.langfuse.service import Langfuse

    stderr, seconds = Stderr(is_terminal=True), iter(range(100))
    importing = Importing(
        tmp_path, lambda total: Progress(total, stderr, clock=lambda: float(next(seconds)), seconds_without=0)
    )
    with serving(LangfuseServer(3)) as address, Client() as http:
        client = LangfuseAPI(base_url=address, username="a", password="b", httpx_client=http)  # noqa: S106
        assert importing.fetch(Langfuse("demo", client))
    assert "3/?" in stderr.getvalue()
