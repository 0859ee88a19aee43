"""The page on MCP servers: its program is run, and shows what the page shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.data.written import Writing, asked, called, said
from tests.processes import ROOT
from trace_recorder.values.messages import Payload

PAGE = (ROOT / "docs/mcp.md").read_text("utf-8")
SERVER = ROOT / "tests/capture/misbehaving_mcp_server.py"


def blocks(language: str) -> list[str]:
    """Return the blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_shows_what_the_page_shows(tmp_path: Path) -> None:
    """The steps that `show` prints are those of the page, but for the time."""
    [program] = blocks("python")
    shown = "step 1" + PAGE.partition("step 1")[2].partition("```")[0]
    shutil.copy(SERVER, tmp_path / "server.py")

    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=300, capture_output=True)
    printed = invoke("show", tmp_path / "trajectories/sums.json").output

    without_time = re.compile(r"\d\d:\d\d:\d\d")
    assert without_time.sub("", printed).endswith(without_time.sub("", shown))


def test_the_configuration_is_what_the_command_prints(tmp_path: Path) -> None:
    """The lines with the tap equal the output of `--print` for the server without it."""
    [tapped] = blocks("json")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"sums": {"command": "python", "args": ["server.py"]}}}')

    command = [sys.executable, "-m", "trace_recorder", "mcp-tap", "--print", "claude"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True, text=True).stdout

    comment, _, lines = printed.partition("\n")
    assert comment.endswith(".mcp.json, in place of these members")
    assert json.loads(lines) == json.loads(tapped)


SERVERS = {"files": ("read_file", "write_file", "list_directory"), "issues": ("search", "comment")}
"""The servers of the run on the page, and their tools. No tool of `issues` is called."""


def described(server: str, tool: str) -> Payload:
    """Return the definition of a tool as the model gets it."""
    text = (
        f"Use {tool} of the server {server}. It takes a path, and returns the text that was found there, or an error."
    )
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {
        "type": "function",
        "function": {"name": f"mcp__{server}__{tool}", "description": text, "parameters": schema},
    }


def write_run(path: Path) -> None:
    """Write a run in which a model reads two files by a server, one of them in vain."""
    tools = [described(server, tool) for server, names in SERVERS.items() for tool in names]
    task: Payload = {"role": "user", "content": "Which version is it?"}
    messages, names = [task], ("setup.py", "pyproject.toml")
    usage = {"prompt_tokens": 640, "completion_tokens": 20}
    writing = Writing(path, task="Find the version", provider="openai", model="local")
    for number, name in enumerate(names, start=1):
        call = called(f"call_{number}", "mcp__files__read_file", path=name)
        writing.request(number, asked(*messages, model="local", tools=tools))
        writing.response(number, body=said(None, call, usage=usage, model="local"))
        connection = {"connection_id": "mcp_1", "server": "files", "transport": "stdio"}
        parameters = {"name": "read_file", "arguments": {"path": name}}
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters}
        text, failed = ("no such file", True) if number == 1 else ('version = "1.4"', False)
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
        writing.add("mcp_message", **connection, direction="sent", message=request)
        writing.add("mcp_message", **connection, direction="received", message={"id": number, "result": result})
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
        messages += [answer, {"role": "tool", "tool_call_id": f"call_{number}", "content": text}]
    writing.request(3, asked(*messages, model="local", tools=tools))
    writing.response(3, body=said("It is 1.4.", usage=usage, model="local"))
    writing.add("finalize", status="completed", success=None, final_result=None, execution_time=15.0)
    writing.journal.close()


def test_the_figures_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stats --by server` prints what the page shows."""
    [block] = blocks("console")
    command, _, shown = block.partition("\n")
    _, _, *arguments = shlex.split(command)
    write_run(tmp_path / "version.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    assert invoke(*arguments).output == shown
