"""`trace-recorder mcp-tap` passes every byte, ends as its server ends, and records the messages."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from tests.capture.mcp_calls import KEY, SERVER
from tests.chat_calls import said
from tests.provider import Answer, Server
from tests.proxy.running import PATH, proxying
from trace_recorder import load_all
from trace_recorder.capture.proxy_header import PROXY_VARIABLE
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

SUMS = [sys.executable, "-I", "-S", str(SERVER)]
TAP = [sys.executable, "-m", "trace_recorder", "mcp-tap", "--name", "sums", "--"]
ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line)"


def ran(
    server: Sequence[str],
    directory: Path,
    client_bytes: bytes,
    *,
    tapped: bool = True,
    variables: Mapping[str, str] = {},
) -> subprocess.CompletedProcess[bytes]:
    """Run a server to its end."""
    arguments = [*(TAP if tapped else ()), *server]
    environment = {**os.environ, **variables}
    return subprocess.run(
        arguments, cwd=directory, env=environment, input=client_bytes, capture_output=True, timeout=300, check=False
    )


def lines(*messages: Payload) -> bytes:
    """Return messages as they go over the pipe."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def asking(identity: object, tool: str, meta: Payload = None, **arguments: Payload) -> Payload:
    """Return the call of a tool."""
    params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
    return {"id": identity, "method": "tools/call", "params": params}


HELLO = {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}


def only_run(directory: Path) -> Trajectory:
    """Return the only run in a directory."""
    [run] = load_all(directory / "trajectories")
    return run


