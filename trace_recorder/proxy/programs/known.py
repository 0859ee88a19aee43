"""The programs that the proxy knows, and `directed`, which finds the program in a command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.proxy.programs import by_variables, claude_code, codex, gemini_cli, others, pi, qwen_code
from trace_recorder.proxy.programs.launch import Direction, Launch, Program, not_recorded
from trace_recorder.proxy.upstreams import UpstreamError

PROGRAMS: tuple[Program, ...] = (
    claude_code.PROGRAM,
    codex.PROGRAM,
    gemini_cli.PROGRAM,
    qwen_code.PROGRAM,
    pi.PROGRAM,
    *by_variables.PROGRAMS,
    *others.PROGRAMS,
)
_LAUNCHERS = frozenset({"bunx", "env", "nice", "nohup", "npx", "pnpx", "stdbuf", "timeout"})
"""Commands that start the program that a later word names."""


@dataclass(frozen=True, slots=True)
class DirectedCommand:
    """A command, and how its program is directed to the proxy.

    `program` is None for a program that the proxy does not know. It may read the environment variables.
    """

    words: Sequence[str]
    position: int
    program: Program | None
    direction: Direction

    def notices(self) -> Iterator[str]:
        """Yield what a user has to know before the program starts."""
        if self.program is not None and self.direction.not_recorded is not None:
            yield f"{self.program.name} will not be recorded: {self.direction.not_recorded}"
            yield from filter(None, (self.direction.instead,))
        if self.program is not None and self.direction.notice is not None:
            yield f"{self.program.name} will be recorded in part: {self.direction.notice}"

    def to(self, proxy_url: str) -> list[str]:
        """Return the command that sends its requests to the proxy at `proxy_url`."""
        after = self.position + 1
        return [*self.words[:after], *self.direction.options(proxy_url), *self.words[after:]]


def directed(words: Sequence[str], environment: Mapping[str, str], directory: Path) -> DirectedCommand:
    """Return a command with its direction. `directory` is where the command is run."""
    candidates = words[:1]
    if words and Path(words[0]).stem in _LAUNCHERS:
        candidates = words
    for position, word in enumerate(candidates):
        for program in PROGRAMS:
            if _name(word) in program.commands:
                launch = Launch(words[position + 1 :], environment, directory)
                return DirectedCommand(words, position, program, _direction(program, launch))
    return DirectedCommand(words, 0, None, Direction(environment))


def _direction(program: Program, launch: Launch) -> Direction:
    try:
        return program.direct(launch)
    except UpstreamError as error:
        return not_recorded(launch, str(error))


def _name(word: str) -> str:
    """Return the name of a command or a package, without its folder, its version and its suffix."""
    if word.startswith("@"):
        return "@" + word[1:].partition("@")[0]
    path = Path(Path(word).name.partition("@")[0])  # a folder may begin with "@", such as that of a package
    if path.suffix in {".cmd", ".exe", ".js", ".ps1"}:
        return path.stem
    return path.name
