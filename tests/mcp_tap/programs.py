"""Claude Code and Codex with real MCP servers, through the proxy and taps, against a provider with scripted answers.

    python -m tests.mcp_tap.programs DIRECTORY        # the directory has node_modules; `nox -s mcp_clients` makes one

Claude Code makes 100 calls of two servers, many of them equal and at once, 40 of them by four sub-agents. Each message
must be joined by its id to the call that it names. Then the ids are taken out of a copy of the run, and the calls that
are joined by their names are counted: none may be joined to a call of another tool or with other arguments, and none
to the call of another agent. Codex makes calls of the same servers, and Claude Code of one over HTTP.

Each server is also run with and without the tap on the same input. The bytes in both directions must be equal.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from examples.demo.policy import Action, Call
from tests.capture.mcp_calls import KEY
from tests.journals import folded, journal_of, read_raw
from tests.mcp_tap.test_tap import SUMS
from tests.mcp_tap.test_tap import ran as ran_server
from tests.processes import ROOT
from tests.provider import Answer, Request, free_port, serving
from tests.proxy.programs import DONE, Program, answer_of, environment_of
from tests.scripted_model import Model, Turn
from trace_recorder import TrajectoryRecorder, load, load_all
from trace_recorder.facts import TOOL_USE_IDS
from trace_recorder.values.messages import Payload, ToolResult
from trace_recorder.values.trajectory import Trajectory

TURNS, CALLS, AGENTS = 6, 10, 4
"""The main agent has so many turns with so many calls. Each sub-agent has one such turn."""
PROMPT = "You are sub-agent number "
TAP = [sys.executable, "-m", "trace_recorder", "mcp-tap", "--name"]
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false"}


@dataclass(frozen=True)
class Servers:
    """The real servers, and the directory that one of them serves."""

    bin: Path
    files: Path

    def command(self, name: str) -> list[str]:
        """Return the command of a server."""
        return {
            "everything": [str(self.bin / "mcp-server-everything"), "stdio"],
            "files": [str(self.bin / "mcp-server-filesystem"), str(self.files)],
            "time": [str(Path(sys.executable).with_name("mcp-server-time"))],
        }[name]

    def tapped(self, name: str) -> dict[str, Payload]:
        """Return a server behind the tap, as a client's configuration has it."""
        command, *arguments = [*TAP, name, "--", *self.command(name)]
        return {"command": command, "args": arguments, "env": {"PYTHONPATH": str(ROOT), "SERVER_KEY": KEY}}

    def calls(self, turn: int) -> tuple[Call, ...]:
        """Return the calls of a turn. Half of them are equal in all turns of all agents."""
        path = str(self.files / "notes.txt")
        made: list[Call] = []
        for number in range(CALLS // 2):
            words = "the same" if number % 2 else f"turn {turn}, {number}"
            made.append(Call("mcp__everything__echo", {"message": words}))
            lines: dict[str, Any] = {} if number % 2 else {"head": 1 + number}
            made.append(Call("mcp__files__read_text_file", {"path": path, **lines}))
        return tuple(made)


def results_in(body: Mapping[str, Any]) -> int:
    """Return how many answers of the model a request has."""
    messages = body.get("messages") or body.get("input") or []
    return sum(message.get("role") == "assistant" for message in messages)


def claude(servers: Servers, turn: Turn) -> Action:
    """Return the next action of Claude Code's main agent, or of a sub-agent."""
    body = turn.body
    tools = {tool.get("name") for tool in body.get("tools", [])}
    if "mcp__files__read_text_file" not in tools:
        return DONE
    done, text = results_in(body), json.dumps(body["messages"][0])
    if PROMPT in text:
        return DONE if done else Action("", "I work.", servers.calls(0))
    if done < TURNS:
        return Action("", "I look.", servers.calls(done))
    if done == TURNS:
        prompts = (f"{PROMPT}{number}. Work." for number in range(AGENTS))
        asked = ({"description": "Work", "prompt": one, "subagent_type": "general-purpose"} for one in prompts)
        return Action("", "Help me.", tuple(Call("Agent", one) for one in asked))
    return DONE


def codex(servers: Servers, turn: Turn) -> Action:
    """Return the next action of Codex, which asks the model before its servers are there."""
    tools = {tool.get("name") for tool in turn.body.get("tools", [])}
    called = {item.get("name") for item in turn.body["input"] if item.get("type") == "function_call"}
    if not tools or "read_text_file" in called:
        return DONE
    if not {"mcp__everything", "mcp__files"} <= tools:
        return Action("", "I wait.", (Call("exec_command", {"cmd": "sleep 1"}),))
    return Action("", "I look.", servers.calls(0))


def namespaced(model: Model, request: Request) -> Answer:
    """Return the model's answer, in which a tool of a server has the form that Codex expects: name and namespace."""
    answer = answer_of(model, request)
    if "/responses" not in request.path:
        return answer
    chunks = [chunk for chunk in answer.chunks if isinstance(chunk, bytes)]
    for server in ("everything", "files"):
        old, new = f'"name": "mcp__{server}__', f'"namespace": "mcp__{server}", "name": "'
        chunks = [chunk.replace(old.encode(), new.encode()) for chunk in chunks]
    return replace(answer, chunks=chunks)


def ran(program: Program, decide: Callable[[Turn], Action], home: Path, *options: str) -> Trajectory:
    """Run a program behind the proxy, and return its run."""
    model, runs = Model(decide), home / "runs"
    with serving(partial(namespaced, model)) as server:
        words, environment = environment_of(program, server.url, home)
        proxy = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--directory", str(runs), *options, "--"]
        done = subprocess.run(
            [*proxy, *words], cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    for path in runs.iterdir():
        assert KEY not in path.read_text("utf-8"), f"{path.name} has the key of a server"
    [run] = [load(path) for path in runs.glob("*.json")]
    assert not run.gaps, run.gaps
    return run


# ── what is joined ───────────────────────────────────────────────────────────────────────────────────────────────────


def of_servers(run: Trajectory) -> list[ToolResult]:
    """Return the results of the tools of servers."""
    return [result for step in run.agent_steps for result in step.tool_results if result.mcp]


def truth(journal: bytes) -> dict[tuple[str, str], str]:
    """Return the model's ids of the calls by the ids of connections and requests, as the messages state them."""
    ids: dict[tuple[str, str], str] = {}
    for record in read_raw(journal):
        assert record is not None
        data = record.data if record.kind == "mcp_message" else {}  # type: ignore[union-attr]
        message = data.get("message") or {}
        if data.get("direction") == "sent" and message.get("method") == "tools/call":
            meta = message["params"]["_meta"]
            ids[data["connection_id"], str(message["id"])] = next(meta[name] for name in TOOL_USE_IDS if name in meta)
    return ids


def without_ids(journal: bytes) -> bytes:
    """Return a journal without the ids that the messages state."""
    records: list[tuple[str, Payload]] = []
    for record in read_raw(journal):
        data = record.data  # type: ignore[union-attr]
        if record.kind == "mcp_message" and isinstance(data.get("message"), dict):  # type: ignore[union-attr]
            meta = (data["message"].get("params") or {}).get("_meta") or {}
            for name in TOOL_USE_IDS:
                meta.pop(name, None)
        records.append((record.kind, data))  # type: ignore[union-attr]
    return journal_of(*records)


def check_joined(run: Trajectory, journal: bytes, count: int) -> str:
    """Check the joins by id, and those by name in a copy without ids. Return the counts."""
    ids, results = truth(journal), of_servers(run)
    assert len(ids) == len(results) == count, (len(ids), len(results))
    for result in results:
        [call] = result.mcp
        assert call.joined_by == "id", call
        assert result.call_id == ids[call.connection_id, str(call.request_id)], result
    asked = {call.call_id: call for interaction in run.llm_interactions for call in interaction.response.tool_calls}
    agents = {
        call.call_id: interaction.agent_id
        for interaction in run.llm_interactions
        for call in interaction.response.tool_calls
    }
    wrong, by_name, same = 0, 0, 0
    for result in of_servers(folded(without_ids(journal))):
        [call] = result.mcp
        true_id = ids[call.connection_id, str(call.request_id)]
        if call.joined_by is None:
            continue
        by_name += 1
        same += result.call_id == true_id
        joined, true = asked[result.call_id], asked[true_id]
        is_right = (joined.name, joined.arguments) == (true.name, true.arguments)
        wrong += not (is_right and agents[result.call_id] == agents[true_id])
    assert wrong == 0, f"{wrong} of {by_name} are joined to a wrong call"
    cut = [(result.result, result.sent) for result in results if result.sent is not None]
    assert not cut, f"the model did not see what the server sent: {cut[:3]}"
    several = sum(number > 1 for number in Counter(agents.values()).values())
    return (
        f"{count} joined by id, none wrong; without ids {by_name} of {count} by name, none wrong ({same} to the very "
        f"call, the others to an equal one of the same agent); {several} agents"
    )


# ── the programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def journal_in(home: Path) -> bytes:
    """Return the only journal of a program."""
    [journal] = (home / "runs").glob("*.jsonl")
    return journal.read_bytes()


def check_claude(servers: Servers, home: Path) -> str:
    """Run Claude Code with two servers behind taps."""
    configuration = {"mcpServers": {name: servers.tapped(name) for name in ("everything", "files")}}
    (home / "mcp.json").write_text(json.dumps(configuration))
    command = (
        *(str(servers.bin / "claude"), "-p", "Look at the notes.", "--mcp-config", str(home / "mcp.json")),
        *("--strict-mcp-config", "--allowedTools", "mcp__everything", "mcp__files", "Agent", "Task"),
    )
    run = ran(
        Program("Claude Code", "@anthropic-ai/claude-code", command, lambda *_: DONE, QUIET),
        partial(claude, servers),
        home,
    )
    return check_joined(run, journal_in(home), (TURNS + AGENTS) * CALLS)


def check_codex(servers: Servers, home: Path) -> str:
    """Run Codex with two servers behind taps, which pass it the variables that `mcp-tap --print codex` names."""
    from trace_recorder.mcp_tap.configurations import PASSED_VARIABLES  # noqa: PLC0415

    lines = ['openai_base_url = "{url}/v1"']
    for name in ("everything", "files"):
        tapped = servers.tapped(name)
        lines += [f"[mcp_servers.{name}]", f"command = {json.dumps(tapped['command'])}"]
        lines += [f"args = {json.dumps(tapped['args'])}", f"env_vars = {json.dumps(PASSED_VARIABLES)}"]
        lines += ['default_tools_approval_mode = "approve"', f"[mcp_servers.{name}.env]"]
        lines += [f"{variable} = {json.dumps(value)}" for variable, value in tapped["env"].items()]
    files = {"auth.json": '{"OPENAI_API_KEY": "k"}', "config.toml": "\n".join(lines)}
    command = (str(servers.bin / "codex"), "exec", "--skip-git-repo-check", "-m", "gpt-5", "Look at the notes.")
    run = ran(Program("Codex", "@openai/codex", command, lambda *_: DONE, files=files), partial(codex, servers), home)
    return check_joined(run, journal_in(home), CALLS)


@contextmanager
def over_http(servers: Servers, transport: str) -> Iterator[str]:
    """Run `server-everything` over HTTP. Yield its address without a path."""
    port = free_port()
    with subprocess.Popen(
        [str(servers.bin / "mcp-server-everything"), transport], env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            while server.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def check_claude_over_http(servers: Servers, home: Path) -> str:
    """Run Claude Code with a server over streamable HTTP, through the proxy."""

    def decide(turn: Turn) -> Action:
        tools = {tool.get("name") for tool in turn.body.get("tools", [])}
        if "mcp__everything__echo" not in tools or results_in(turn.body):
            return DONE
        return Action("", "I look.", tuple(Call("mcp__everything__echo", {"message": "the same"}) for _ in range(5)))

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp/everything"
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"everything": {"type": "http", "url": url}}}))
    command = (
        *(str(servers.bin / "claude"), "-p", "Look.", "--mcp-config", str(home / "mcp.json")),
        *("--strict-mcp-config", "--allowedTools", "mcp__everything"),
    )
    with over_http(servers, "streamableHttp") as server:
        options = ("--port", str(port), "--mcp", f"everything={server}/mcp")
        run = ran(
            Program("Claude Code", "@anthropic-ai/claude-code", command, lambda *_: DONE, QUIET), decide, home, *options
        )
    return check_joined(run, journal_in(home), 5)


