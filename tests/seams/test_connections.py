"""Calls over unix sockets, TLS and HTTP proxies: callers get the same as unrecorded, and each call is on file once."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from tests.isolation.outcomes import in_all
from tests.provider import CHAT, Handler, Server, plain, running
from tests.seams.callers import ASK
from trace_recorder import TrajectoryRecorder, load

PATH = "/v1/chat/completions"
Payload = Any
Bind = Callable[[Payload], object]


@dataclass(frozen=True)
class Place:
    """Where a model is: its URL, and the unix socket, the proxy or the certificate with which it is reached."""

    url: str
    uds: str | None = None
    proxy: str | None = None
    certificate: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts only the certificate, if there is one."""
        return ssl.create_default_context(cafile=self.certificate)


def by_httpx(library: str) -> Callable[[Place, Bind], bytes]:
    def call(place: Place, bind: Bind) -> bytes:
        module = import_module(library)
        transport = module.HTTPTransport(verify=place.context(), uds=place.uds, proxy=place.proxy)
        with module.Client(transport=transport) as client:
            bind(client)
            return client.post(place.url, json=ASK).content

    return call


def by_async_httpx(place: Place, bind: Bind) -> bytes:
    async def work() -> bytes:
        httpx = import_module("httpx")
        transport = httpx.AsyncHTTPTransport(verify=place.context(), uds=place.uds, proxy=place.proxy)
        async with httpx.AsyncClient(transport=transport) as client:
            bind(client)
            return (await client.post(place.url, json=ASK)).content

    return asyncio.run(work())


def by_urllib3(place: Place, bind: Bind) -> bytes:
    urllib3 = import_module("urllib3")
    more = {"ssl_context": place.context(), "retries": False}
    pool = urllib3.ProxyManager(place.proxy, **more) if place.proxy else urllib3.PoolManager(**more)
    bind(pool)
    return pool.request("POST", place.url, body=json.dumps(ASK), headers={"content-type": "application/json"}).data


def by_requests(place: Place, bind: Bind) -> bytes:
    with import_module("requests").Session() as session:
        session.trust_env = False
        session.verify = place.certificate or True
        session.proxies = {"http": place.proxy, "https": place.proxy} if place.proxy else {}
        bind(session)
        return session.post(place.url, json=ASK).content


def by_aiohttp(place: Place, bind: Bind) -> bytes:
    async def work() -> bytes:
        aiohttp = import_module("aiohttp")
        connector = aiohttp.UnixConnector(place.uds) if place.uds else aiohttp.TCPConnector()
        async with aiohttp.ClientSession(connector=connector) as session:
            bind(session)
            async with session.post(place.url, json=ASK, proxy=place.proxy, ssl=place.context()) as response:
                return await response.read()

    return asyncio.run(work())


CALLERS: dict[str, Callable[[Place, Bind], bytes]] = {
    "httpx": by_httpx("httpx"),
    "httpx2": by_httpx("httpx2"),
    "async httpx": by_async_httpx,
    "urllib3": by_urllib3,
    "requests": by_requests,
    "aiohttp": by_aiohttp,
}
CALLERS = {name: call for name, call in CALLERS.items() if find_spec(name.removeprefix("async "))}


class Tunnel(BaseRequestHandler):
    """A proxy that connects its client to any address, unless the host is `refused.example`."""

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (part := self.request.recv(4096)):
                return
            head += part
        host, _, port = head.split()[1].decode().rpartition(":")
        if host == "refused.example":
            self.request.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        with socket.create_connection((host, int(port))) as upstream:
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            there = threading.Thread(target=_pass_on, args=(self.request, upstream))
            there.start()
            _pass_on(upstream, self.request)
            there.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


class UnixServer(Server):
    """The provider on a unix socket."""

    address_family = socket.AF_UNIX

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        super().__init__([plain(CHAT)])
        self.RequestHandlerClass = _UnixHandler

    def server_bind(self) -> None:
        """Bind the socket's path in place of an address."""
        self.socket.bind(self._path)
        self.server_name, self.server_port = "localhost", 0


