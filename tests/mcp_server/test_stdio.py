"""The server's process: its pipes, its end, a run that is still being recorded, and what it needs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.many_runs import settle
from tests.chat_calls import asked, call, said
from tests.cli.invoking import invoke
from tests.mcp_server.connecting import ANSWER, COMMAND, ENVIRONMENT, Tools, connected
from tests.viewer.recorded import growing, record
from trace_recorder import TrajectoryRecorder

INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
STARTED = {"method": "notifications/initialized"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    record(tmp_path / "run.json", growing(2))
    return tmp_path


def lines_of(*messages: dict[str, Any]) -> str:
    """Return messages of the protocol as lines. A request gets its position as its id."""
    lines = []
    for number, message in enumerate(messages):
        identity = {} if message["method"].startswith("notifications") else {"id": number}
        lines.append(json.dumps({"jsonrpc": "2.0", **identity, **message}) + "\n")
    return "".join(lines)


@contextmanager
def server(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a server that has answered its first request."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([*COMMAND, str(directory)], env=ENVIRONMENT, text=True, **pipes)
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(lines_of(INITIALIZE, STARTED))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "trace-recorder"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server(directory: Path, number: signal.Signals) -> None:
    """Ctrl-C ends the server at once, although its client keeps stdin open, and without a traceback."""
    with server(directory) as process:
        process.send_signal(number)
        code = process.wait(60)
        assert process.stderr is not None

        assert (code, process.stderr.read()) == (0, "")


def test_requests_in_a_pipe_are_answered_before_the_end(directory: Path) -> None:
    """A script writes its requests and closes stdin. The server answers, ends, and writes only the protocol."""
    called = {"method": "tools/call", "params": {"name": "show_run", "arguments": {"run": "run.json"}}}
    done = subprocess.run(
        [*COMMAND, str(directory)],
        input=lines_of(INITIALIZE, STARTED, {"method": "tools/list"}, called) + "no message\n",
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    answers = {answer.get("id"): answer for answer in map(json.loads, done.stdout.splitlines())}

    assert done.returncode == 0
    assert len(answers[2]["result"]["tools"]) == 8
    match = ANSWER.fullmatch(answers[3]["result"]["content"][0]["text"])
    assert match is not None
    assert json.loads(match[3])["rows"] == 2


def test_a_client_that_is_gone_ends_the_server(directory: Path) -> None:
    """The server ends if nobody reads its answers."""
    with server(directory) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(lines_of({"method": "tools/list"}))
        process.stdin.flush()

        assert process.wait(60) == 0


def test_a_run_can_be_asked_about_while_it_is_recorded(tmp_path: Path) -> None:
    """Each answer has the calls that were recorded before it."""
    with connected(tmp_path) as client, TrajectoryRecorder(tmp_path / "run.json", task="count") as recorder:
        counts = []
        for number in range(3):
            call(recorder, asked(f"question {number}"), said(f"answer {number}"))
            run = client.data("show_run", run="run.json")
            counts.append((run["status"], run["rows"]))
            [match] = client.data("search_texts", text=f"answer {number}")["matches"]
            [part] = client.data("show_step", run="run.json", interaction=match["interaction"])["parts"]
            assert part["answer"] == [{"type": "text", "text": f"answer {number}"}]
        recorder.finalize(True)
        ended = client.data("list_runs")["runs"]

    assert counts == [("running", 1), ("running", 2), ("running", 3)]
    assert [(row["status"], row["success"]) for row in ended] == [("completed", True)]


def test_an_index_gives_the_same_answers(directory: Path, tmp_path: Path) -> None:
    """The server uses an index that is there, and answers as without one."""
    record(directory / "other.json", growing(3))
    settle(directory)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_runs", {"query": "tool:bash>1 fix"}),
        ("search_texts", {"text": "output"}),
        ("run_stats", {"query": "steps>2"}),
        ("run_stats", {}),
        ("run_stats", {"by": ["model"]}),
    ]
    without = [Tools(directory).data(name, **arguments) for name, arguments in calls]
    indexed = invoke("index", directory, "--json")
    tools = Tools(directory)
    assert [tools.data(name, **arguments) for name, arguments in calls] == without

    assert json.loads(indexed.stdout)["runs"] > 0


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """A file in place of a directory, and a missing package, are a sentence and no traceback."""
    (tmp_path / "file").write_text("")
    refused = invoke("mcp", tmp_path / "file")
    code = "import sys; sys.modules['mcp'] = None; from trace_recorder.cli import main; main()"
    command = [sys.executable, "-c", code, "mcp", str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    assert (refused.exit_code, "is not a directory" in refused.stderr) == (1, True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "trace-recorder: the MCP server needs the package mcp: pip install 'trace-recorder[mcp]'\n"
