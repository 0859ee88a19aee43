"""`Launch` and `Direction`: a program that the proxy is about to start, and how its requests get to the proxy.

A coding agent reads the address of its provider from its own files too. These files may win over the environment, or
lose against it. So each program has a file in this folder, which reads the files that the program reads. Two rules hold
for each program. A request goes to the address to which it goes without the proxy. If the proxy cannot do that, the
program is not directed to the proxy, and the command says so before the program starts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_recorder.proxy.upstreams import Upstream
from trace_recorder.signal_handlers import ours

_ENV_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*[=:][ \t]*"""
    r"""(?:'([^']*)'|"([^"]*)"|`([^`]*)`|([^\s#'"`][^#\n]*?)?)[ \t]*(?:\#.*)?$""",
    re.MULTILINE,
)
"""A line of a `.env` file: the variable, and its value in one of three quotes or without quotes."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A program that is about to start: its arguments, its environment and its working directory."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path

    def home(self, variable: str = "HOME") -> Path:
        """Return the user's home directory, or the directory that a variable of the program names in its place."""
        return Path(self.environment.get(variable) or self.environment.get("HOME") or Path.home())

    def values_of(self, *names: str) -> Iterator[str]:
        """Yield the values that the command line gives to an option, which has these names."""
        for position, argument in enumerate(self.arguments):
            if argument in names:
                yield from self.arguments[position + 1 : position + 2]
            name, equals, value = argument.partition("=")
            if equals and name in names:
                yield value

    def is_set(self, variable: str) -> bool:
        """Whether a variable that switches something on is set."""
        return self.environment.get(variable, "").lower() not in {"", "0", "false", "no", "off"}

    def parents(self) -> Iterator[Path]:
        """Yield the working directory, its parent, and so on to the root."""
        directory = self.directory.absolute()
        yield directory
        yield from directory.parents


def no_options(_: str) -> list[str]:
    """Return no options: the environment variables are enough."""
    return []


@dataclass(frozen=True, slots=True)
class Direction:
    """How the requests of a program get to the proxy."""

    environment: Mapping[str, str]
    """The variables as the program sees them, with those from its own files."""
    upstreams: tuple[Upstream, ...] = ()
    """The upstreams that the program has in addition to the known ones, or in the place of known ones."""
    options: Callable[[str], list[str]] = field(default=no_options)
    """Returns the options that the program gets after its name. The argument is the address of the proxy."""
    not_recorded: str | None = None
    """Why the program's calls are not recorded, or None if they are. Such a program keeps its environment."""
    notice: str | None = None
    """Which of the program's calls are not recorded, or None if all are."""
    instead: str | None = None
    """What records a program that is not recorded: a proxy that runs on its own, and what to write where."""


@dataclass(frozen=True, slots=True)
class Program:
    """A coding agent: its name, the names of its command and its package, and how it is directed to the proxy."""

    name: str
    commands: frozenset[str]
    direct: Callable[[Launch], Direction]
    """Returns the direction. Raises UpstreamError if the program's own address is not one."""


def not_recorded(launch: Launch, why: str) -> Direction:
    """Return the direction of a program whose calls the proxy cannot record."""
    return Direction(launch.environment, not_recorded=why)


EXAMPLE_PORT = 8787


def by_hand(launch: Launch, why: str, place: str, address: str | None, path: str = "") -> Direction:
    """Return the direction of a program whose address is only in its own file.

    `place` says where the address is written, and `address` is the one that is there. If it is None, `path` is the path
    of a known upstream.
    """
    option = ""
    if address is not None:
        option, path = f" --upstream own={address.rstrip('/')}", "own"
    instead = (
        f"To record it, run `trace-recorder proxy --port {EXAMPLE_PORT}{option}` in another terminal, and set {place} "
        f"to http://127.0.0.1:{EXAMPLE_PORT}/{path}"
    )
    return Direction(launch.environment, not_recorded=why, instead=instead)


def json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, which may have comments. Return {} if there is no such file or object."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        value = json.loads(re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', r"\1", text, flags=re.DOTALL))
    except ours(OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return value


def toml_table(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file. Return {} if there is no such file or table."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ours(OSError, ValueError):
        return {}


def text_members(value: Any) -> dict[str, str]:
    """Return the members of an object that are texts. Return {} for any other value."""
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(text, str)}


def member(value: Any, *names: str) -> Any:
    """Return the member of nested objects at these names, or None if there is no such member."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def variables_of_file(paths: Iterable[Path]) -> dict[str, str]:
    """Return the variables in the first of these `.env` files that exists."""
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except ours(OSError, ValueError):
            continue
        return {
            match[1]: next((value for value in match.groups()[1:] if value), "") for match in _ENV_LINE.finditer(text)
        }
    return {}