def check_python_over_http(transport: str, servers: Servers, home: Path) -> str:
    """Record a session of `mcp` over a transport of HTTP. No message may be on file twice."""
    from mcp import ClientSession  # noqa: PLC0415
    from mcp.client.sse import sse_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    async def use(url: str) -> None:
        streams = sse_client(f"{url}/sse") if transport == "sse" else streamable_http_client(f"{url}/mcp")
        async with streams as (read, write, *_), recorder.wrap(ClientSession(read, write)) as session:
            await session.initialize()
            for number in range(5):
                await session.call_tool("get-sum", {"a": number, "b": 1})

    with over_http(servers, transport) as url, TrajectoryRecorder(home / "runs" / "run.json") as recorder:
        asyncio.run(use(url))
    messages = [record.data for record in read_raw(journal_in(home)) if record.kind == "mcp_message"]  # type: ignore[union-attr]
    ids = [data["message"]["id"] for data in messages if data["direction"] == "received" and "id" in data["message"]]
    assert len(ids) == len(set(ids)), ids
    run = load(home / "runs" / "run.json")
    texts = [str(result.result) for result in of_servers(run)]
    assert [text.split()[-1].rstrip(".") for text in texts] == ["1", "2", "3", "4", "5"], texts
    return f"{len(messages)} messages, each once, {len(texts)} tools, {len(run.llm_interactions)} calls of models"


