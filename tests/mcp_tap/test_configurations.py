"""The servers of each client's configuration are found where the client looks for them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from trace_recorder.mcp_tap.configurations import CLIENTS, PASSED_VARIABLES

SERVER = {"command": "npx", "args": ["-y", "files", "."], "env": {"KEY": "secret"}}
TAPPED = ["mcp-tap", "--name", "files", "--", "npx", "-y", "files", "."]
TOML = '[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "files", "."]\n[mcp_servers.web]\nurl = "https://x/mcp"\n'


def files(client: str, home: Path, project: Path) -> dict[Path, str]:
    """Return the files of a client's configuration: of the user, and of the project."""
    servers = {"mcpServers": {"files": SERVER, "web": {"url": "https://x/mcp"}}}
    text = json.dumps(servers)
    of_project = json.dumps({**servers, "projects": {str(project): servers, "/elsewhere": servers}})
    return {
        "claude": {project / ".mcp.json": text, home / ".claude.json": of_project},
        "codex": {project / ".codex/config.toml": TOML, home / ".codex/config.toml": TOML},
        "cursor": {project / ".cursor/mcp.json": text, home / ".cursor/mcp.json": text},
    }[client]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_servers_of_a_client_are_found(client: str, tmp_path: Path) -> None:
    """Each file's servers are there, those over HTTP without a command. The lines parse, and have no secret."""
    home, project = tmp_path / "home", tmp_path / "project"
    for path, text in files(client, home, project).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    servers_of, lines = CLIENTS[client]

    servers = [*servers_of(home, project)]

    assert {server.file for server in servers} == {*files(client, home, project)}
    assert [server.name for server in servers if not server.command] == ["web"] * (len(servers) // 2)
    stdio = [server for server in servers if server.command][:1]
    printed = "\n".join(lines(stdio))
    assert "secret" not in printed
    if client == "codex":
        expected = {"command": "trace-recorder", "args": TAPPED, "env_vars": [*PASSED_VARIABLES]}
        assert tomllib.loads(printed) == {"mcp_servers": {"files": expected}}
    else:
        assert json.loads(printed) == {"mcpServers": {"files": {"command": "trace-recorder", "args": TAPPED}}}


def test_broken_files_are_no_servers(tmp_path: Path) -> None:
    """A file that cannot be read, and values of other types, name no server."""
    (tmp_path / ".mcp.json").write_text("{")
    (tmp_path / ".claude.json").write_text('{"mcpServers": [1], "projects": 7}')

    assert [*CLIENTS["claude"][0](tmp_path, tmp_path)] == []
