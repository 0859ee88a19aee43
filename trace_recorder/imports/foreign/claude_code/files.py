"""The files next to a session: those of its sub-agents, and results that were too large for the session.

<session>/subagents/agent-<id>.jsonl, agent-<id>.meta.json
<session>/subagents/workflows/<id>/agent-<id>.jsonl
<session>/tool-results/<name>.txt
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_int
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.source import Source
from trace_recorder.imports.foreign.zstd import opened
from trace_recorder.values.messages import Payload

_SAVED = re.compile(r"<persisted-output>[^<]{0,200}saved to: [^\n]{0,4096}[/\\]tool-results[/\\]([\w.-]+)")
_META = ".meta.json"


@dataclass(slots=True)
class SubAgentFile:
    """The file of a sub-agent. `meta` is its meta file, which has its type and the call that started it.

    `leads_out` says that it is a link to a file outside of the session's directory, which is not read.
    """

    source: Source
    meta: Members
    leads_out: bool

    @property
    def agent_id(self) -> str:
        """The id of the agent."""
        return self.source.path.stem.removeprefix("agent-")


def _leads_out(session: Source, path: Path) -> bool:
    """Whether a path leads out of the directory of a session, by a link."""
    place = Path(realpath(session.path.parent)) / session.path.stem
    return not Path(realpath(path)).is_relative_to(place)


def sub_agents(session: Source) -> list[SubAgentFile]:
    """Return the files of a session's sub-agents. An agent comes before the agents that it started."""
    place = session.path.parent / session.path.stem / "subagents"
    paths = sorted([*place.glob("agent-*.jsonl"), *place.glob("workflows/*/agent-*.jsonl")])
    files = [
        SubAgentFile(session.neighbour(path), _meta(session, path.with_suffix(_META)), _leads_out(session, path))
        for path in paths
    ]
    session.read_too |= {path for path in paths if path.is_file() and not _leads_out(session, path)}
    return sorted(files, key=lambda file: as_int(file.meta.get("spawnDepth")) or 0)


def _meta(session: Source, path: Path) -> Members:
    if not path.is_file() or _leads_out(session, path):
        return {}
    session.read_too.add(path)
    try:
        return as_dict(session.neighbour(path).document)
    except (OSError, TrajectoryFormatError):
        return {}


def saved_results(session: Source, content: Payload) -> Iterator[tuple[str, str | None]]:
    """Yield the name of the file that a tool's result refers to, and its text; None if it cannot be read.

    Only files in the directory of the session's results are read, although the result may name another directory.
    """
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    for text in texts:
        if isinstance(text, str) and (match := _SAVED.match(text)):
            path = session.path.parent / session.path.stem / "tool-results" / match[1]
            yield match[1], _text_of(session, path)


def _text_of(session: Source, path: Path) -> str | None:
    if _leads_out(session, path):
        return None
    try:
        with opened(path) as file:
            data = file.read(session.max_line_bytes + 1)
    except (OSError, TrajectoryFormatError):
        return None
    session.read_too.add(path)
    return None if len(data) > session.max_line_bytes else data.decode(errors="replace")
