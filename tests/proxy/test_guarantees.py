"""The proxy keeps no cookies, sends nothing outside of an upstream's address, and records before it answers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from http.cookiejar import Cookie
from pathlib import Path

import httpx
import pytest

from tests.counting import alive
from tests.provider import CHAT, Answer, Server, plain
from tests.proxy.running import BODY, PATH, RunningProxy, proxying


def raw_answer(proxy: RunningProxy, line: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    """Send a request whose bytes no client library checks. Return the status and the body of the answer."""
    address = proxy.url.removeprefix("http://")
    lines = [line, *(f"{name}: {value}" for name, value in {"Host": address, **headers}.items()), "", ""]
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read()


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "v1/../../x",
        "%2e%2e/x",
        "v1/.%2E/%2e./x",
        "..%2fx",
        "%252e%252e/x",
        "..\\x",
        "..%5Cx",
        "..",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_may_not_leave_the_upstream_s_address(server: Server, tmp_path: Path, method: str, path: str) -> None:
    """A path with `..`, as it is or escaped, is refused. Otherwise it would reach other parts of the upstream."""
    with proxying(tmp_path, {"openai": f"{server.url}/base"}) as proxy:
        status, _ = raw_answer(proxy, f"{method} /openai/{path} HTTP/1.1", {"Content-Length": "2"}, b"{}")
    assert (status, server.requests) == (400, [])


def test_names_with_dots_pass(server: Server, tmp_path: Path) -> None:
    """A name with dots, such as the version of a model, is forwarded. So is a task named `..` before the upstream."""
    with proxying(tmp_path, {"openai": f"{server.url}/base"}) as proxy:
        for path in ("/openai/v1/models/gpt..5/.well-known", "/run/../g/0/openai/v1/models/...%2e"):
            raw_answer(proxy, f"POST {path} HTTP/1.1", {"Content-Length": "2"}, b"{}")
    assert [path for path, _, _ in server.requests] == ["/base/v1/models/gpt..5/.well-known", "/base/v1/models/...%2e"]


@pytest.mark.parametrize("wrong_length", [3, 900])
@pytest.mark.parametrize("path", [PATH, "/openai/v1/files"])
def test_a_wrong_length_beside_chunks_does_not_count(
    proxy: RunningProxy, server: Server, path: str, wrong_length: int
) -> None:
    """A body that comes in chunks is forwarded whole, also if the client states a wrong length beside them."""
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    headers = {"Transfer-Encoding": "chunked", "Content-Length": str(wrong_length)}
    status, _ = raw_answer(proxy, f"POST {path} HTTP/1.1", headers, chunks)
    assert (status, [body for _, _, body in server.requests]) == (200, [BODY])


def test_the_proxy_keeps_no_cookies(proxy: RunningProxy, server: Server) -> None:
    """A cookie that a provider sets is forwarded to the client. It is neither kept, nor sent with the next request."""
    server.answers[:] = [plain(CHAT, **{"set-cookie": "session=secret; Path=/"})]
    answers = [httpx.post(proxy.url + path, content=BODY) for path in (PATH, PATH, "/openai/v1/files", PATH)]
    assert [answer.headers["set-cookie"] for answer in answers] == ["session=secret; Path=/"] * 4
    assert [headers.get("cookie") for _, headers, _ in server.requests] == [None] * 4
    assert alive(Cookie) == 0


def test_the_last_chunk_of_a_plain_answer_waits_for_the_record(proxy: RunningProxy, server: Server) -> None:
    """A client has the last bytes of an answer that is not a stream only when the whole answer is on file."""
    has_first, has_last, was_early = threading.Event(), threading.Event(), []

    class BeforeTheEnd(float):
        def __float__(self) -> float:
            assert has_first.wait(60)
            was_early.append(has_last.wait(0.5))
            return 0.0

    data = json.dumps(CHAT).encode()
    server.answers[:] = [Answer([data[:9], data[9:], BeforeTheEnd()], 200, {"content-type": "application/json"})]
    with httpx.stream("POST", proxy.url + PATH, content=BODY) as response:
        for chunk, event in zip(response.iter_raw(), (has_first, has_last), strict=False):
            event.set()
            assert chunk
        (call,) = proxy.runs()[0].llm_interactions
    assert (was_early, call.raw_response) == ([False], CHAT)


def test_a_page_may_not_use_the_proxy_even_with_its_token(server: Server, tmp_path: Path) -> None:
    """A browser sends `Origin` with a page's request. Such a request is refused, with the right token too."""
    origins = ["https://evil.example", "null", None]
    with proxying(tmp_path, {"openai": server.url}, token="t") as proxy:  # noqa: S106 - a token of this test
        statuses = [
            httpx.post(
                proxy.url + PATH,
                content=BODY,
                headers={"x-trace-recorder-token": "t"} | ({"origin": origin} if origin is not None else {}),
            ).status_code
            for origin in origins
        ]
    assert (statuses, len(server.requests)) == ([403, 403, 200], 1)
