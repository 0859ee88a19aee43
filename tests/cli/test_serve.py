"""`trace-recorder serve`: a process that answers from a run until the process is ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.ending import ended_while_printing
from tests.cli.invoking import invoke
from tests.processes import ROOT
from tests.provider import serving
from tests.rerun.runs import ask, client, said
from trace_recorder import TrajectoryRecorder


@dataclass
class Served:
    """A running `trace-recorder serve`: its first output, and a method that ends it."""

    process: subprocess.Popen[str]
    lines: list[str]

    @property
    def url(self) -> str:
        """Return the base URL that the server prints for the OpenAI SDK."""
        return self.lines[1].removeprefix("OPENAI_BASE_URL=")

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """End the server, and return its exit code and its stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@contextmanager
def served(path: Path, *options: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "trace_recorder", "serve", str(path), *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, **streams) as process:
        try:
            assert process.stdout is not None
            yield Served(process, [process.stdout.readline().rstrip() for _ in range(2)])
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run of two calls."""
    with serving(said("one"), said("two")) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with client(f"{server.url}/v1") as made:
            [ask(recorder.wrap(made), text) for text in ("a", "b")]
    return tmp_path / "run.json"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_served_until_the_server_is_ended(number: int, path: Path) -> None:
    """The server prints its address and the variable for an SDK. It exits with 0 because all calls were asked for."""
    with served(path) as server:
        with client(server.url) as made:
            assert (ask(made, "b"), ask(made, "a")) == ("two", "one")
        assert server.end(number) == (0, "")

    assert re.fullmatch(r"2 calls of run\.jsonl at http://127\.0\.0\.1:\d+, until Ctrl-C", server.lines[0])


def test_a_signal_while_the_addresses_are_printed_ends_the_server(path: Path) -> None:
    """The server reports that no call was asked for. With `--loose` this is not a failure."""
    code, errors = ended_while_printing(["serve", str(path), "--loose"], path.parent, {"PYTHONPATH": str(ROOT)})
    assert (code, errors) == (0, "trace-recorder: run.jsonl has calls that nobody asked for: llm_1, llm_2\n")


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--loose"], 0)])
def test_requests_and_calls_without_a_match_are_reported(options: list[str], code: int, path: Path) -> None:
    """The server reports an unrecorded request at once, and the calls that nobody asked for at the end."""
    with served(path, *options) as server:
        with client(server.url) as made:
            ask(made, "a")
            with pytest.raises(Exception, match="404"):
                ask(made, "c")
        ended, errors = server.end()

    assert ended == code
    assert errors.splitlines() == [
        "trace-recorder: run.jsonl has no answer to this request (openai-chat). The nearest is llm_2:",
        "  ~ messages[0].content: [-b-]{+c+}",
        "trace-recorder: run.jsonl has calls that nobody asked for: llm_2",
    ]


def test_ignored_members_may_differ_and_the_port_is_an_option(path: Path) -> None:
    """`serve` takes --ignore, --port, and a directory, of which it serves the newest run."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with served(path.parent, "--port", str(port), "--ignore", "messages[0].content") as server:
        assert server.url == f"http://127.0.0.1:{port}/v1"
        with client(server.url) as made:
            assert ask(made, "anything") == "one"


def test_invalid_arguments_of_serve_are_refused(path: Path) -> None:
    """`serve` refuses a port in use, a file that is not a run, an unknown path in --ignore, and a speed of zero."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = [
            invoke("serve", *arguments)
            for arguments in (
                [path, "--port", port],
                [path.parent / "nowhere.json"],
                [path, "--ignore", "[0]"],
                [path, "--speed", 0],
            )
        ]

    assert [one.exit_code for one in done] == [1, 1, 2, 2]
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use" in done[0].stderr
