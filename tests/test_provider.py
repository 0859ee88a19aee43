"""The server of the tests prints nothing about its clients, because commands under test write to the same stderr."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest

from tests.provider import CHAT, plain, serving, whole


def test_a_client_that_leaves_an_answer_unread_causes_no_output(capfd: pytest.CaptureFixture[str]) -> None:
    """A client that disconnects without reading its answer causes no output on stderr."""
    with serving(plain(CHAT)) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as client:
            client.sendall(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            client.recv(10)
        while any(thread.name.endswith("(process_request_thread)") for thread in threading.enumerate()):
            time.sleep(0.001)
    assert capfd.readouterr().err == ""


def test_the_answer_to_head_has_no_body() -> None:
    """The answer to HEAD has no body, which the client would take for the next answer."""
    with serving(whole(b"{}")) as server, httpx.Client() as client:
        assert [client.head(server.url).status_code, client.get(server.url).json()] == [200, {}]