class _UnixHandler(Handler):
    disable_nagle_algorithm = False  # a unix socket has none


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a key and a certificate for 127.0.0.1 that no authority signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *names, "-keyout", path, "-out", path.with_suffix(".crt")],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@contextmanager
def tls_server(certificate: Path) -> Iterator[Server]:
    """Run the provider with TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server([plain(CHAT)])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server):
        yield server


@contextmanager
def places(name: str, certificate: Path, directory: str) -> Iterator[Place]:
    """Run what one scenario needs, and yield where the model is."""
    trusted = str(certificate.with_suffix(".crt"))
    with ExitStack() as stack:
        match name.split(", "):
            case ["unix socket", *_]:
                path = Path(directory, "s")  # the path of a unix socket is short
                if name == "unix socket":
                    stack.enter_context(running(UnixServer(path)))
                yield Place("http://localhost" + PATH, uds=str(path))
            case ["plain proxy"]:
                proxy = Server([plain(CHAT)])
                stack.enter_context(running(proxy))
                yield Place("http://model.example" + PATH, proxy=proxy.url)
            case ["tls", "spoken to a plain server"]:
                server = Server([plain(CHAT)])
                stack.enter_context(running(server))
                yield Place(server.url.replace("http:", "https:") + PATH, certificate=trusted)
            case ["tls", *rest]:
                server = stack.enter_context(tls_server(certificate))
                yield Place(server.url.replace("http:", "https:") + PATH, certificate=None if rest else trusted)
            case ["tunnel", *rest]:
                server = stack.enter_context(tls_server(certificate))
                proxy = ThreadingTCPServer(("127.0.0.1", 0), Tunnel)
                proxy.daemon_threads = True
                stack.enter_context(running(proxy))
                url = "https://refused.example:443" if rest else server.url.replace("http:", "https:")
                yield Place(url + PATH, proxy=f"http://127.0.0.1:{proxy.server_address[1]}", certificate=trusted)


ANSWERED = ("unix socket", "tls", "plain proxy", "tunnel")
FAILED = ("unix socket, missing", "tls, untrusted", "tls, spoken to a plain server", "tunnel, refused")
WITHOUT_UNIX = ("urllib3", "requests")
CASES = [
    (name, caller)
    for name in (*ANSWERED, *FAILED)
    for caller in CALLERS
    if not (name.startswith("unix") and caller in WITHOUT_UNIX)
]


def outcome(call: Callable[[Place, Bind], bytes], place: Place, bind: Bind = lambda _: None) -> Payload:
    """Return the bytes that a caller gets, or the types and texts of the exceptions."""
    try:
        return call(place, bind)
    except Exception as error:  # noqa: BLE001 - any exception that the caller gets is compared
        return [(kind, re.sub(r"0x[0-9a-f]+|:\d+", "", text)) for kind, text, *_ in in_all(error)]


NOT_ON_FILE = {("tunnel, refused", "urllib3"), ("tunnel, refused", "requests")}
"""urllib3 asks a proxy for a tunnel before it passes the request on to the method that is recorded."""


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("name", "caller"), CASES)
def test_a_call_over_any_connection_is_on_file_once(name: str, caller: str, certificate: Path, tmp_path: Path) -> None:
    """The caller has the same answer or exceptions as unrecorded, and the call is one interaction of one attempt."""
    with tempfile.TemporaryDirectory() as directory, places(name, certificate, directory) as place:
        alone = outcome(CALLERS[caller], place)
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            recorded = outcome(CALLERS[caller], place, recorder.wrap)

    calls = load(tmp_path / "run.json").llm_interactions
    facts = [(len(call.attempts), call.answered, call.error is None) for call in calls]
    is_answered = name in ANSWERED
    assert (recorded, isinstance(recorded, bytes)) == (alone, is_answered)
    assert facts == [(1, is_answered, is_answered)] * ((name, caller) not in NOT_ON_FILE)
