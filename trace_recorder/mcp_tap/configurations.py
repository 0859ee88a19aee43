"""The servers in the configuration of a client, and the lines that put the tap before them. Nothing is changed.

Each client reads its files in an order of its own. A server that several files name is shown once for each file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_recorder.capture.proxy_header import PROXY_VARIABLE, TOKEN_VARIABLE
from trace_recorder.recording.process import PARENT_VARIABLE, SESSION_VARIABLE
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.paths import DIRECTORY_VARIABLE

PASSED_VARIABLES = (PROXY_VARIABLE, TOKEN_VARIABLE, PARENT_VARIABLE, SESSION_VARIABLE, DIRECTORY_VARIABLE)
"""The variables that tell a tap which run its client belongs to. Codex passes only the variables that it is told."""


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """A server that a client starts, or reaches by HTTP, and the file that names it."""

    file: Path
    name: str
    command: tuple[str, ...]
    """The command line. Empty for a server that is reached by HTTP."""

    @property
    def is_tapped(self) -> bool:
        """Whether the tap is there already."""
        return "mcp-tap" in self.command[:3]

    def tapped(self) -> list[str]:
        """Return the arguments of `trace-recorder` that run the server behind the tap."""
        return ["mcp-tap", "--name", self.name, "--", *self.command]


def claude_servers(home: Path, directory: Path) -> Iterator[ConfiguredServer]:
    """Yield the servers of Claude Code: of the project, of the user, and of the user in this project."""
    project, user = directory / ".mcp.json", home / ".claude.json"
    settings = _read(user, json.loads)
    in_project = _object(_object(settings.get("projects")).get(str(directory)))
    yield from _servers(project, _read(project, json.loads).get("mcpServers"))
    yield from _servers(user, settings.get("mcpServers"))
    yield from _servers(user, in_project.get("mcpServers"))


def cursor_servers(home: Path, directory: Path) -> Iterator[ConfiguredServer]:
    """Yield the servers of Cursor: of the project, and of the user."""
    for path in (directory / ".cursor/mcp.json", home / ".cursor/mcp.json"):
        yield from _servers(path, _read(path, json.loads).get("mcpServers"))


def codex_servers(home: Path, directory: Path) -> Iterator[ConfiguredServer]:
    """Yield the servers of Codex: of the project, and of the user."""
    for path in (directory / ".codex/config.toml", home / ".codex/config.toml"):
        yield from _servers(path, _read(path, tomllib.loads).get("mcp_servers"))


def lines_of_json(servers: Sequence[ConfiguredServer]) -> Iterator[str]:
    """Yield the members to write in a file of JSON, in place of those that are there."""
    members = {server.name: {"command": "trace-recorder", "args": server.tapped()} for server in servers}
    yield json.dumps({"mcpServers": members}, indent=2, ensure_ascii=False)


def lines_of_toml(servers: Sequence[ConfiguredServer]) -> Iterator[str]:
    """Yield the lines to write in a file of TOML, in place of those that are there."""
    for server in servers:
        yield f"[mcp_servers.{json.dumps(server.name, ensure_ascii=False)}]"
        yield 'command = "trace-recorder"'
        yield f"args = {json.dumps(server.tapped(), ensure_ascii=False)}"
        yield f"env_vars = {json.dumps(PASSED_VARIABLES)}"


Lines = Callable[[Sequence[ConfiguredServer]], Iterator[str]]
CLIENTS: Mapping[str, tuple[Callable[[Path, Path], Iterator[ConfiguredServer]], Lines]] = {
    "claude": (claude_servers, lines_of_json),
    "codex": (codex_servers, lines_of_toml),
    "cursor": (cursor_servers, lines_of_json),
}


def _servers(path: Path, servers: Any) -> Iterator[ConfiguredServer]:
    for name, settings in _object(servers).items():
        command, arguments = _object(settings).get("command"), _object(settings).get("args") or []
        line: tuple[str, ...] = ()
        if isinstance(command, str) and isinstance(arguments, list):
            line = (command, *map(str, arguments))
        yield ConfiguredServer(path, name, line)


def _read(path: Path, parse: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the object in a file. Return an empty one if there is no such file or object."""
    try:
        return _object(parse(path.read_text(encoding="utf-8-sig")))
    except ours(OSError, ValueError, RecursionError):
        return {}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