def test_all_bytes_pass(tmp_path: Path) -> None:
    """Lines of any bytes and any length pass in both directions, the last one without a newline too."""
    source = random.Random(7)
    client_bytes = b"\n".join(
        [b"", b"\r", source.randbytes(5000), b"x" * 3_000_000, b"\xff\x00", b'{"jsonrpc":"2.0"}', b"end"]
    )

    plain = ran([sys.executable, "-c", ECHO], tmp_path, client_bytes, tapped=False)
    tapped = ran([sys.executable, "-c", ECHO], tmp_path, client_bytes)

    assert (tapped.stdout, tapped.stderr, tapped.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    assert tapped.stdout == client_bytes


ENDS = {
    "its input ends": "import sys; sys.stdin.read()",
    "exit 3": "import sys; print('no', file=sys.stderr); sys.exit(3)",
    "signal 9": "import os; os.kill(os.getpid(), 9)",
    "signal 2": "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)",
    "its output is closed before": "import os, sys; os.close(1); sys.stdin.read(); os._exit(4)",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_tap_ends_as_its_server(end: str, tmp_path: Path) -> None:
    """The exit code, the signal and the standard error are those of the server."""
    server = [sys.executable, "-c", ENDS[end]]

    plain, tapped = ran(server, tmp_path, b"", tapped=False), ran(server, tmp_path, b"")

    assert (tapped.returncode, tapped.stderr) == (plain.returncode, plain.stderr)


WRITING = """
import os, time
try:
    while True:
        os.write(1, b"{}\\n")
        time.sleep(0.01)
except BrokenPipeError:
    os._exit(5)
"""


@pytest.mark.parametrize("before", [[], TAP])
def test_a_client_that_closes_its_end_is_seen_by_the_server(before: list[str], tmp_path: Path) -> None:
    """The server cannot write any more, as without the tap."""
    command = [*before, sys.executable, "-c", WRITING]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tap:
        assert tap.stdout is not None
        tap.stdout.readline()
        tap.stdout.close()
        assert tap.wait(60) == 5


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_to_the_tap_is_a_signal_to_the_server(name: str, tmp_path: Path) -> None:
    """The server decides what it does."""
    number = getattr(signal, name)
    server = (
        f"import os, signal, time\nsignal.signal({int(number)}, lambda *_: os._exit(6))\nprint('{{}}', flush=True)\n"
    )
    begin = "import os, signal, sys\n"  # tests under `nohup` ignore a hangup, and so would the tap
    begin += f"signal.signal({int(number)}, signal.SIG_DFL)\nos.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", begin, *TAP, sys.executable, "-c", server + "while True: time.sleep(1)"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tap:
        assert tap.stdout is not None
        tap.stdout.readline()
        tap.send_signal(number)
        assert tap.wait(60) == 6


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """The exit code is that of a shell, and a sentence says why."""
    tapped = ran(["no-such-server"], tmp_path, b"")

    assert (tapped.returncode, tapped.stderr) == (127, b"trace-recorder: mcp-tap: command not found: no-such-server\n")


def test_the_messages_are_a_run(tmp_path: Path) -> None:
    """Calls of tools are executions, the last of which the dead server did not answer. Secrets are masked."""
    client_bytes = lines(HELLO, asking(1, "add", a=1, b=2), asking(2, "secret", token=KEY), asking("x", "die"))

    tapped = ran(SUMS, tmp_path, client_bytes, variables={"SERVER_KEY": KEY})

    assert tapped.returncode == 3
    run = only_run(tmp_path)
    [step] = run.agent_steps
    added, secret, died = step.tool_results
    [call] = added.mcp
    assert (added.result, call.server, call.version, call.tool) == ("3", "sums", "1.2", "add")
    assert secret.result == "the key is [REDACTED:openai-key]"
    assert died.error == "no answer of the server is on file: the server ended with exit code 3"
    assert KEY not in "".join(path.read_text("utf-8") for path in (tmp_path / "trajectories").iterdir())


def test_a_run_that_begins_after_the_client_has_closed_its_end_is_complete(tmp_path: Path) -> None:
    """What the server says then, and how it ends, is on file."""
    server = 'import sys; sys.stdin.read(); print(\'{"jsonrpc":"2.0","id":1,"result":{}}\'); sys.exit(3)'

    assert ran([sys.executable, "-c", server], tmp_path, b"").returncode == 3

    [journal] = (tmp_path / "trajectories").glob("*.jsonl")
    records = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    assert [record["kind"] for record in records] == ["start", "mcp_message", "mcp_end", "finalize"]
    assert records[2]["data"]["exit_code"] == 3


def test_a_signal_reaches_the_server(tmp_path: Path) -> None:
    """SIGTERM ends the server, and the tap as the server."""
    with subprocess.Popen([*TAP, *SUMS], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tap:
        assert tap.stdin is not None
        assert tap.stdout is not None
        tap.stdin.write(lines(HELLO))
        tap.stdin.flush()
        tap.stdout.readline()
        tap.terminate()
        assert tap.wait(60) == -signal.SIGTERM

    assert "SIGTERM" not in str(only_run(tmp_path).gaps)


def test_a_killed_tap_has_what_passed(tmp_path: Path) -> None:
    """What the client has received is on file after `kill -9`, and the server's input has ended."""
    with subprocess.Popen([*TAP, *SUMS], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tap:
        assert tap.stdin is not None
        assert tap.stdout is not None
        tap.stdin.write(lines(HELLO, asking(1, "add", a=1, b=2)))
        tap.stdin.flush()
        for _ in range(2):
            tap.stdout.readline()
        tap.kill()
        assert tap.stdout.read() == b""  # the server has closed its output

    [result] = only_run(tmp_path).agent_steps[0].tool_results
    assert result.result == "3"


def test_the_messages_are_in_the_run_of_the_proxy(server: Server, tmp_path: Path) -> None:
    """Messages before the first call wait for it. Each call is joined to the model's call that it names."""
    calls = tuple((f"toolu_{number}", "mcp__sums__add", f'{{"a": {number}, "b": 0}}') for number in (1, 2))
    server.answers = [Answer([said(None, calls=calls).body])]
    with proxying(tmp_path / "runs", {"openai": server.url}) as proxy:
        variables = {PROXY_VARIABLE: proxy.url}
        with subprocess.Popen(
            [*TAP, *SUMS],
            cwd=tmp_path,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as tap:
            assert tap.stdin is not None
            assert tap.stdout is not None
            tap.stdin.write(lines(HELLO))
            tap.stdin.flush()
            tap.stdout.readline()
            httpx.post(proxy.url + PATH, json={"messages": [{"role": "user", "content": "add"}]})
            tap.stdin.write(
                lines(
                    asking(1, "add", {"claudecode/toolUseId": "toolu_2"}, a=2, b=0),
                    asking(2, "add", {"claudecode/toolUseId": "toolu_1"}, a=1, b=0),
                )
            )
            tap.stdin.close()
            assert tap.stdout.read().count(b"\n") == 2

    [run] = proxy.runs()
    joined = {result.call_id: (result.result, result.mcp[0].joined_by) for result in run.agent_steps[0].tool_results}
    assert joined == {"toolu_1": ("1", "id"), "toolu_2": ("2", "id")}
    assert not (tmp_path / "trajectories").exists()


def test_without_its_proxy_a_tap_has_a_run_of_its_own(tmp_path: Path) -> None:
    """A proxy that cannot be reached costs no message."""
    ran(SUMS, tmp_path, lines(HELLO, asking(1, "add", a=1, b=2)), variables={PROXY_VARIABLE: "http://127.0.0.1:9"})

    [result] = only_run(tmp_path).agent_steps[0].tool_results
    assert result.result == "3"


LONG = "import sys\nsys.stdout.write('x' * 70_000_000 + '\\n{}\\n')"


def test_a_message_that_is_too_long_is_a_gap(tmp_path: Path) -> None:
    """It passes whole. The run says how long it was, and has the next message."""
    assert len(ran([sys.executable, "-c", LONG], tmp_path, b"").stdout) == 70_000_004

    [journal] = (tmp_path / "trajectories").glob("*.jsonl")
    records = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    assert [record["kind"] for record in records] == ["start", "gap", "mcp_message", "mcp_end", "finalize"]
    assert records[1]["data"]["why"] == "it has 70000000 bytes, and the limit is 67108864"


# ── which session of the proxy ───────────────────────────────────────────────────────────────────────────────────────

ASK = {"messages": [{"role": "user", "content": "add"}]}
SESSIONS = {
    "by the id in the environment": ({"CLAUDE_CODE_SESSION_ID": "first"}, None),
    "by the id in the message": ({}, {"sessionId": "first"}),
    "by the message, and not by the environment": ({"CLAUDE_CODE_SESSION_ID": "second"}, {"sessionId": "first"}),
    "by the path of the address": ({"OPENAI_BASE_URL": "{proxy}/run/a%20task/g/1/openai/v1"}, None),
}


@pytest.mark.parametrize("how", SESSIONS)
def test_the_messages_are_in_the_run_of_their_session(how: str, server: Server, tmp_path: Path) -> None:
    """Another session was used later."""
    variables, meta = SESSIONS[how]
    with proxying(tmp_path / "runs", {"openai": server.url}) as proxy:
        for path, session in ((f"/run/a%20task/g/1{PATH}", ""), (PATH, "first"), (PATH, "second")):
            httpx.post(proxy.url + path, json=ASK, headers={"session-id": session})
        named = {name: value.replace("{proxy}", proxy.url) for name, value in variables.items()}
        asked = lines(asking(1, "add", meta, a=1, b=2))
        ran(SUMS, tmp_path, asked, variables={PROXY_VARIABLE: proxy.url, **named})

    results = [[result.result for step in run.agent_steps for result in step.tool_results] for run in proxy.runs()]
    assert results == ([["3"], [], []] if "path" in how else [[], ["3"], []])


def test_messages_wait_for_their_session(server: Server, tmp_path: Path) -> None:
    """Another session that has begun does not get them."""
    with proxying(tmp_path / "runs", {"openai": server.url}) as proxy:
        httpx.post(proxy.url + PATH, json=ASK, headers={"session-id": "other"})
        variables = {PROXY_VARIABLE: proxy.url, "CLAUDE_CODE_SESSION_ID": "later"}
        ran(SUMS, tmp_path, lines(asking(1, "add", a=1, b=2)), variables=variables)
        httpx.post(proxy.url + PATH, json=ASK, headers={"session-id": "later"})

    results = [[result.result for step in run.agent_steps for result in step.tool_results] for run in proxy.runs()]
    assert results == [[], ["3"]]


def test_messages_whose_session_never_begins_are_a_gap(server: Server, tmp_path: Path) -> None:
    """The proxy says at its end how many messages are in no run."""
    with proxying(tmp_path / "runs", {"openai": server.url}) as proxy:
        httpx.post(proxy.url + PATH, json=ASK, headers={"session-id": "other"})
        variables = {PROXY_VARIABLE: proxy.url, "CLAUDE_CODE_SESSION_ID": "never"}
        ran(SUMS, tmp_path, lines(HELLO), variables=variables)

    [run] = proxy.runs()
    assert [gap.why for gap in run.gaps] == ["3 messages came before their session began"]


SAMPLED = {"equal": "two", "summarised": "about two"}


@pytest.mark.parametrize("how", SAMPLED)
def test_a_model_s_call_that_a_server_asks_for_is_inside_the_tool(how: str, server: Server, tmp_path: Path) -> None:
    """It began after the server's request, and ended with the text of the client's answer. Another call did not."""
    texts = ("two", "three")
    calls = [("toolu_1", "mcp__sums__ask", "{}")]
    server.answers = [Answer([said(None, calls=calls).body])]
    server.answers += [Answer([said(text, identity=f"chat {text}").body]) for text in texts]
    message = {"role": "assistant", "content": {"type": "text", "text": SAMPLED[how]}, "model": "m"}
    with proxying(tmp_path / "runs", {"openai": server.url}, command=["agent"]) as proxy:
        environment = {**os.environ, PROXY_VARIABLE: proxy.url}
        with subprocess.Popen(
            [*TAP, *SUMS], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as tap:
            assert tap.stdin is not None
            assert tap.stdout is not None
            httpx.post(proxy.url + PATH, json=ASK)
            tap.stdin.write(lines(asking(1, "ask")))
            tap.stdin.flush()
            asked = json.loads(tap.stdout.readline())
            for _ in texts:
                httpx.post(proxy.url + PATH, json=ASK)
            tap.stdin.write(lines({"id": asked["id"], "result": message}))
            tap.stdin.close()
            assert b"the model says" in tap.stdout.readline()

    [run] = proxy.runs()
    [result] = (result for step in run.agent_steps for result in step.tool_results)
    inside = [call.parent_execution_id for call in run.llm_interactions]
    assert result.call_id == "toolu_1"
    assert inside == ([None, result.execution_id, None] if how == "equal" else [None, None, None])
    assert (result.execution_id is not None) == (how == "equal")