# ── the bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bytes", "version": "1"}}
CONVERSATIONS: dict[str, list[tuple[str, Payload]]] = {
    "everything": [
        *(("echo", {"message": "caf\u00e9 \u2028"}), ("get-sum", {"a": 1, "b": 2}), ("get-tiny-image", {})),
        *(("no such tool", {}), ("get-env", {})),
    ],
    "files": [("read_text_file", {"path": "{files}/notes.txt"}), ("read_text_file", {"path": "/etc/passwd"})],
    "time": [("convert_time", {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"})],
}  # fmt: skip


def asked_of(name: str, servers: Servers) -> Iterator[bytes]:
    """Yield the lines that a client sends to a server, each after the answer to the one before."""
    messages: list[dict[str, Payload]] = [{"id": 0, "method": "initialize", "params": HELLO}]
    messages += [{"method": "notifications/initialized"}, {"id": 1, "method": "tools/list"}]
    for identity, (tool, arguments) in enumerate(CONVERSATIONS[name], start=2):
        messages.append({"id": identity, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
    for message in messages:
        text = json.dumps({"jsonrpc": "2.0", **message}).replace("{files}", str(servers.files))
        yield text.encode() + b"\n"


def conversation(command: Sequence[str], lines: Iterator[bytes], home: Path) -> tuple[list[bytes], int]:
    """Send lines to a server. Return its lines up to the last answer, in the order of ids, and its exit code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SERVER_KEY": KEY}
    answers: list[bytes] = []
    with subprocess.Popen(
        command, cwd=home, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in lines:
            server.stdin.write(line)
            server.stdin.flush()
            identity = json.loads(line).get("id")
            while identity is not None:
                answers.append(server.stdout.readline())
                if json.loads(answers[-1]).get("id") == identity:
                    break
        server.stdin.close()
        rest = server.stdout.read()
        return [*answers, rest], server.wait(60)


def check_bytes(name: str, servers: Servers, home: Path) -> str:
    """Run a server with and without the tap. Return how many bytes are equal."""
    lines = [*asked_of(name, servers)]
    plain = conversation(servers.command(name), iter(lines), home)
    tapped = conversation([*TAP, name, "--", *servers.command(name)], iter(lines), home)
    assert tapped == plain, (tapped, plain)
    [path] = (home / "trajectories").glob("*.jsonl")
    assert KEY not in path.read_text("utf-8"), f"{path.name} has the key of the server's environment"
    messages = [record.data for record in read_raw(path.read_bytes()) if record.kind == "mcp_message"]  # type: ignore[union-attr]
    sent = [data["message"] for data in messages if data["direction"] == "sent"]
    received = [data["message"] for data in messages if data["direction"] == "received" and "redacted" not in data]
    assert sent == [json.loads(line) for line in lines]
    assert received == [json.loads(line) for line in plain[0] if line.strip() and KEY.encode() not in line]
    return f"{sum(map(len, lines))} bytes sent, {sum(map(len, plain[0]))} received: equal and on file, exit {plain[1]}"


def check_large(home: Path) -> str:
    """Pass an answer of 50 MB through the tap. It must be on file."""
    size = 50_000_000
    asked = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large", "arguments": {"size": size}}}
    )
    done = ran_server(SUMS, home, asked.encode() + b"\n")
    assert len(done.stdout) > size, len(done.stdout)
    [run] = load_all(home / "trajectories")
    [result] = of_servers(run)
    assert result.result == "x" * size
    return f"{len(done.stdout)} bytes passed, and are on file"


def main(tools: Path) -> int:
    """Run all checks, and print a line for each."""
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        files = Path(directory, "files").resolve()
        files.mkdir()
        (files / "notes.txt").write_text("".join(f"line {number}\n" for number in range(20)))
        servers = Servers(tools.absolute() / "node_modules" / ".bin", files)
        checks: dict[str, Callable[[Path], str]] = {
            **{f"bytes of {name}": partial(check_bytes, name, servers) for name in CONVERSATIONS},
            "50 MB": check_large,
            "Claude Code": partial(check_claude, servers),
            "Codex": partial(check_codex, servers),
            "Claude Code over HTTP": partial(check_claude_over_http, servers),
            "mcp over SSE": partial(check_python_over_http, "sse", servers),
            "mcp over streamable HTTP": partial(check_python_over_http, "streamableHttp", servers),
        }
        for name, check in checks.items():
            home = Path(directory, name)
            home.mkdir()
            try:
                print(f"- {name}: {check(home)}", flush=True)
            except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"- {name}: FAILS: {type(error).__name__}: {str(error)[:4000]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
