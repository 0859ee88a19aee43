"""The sub-agent that sends a request, as programs name it in headers, and the session to which it belongs.

- Claude Code 2.1: `x-claude-code-agent-id` names the sub-agent, and `x-claude-code-parent-agent-id` its parent.
- Codex 0.171, v2: `agent_name` in `x-codex-turn-metadata` is a path. `/root` is the main agent, `/root/a` a sub-agent.
- Codex 0.171, v1: `thread-id` names the sub-agent if it is not `session-id`. `x-codex-parent-thread-id` is its parent.
- opencode 1.18: each sub-agent has a session of its own. `x-parent-session-id` is the session that started it.
- Copilot CLI 1.0: `x-interaction-type` says that some sub-agent sends, but not which.

Codex v1 says `agent_name: "/root"` in all requests. Qwen Code, Kimi Code, Cline and Droid send no such header. A
sub-agent of goose 1.52 has another `agent-session-id`, but no header names its parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.signal_handlers import ours

Header = Callable[[str], str | None]
"""Returns the value of a header by its name in lower case."""

PARENT_SESSION = "x-parent-session-id"
COPILOT_AGENTS = "conversation-subagent"
"""The name of the agent that stands for all sub-agents of a session of Copilot."""
_CODEX_MAIN = "/root"
_MAX_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class SubAgent:
    """The sub-agent that sends a request.

    `parent` is the sub-agent that started this sub-agent, or None if the main agent started it.
    """

    identity: str
    parent: str | None = None


def sub_agent_of(header: Header, main_session: str | None) -> SubAgent | None:
    """Return the sub-agent that sends a request, or None if the headers name no sub-agent.

    `main_session` is the session of the main agent, if the program names one.
    """
    if identity := header("x-claude-code-agent-id"):
        return SubAgent(identity, header("x-claude-code-parent-agent-id"))
    if parent := header(PARENT_SESSION):
        return _child(header("session-id") or header("x-session-id"), parent, main_session)
    path = _codex_path(header)
    if path not in {"", _CODEX_MAIN}:
        above = path.rpartition("/")[0]
        return _child(path, above, _CODEX_MAIN)
    session, thread = header("session-id"), header("thread-id")
    if session and thread != session:
        return _child(thread, header("x-codex-parent-thread-id") or session, session)
    if header("x-interaction-type") == COPILOT_AGENTS:
        return SubAgent(COPILOT_AGENTS)
    return None


def _child(identity: str | None, parent: str, main: str | None) -> SubAgent | None:
    """Return a sub-agent. Its parent is left out if it is the main agent."""
    if not identity:
        return None
    if parent == main:
        return SubAgent(identity)
    return SubAgent(identity, parent)


def _codex_path(header: Header) -> str:
    try:
        turn = json.loads(header("x-codex-turn-metadata") or "null")
    except ours(ValueError, RecursionError):
        return ""
    return as_text(as_dict(turn).get("agent_name")) or ""


class SessionTree:
    """The sessions of sub-agents that have a session of their own, each with the session of its main agent.

    At most the newest `_MAX_SESSIONS` are remembered. The session of a forgotten sub-agent counts as a main one.
    """

    def __init__(self) -> None:
        self._main: dict[str, str] = {}

    def main_of(self, session: str, header: Header) -> str:
        """Return the session of the main agent, from a request of `session`."""
        parent = header(PARENT_SESSION)
        if not parent or parent == session:
            return session
        main = self._main.get(parent, parent)
        if len(self._main) >= _MAX_SESSIONS:
            self._main.pop(next(iter(self._main)))
        self._main[session] = main
        return main
