"""The places where programs write their own session files, which the readers of `imports/foreign/` understand.

The places were seen with Claude Code 2.1.197, Codex 0.169.0, Gemini CLI 0.61.0 and opencode 1.18.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from trace_recorder.signal_handlers import ours


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The place of a program's session files: the directory that `variable` names, or else `default`.

    `pattern` has `{session}` where the name of a file has the id of its session.
    """

    variable: str
    default: str
    pattern: str


PLACES = (
    SessionPlace("CLAUDE_CONFIG_DIR", "~/.claude", "projects/*/{session}.jsonl"),
    SessionPlace("CODEX_HOME", "~/.codex", "sessions/*/*/*/rollout-*-{session}.jsonl"),
    SessionPlace("GEMINI_CLI_HOME", "~", ".gemini/tmp/*/chats/session-*.json*"),
    SessionPlace("XDG_DATA_HOME", "~/.local/share", "opencode/opencode.db"),
)


def session_files(environment: Mapping[str, str], session: str | None, since: float) -> Iterator[Path]:
    """Yield the files that may be those of a session.

    `session` is the id of the session, or None if its program does not state an id. Files that were last written before
    `since`, a time of `time.time`, are left out.
    """
    for place in PLACES:
        root = Path(environment.get(place.variable) or place.default).expanduser()
        pattern = place.pattern.replace("{session}", "*" if session is None else escape(session))
        yield from (path for path in sorted(root.glob(pattern)) if _written_at(path) >= since)


def _written_at(path: Path) -> float:
    """Return when a file was last written. A database may have its newest pages in the log beside it."""
    times = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            times.append(file.stat().st_mtime)
        except ours(OSError):
            continue
    return max(times, default=0.0)
