"""A proxy between a client and a server that forwards every byte and keeps those that the client sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer


@dataclass
class Tap:
    """The address of the proxy, and the bytes that were sent over each connection, in order."""

    url: str
    sent: list[bytearray] = field(default_factory=list)


@contextmanager
def tapped(url: str) -> Iterator[Tap]:
    """Start a proxy in front of a server on this machine, and stop it at the end of the block."""
    port = int(url.rpartition(":")[2])

    class Line(BaseRequestHandler):
        def handle(self) -> None:
            kept = bytearray()
            tap.sent.append(kept)
            with socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=_hand_on, args=(server, self.request))
                back.start()
                _hand_on(self.request, server, kept)
                back.join()

    class Lines(ThreadingTCPServer):
        daemon_threads = True

    with Lines(("127.0.0.1", 0), Line) as lines:
        tap = Tap(f"http://127.0.0.1:{lines.server_address[1]}")
        thread = threading.Thread(target=lambda: lines.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield tap
        finally:
            lines.shutdown()
            thread.join()


def _hand_on(source: socket.socket, target: socket.socket, kept: bytearray | None = None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if kept is not None:
                kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
