"""Runs a proxy in this process, which writes its runs to a directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_recorder import load
from trace_recorder.proxy.server import Proxy, listening, serving
from trace_recorder.proxy.sessions import Sessions
from trace_recorder.proxy.upstreams import Upstream
from trace_recorder.values.trajectory import Trajectory

BODY = b'{"model":"m",  "messages":[{"role":"user","content":"caf\\u00e9"}]}'
"""A request whose bytes no encoder would write."""
PATH = "/openai/v1/chat/completions"


@dataclass
class RunningProxy:
    """A running proxy: its address and its sessions."""

    url: str
    sessions: Sessions

    def runs(self) -> list[Trajectory]:
        """Return the recorded runs, in the order in which they began."""
        return [load(path) for path in self.sessions.documents]


@contextmanager
def proxying(
    directory: Path,
    addresses: Mapping[str, str | Upstream],
    *,
    token: str | None = None,
    mcp_servers: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[RunningProxy]:
    """Run a proxy for these upstreams, given by name, and end its runs after the block."""
    sessions = Sessions(directory, **options)
    listener = listening()
    port = listener.getsockname()[1]
    upstreams = {
        name: address if isinstance(address, Upstream) else Upstream(name, address, {})
        for name, address in addresses.items()
    }
    application = Proxy(upstreams, sessions, port=port, token=token, mcp_servers=mcp_servers or {})
    with serving(application, listener):
        yield RunningProxy(f"http://127.0.0.1:{port}", sessions)
    sessions.end()
