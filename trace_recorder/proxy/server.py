"""The proxy's server. It runs in a thread, so that the main thread can wait for a program, or for Ctrl-C."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from trace_recorder.loopback import HOST
from trace_recorder.proxy.forwarding import Proxy

_GRACE_SECONDS = 2
"""When the proxy ends, requests that are being answered have this time to end."""


def listening(host: str = HOST, port: int = 0) -> socket.socket:
    """Return a listening socket. Port 0 means a free port. Raises OSError if the port cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # with it, asyncio sends without Nagle's delay
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def serving(proxy: Proxy, listener: socket.socket) -> Iterator[None]:
    """Answer requests until the block ends."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # asyncio would warn of each write to a killed program
    config = uvicorn.Config(
        proxy,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="on",
        loop="asyncio",
        ws="none",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=3600,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="trace-recorder-proxy")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
