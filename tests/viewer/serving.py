"""Runs the viewer's real server in a thread, and yields a client that sends the server's token."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from trace_recorder.values.messages import Payload
from trace_recorder.viewer.runs import RunList
from trace_recorder.viewer.security import Access
from trace_recorder.viewer.server import ViewerServer

TOKEN = "the-token-of-the-tests"


class _Server(uvicorn.Server):
    """A server that stops as soon as it is told to; uvicorn's own server checks only ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = threading.Event()

    async def main_loop(self) -> None:
        """Wait until the server is told to stop."""
        await self.on_tick(0)
        await asyncio.to_thread(self.ended.wait)


def groups_in(client: httpx.Client, by: str | list[str], **parameters: str) -> Payload:
    """Return the groups of the listed runs, when all of them are read."""
    answer = {"unread": 1}
    while answer["unread"]:
        answer = client.get("/api/groups", params={"by": by, **parameters}).json()
    return answer


@contextmanager
def serving(place: Path, *, read_only: bool = False) -> Iterator[httpx.Client]:
    """Serve a directory or a file on the loopback interface. Yield a client whose requests have the token."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        access = Access(TOKEN, listener.getsockname()[1])
        app = ViewerServer(RunList(place), read_only=read_only).app(access)
        server = _Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{access.port}",
                headers={"authorization": f"Bearer {TOKEN}"},
                trust_env=False,
                timeout=60,
            ) as client:
                yield client
        finally:
            server.ended.set()
            thread.join()
