"""The proxy forwards bytes and headers, streams as they arrive, errors, and the end of a connection on either side."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.capture.compressing import compressed
from tests.counting import kept_by
from tests.faults.unlucky import limit
from tests.provider import CHAT, CHAT_STREAM, DROP, SILENCE, Answer, Server, plain, stream
from tests.proxy.running import BODY, PATH, RunningProxy, proxying
from tests.waiting import wait_until
from trace_recorder import load


def test_headers_pass_in_their_order(proxy: RunningProxy, server: Server) -> None:
    """All headers except those of the connection are forwarded in order, including unknown ones."""
    sent = [("x-b", "2"), ("x-a", "1"), ("authorization", "Bearer key"), ("te", "trailers")]
    sent.append(("proxy-authorization", "Basic a-secret-for-another-proxy"))
    server.answers[:] = [plain(CHAT, **{"x-request-id": "r", "x-ratelimit-remaining": "5", "keep-alive": "timeout=5"})]
    with httpx.Client() as client:
        response = client.send(httpx.Request("POST", proxy.url + PATH, headers=sent, content=BODY))

    (path, received, body), answered = server.requests[0], dict(response.headers)
    del received["host"]
    assert (path, [*received.items()], body) == (
        "/v1/chat/completions",
        [("x-b", "2"), ("x-a", "1"), ("authorization", "Bearer key"), ("content-length", str(len(BODY)))],
        BODY,
    )
    assert answered == {
        "content-type": "application/json",
        "x-request-id": "r",
        "x-ratelimit-remaining": "5",
        "transfer-encoding": "chunked",
    }


@pytest.mark.parametrize(("name", "believed"), [("127.0.0.1", True), ("127.1", False)])
def test_only_a_server_of_this_machine_may_mark_an_answer_as_recorded(
    server: Server, tmp_path: Path, name: str, believed: bool
) -> None:
    """The proxy forwards the header that marks a replayed answer only from a server of this machine."""
    server.answers[:] = [plain(CHAT, **{"trace-recorder-replayed-from": '{"interaction_id": "llm_1"}'})]
    with proxying(tmp_path, {"openai": server.url.replace("127.0.0.1", name)}) as proxy:
        response = httpx.post(proxy.url + PATH, content=BODY)
        (call,) = proxy.runs()[0].llm_interactions
    assert ("trace-recorder-replayed-from" in response.headers, call.is_replayed) == (believed, believed)


def test_each_event_of_a_stream_is_passed_on_at_once(proxy: RunningProxy, server: Server) -> None:
    """The client has each event of a stream before the provider sends the next."""
    has_first = threading.Event()

    class Waiting(float):
        def __float__(self) -> float:
            assert has_first.wait(60)
            return 0.0

    first, *rest = CHAT_STREAM
    server.answers[:] = [stream(first, Waiting(), *rest)]
    with httpx.stream("POST", proxy.url + PATH, content=BODY) as response:
        chunks = response.iter_raw()
        received = [next(chunks)]
        has_first.set()
        received += chunks
    assert (received[0], b"".join(received)) == (first, b"".join(CHAT_STREAM))


def test_a_client_that_expects_100_gets_it(proxy: RunningProxy, server: Server) -> None:
    """curl, which sends a large body only after status 100, gets that status, and can send a second request over the
    connection.
    """
    head = f"POST {PATH} HTTP/1.1\r\nHost: {proxy.url.removeprefix('http://')}\r\nContent-Length: {len(BODY)}\r\n"
    with socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2])), timeout=60) as connection:
        file = connection.makefile("rb")
        for _ in range(2):
            connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
            assert (file.readline()[:12], file.readline()) == (b"HTTP/1.1 100", b"\r\n")
            connection.sendall(BODY)
            assert file.readline()[:12] == b"HTTP/1.1 200"
            while (line := file.readline()) != b"0\r\n":
                assert line
            file.readline()
    assert [("expect" in headers, body) for _, headers, body in server.requests] == [(False, BODY)] * 2


def test_a_large_request_passes_unchanged(proxy: RunningProxy, server: Server) -> None:
    """A request of four megabytes, which a Python client sends in pieces, is forwarded and recorded unchanged."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "0123456789 " * 400_000}]}).encode()
    httpx.post(proxy.url + PATH, content=body, timeout=60)
    assert [body for _, _, body in server.requests] == [body]
    assert proxy.runs()[0].llm_interactions[0].raw_request == json.loads(body)


def test_a_slow_reader_gets_the_whole_stream(proxy: RunningProxy, server: Server) -> None:
    """A client that does not read until all buffers are full still gets the whole stream."""
    filler = b": " + b"x" * 100_000 + b"\n\n"
    chunks = [*[filler] * 100, *CHAT_STREAM]
    server.answers[:] = [stream(*chunks)]
    with httpx.stream("POST", proxy.url + PATH, content=BODY) as response:
        time.sleep(0.3)
        received = b"".join(response.iter_raw())
    assert received == b"".join(chunks)
    assert proxy.runs()[0].llm_interactions[0].raw_stream == received.decode()


@pytest.mark.parametrize("status", [204, 301, 400, 401, 429, 500, 529])
def test_a_status_passes_with_its_body(proxy: RunningProxy, server: Server, status: int) -> None:
    """Each status is forwarded with its body: the proxy neither follows redirects nor retries."""
    body = b"" if status == 204 else b'{"error": {"message": "no"}}'
    server.answers[:] = [Answer([body] if body else [], status, {"content-type": "application/json", "location": "/x"})]
    response = httpx.post(proxy.url + PATH, content=BODY)
    assert (response.status_code, response.content, len(server.requests)) == (status, body, 1)


def test_other_requests_pass_and_are_not_recorded(proxy: RunningProxy, server: Server) -> None:
    """A list of models, a token count, and an upload that is generated while sent are forwarded and not recorded."""
    httpx.get(proxy.url + "/openai/v1/models?limit=2&after=a%2Fb")
    httpx.post(proxy.url + "/openai/v1/messages/count_tokens", content=BODY)
    httpx.post(proxy.url + "/openai/v1/files", content=iter([b"one,", b"two"]), headers={"content-length": "7"})
    assert [(path, body) for path, _, body in server.requests] == [
        ("/v1/models?limit=2&after=a%2Fb", b""),
        ("/v1/messages/count_tokens", BODY),
        ("/v1/files", b"one,two"),
    ]
    assert proxy.runs() == []


def test_a_broken_stream_breaks_for_the_program(proxy: RunningProxy, server: Server) -> None:
    """When the provider's stream breaks off, the program gets the same exception as without a proxy."""
    server.answers[:] = [stream(CHAT_STREAM[0], DROP)]
    with pytest.raises(httpx.RemoteProtocolError), httpx.stream("POST", proxy.url + PATH, content=BODY) as response:
        response.read()
    (call,) = proxy.runs()[0].llm_interactions
    assert (call.complete, call.raw_stream) == (False, CHAT_STREAM[0].decode())


def test_a_broken_plain_answer_is_passed_on_so_far(proxy: RunningProxy, server: Server) -> None:
    """The program gets the received part of an answer that breaks off, as curl would without a proxy."""
    part = b'{"id": "chatcmpl-1", '
    server.answers[:] = [Answer([part, DROP], 200, {"content-type": "application/json"})]
    with httpx.stream("POST", proxy.url + PATH, content=BODY) as response:
        chunks = response.iter_raw()
        received = next(chunks)
        with pytest.raises(httpx.RemoteProtocolError):
            next(chunks)
    (call,) = proxy.runs()[0].llm_interactions
    assert (received, call.complete) == (part, False)


def test_a_repeated_request_is_the_next_attempt(proxy: RunningProxy, server: Server) -> None:
    """A request that equals a failed one is its next attempt, even after another failed request or a broken stream."""
    other, again = BODY.replace(b"caf", b"tea"), {"x-stainless-retry-count": "1"}
    broken, no = stream(CHAT_STREAM[0], DROP), {"error": {"message": "later"}}
    server.answers[:] = [plain(no, 429), plain(no, 529), broken, plain(CHAT)]
    httpx.post(proxy.url + PATH, content=BODY)
    httpx.post(proxy.url + PATH, content=other)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(proxy.url + PATH, content=BODY, headers=again)
    httpx.post(proxy.url + PATH, content=BODY, headers=again)
    httpx.post(proxy.url + PATH, content=other)
    httpx.post(proxy.url + PATH, content=BODY)
    calls = proxy.runs()[0].llm_interactions
    assert [[(attempt.status, attempt.inferred) for attempt in call.attempts] for call in calls] == [
        [(429, False), (200, False), (200, False)],
        [(529, False), (200, True)],
        [(200, False)],
    ]


def test_simultaneous_failed_requests_are_each_repeated(proxy: RunningProxy, server: Server) -> None:
    """If two workers send the same request, and both get a 529, each retry is an attempt of its own request."""
    both_sent = threading.Barrier(2, timeout=60)
    busy = Answer([both_sent.wait, b"{}"], 529, {"content-type": "application/json"})
    server.answers[:] = [busy, busy, plain(CHAT), plain(CHAT)]
    workers = [threading.Thread(target=httpx.post, args=(proxy.url + PATH,), kwargs={"content": BODY}) for _ in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for _ in workers:
        httpx.post(proxy.url + PATH, content=BODY)
    calls = proxy.runs()[0].llm_interactions
    assert [[attempt.status for attempt in call.attempts] for call in calls] == [[529, 200], [529, 200]]


def test_failed_requests_are_not_kept_in_memory(proxy: RunningProxy, server: Server) -> None:
    """A session keeps only digests of its last 16 failed requests."""
    server.answers[:] = [plain({"error": {"message": "invalid JSON"}}, 400)]
    for number in range(16):
        httpx.post(proxy.url + PATH, content=f"{{ {number} ".encode() + b"0123456789 " * 10_000)
    assert kept_by(proxy.sessions).characters < 16 * 110_000 / 2


def test_an_equal_request_of_a_second_agent_is_a_new_call(proxy: RunningProxy, server: Server) -> None:
    """A sub-agent's request that equals the failed request of another sub-agent is a new call."""
    server.answers[:] = [plain({"error": {"message": "later"}}, 529), plain(CHAT), plain(CHAT)]
    for agent in ("a", "b", "a"):
        headers = {"x-claude-code-session-id": "s", "x-claude-code-agent-id": agent}
        httpx.post(proxy.url + PATH, content=BODY, headers=headers)
    calls = proxy.runs()[0].llm_interactions
    assert [(call.agent, [attempt.status for attempt in call.attempts]) for call in calls] == [
        ("a", [529, 200]),
        ("b", [200]),
    ]


def test_an_unreachable_provider_is_502(tmp_path: Path) -> None:
    """If nothing listens at the provider's port, the client gets status 502."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with proxying(tmp_path, {"openai": f"http://127.0.0.1:{closed.getsockname()[1]}"}) as proxy:
            response = httpx.post(proxy.url + PATH, content=BODY)
    (call,) = proxy.runs()[0].llm_interactions
    assert (response.status_code, response.json()["error"]["type"]) == (502, "trace_recorder_proxy")
    assert call.error is not None
    assert (call.error.type, call.answered) == ("ConnectError", False)


def test_a_client_that_disconnects_ends_its_call(proxy: RunningProxy, server: Server) -> None:
    """When a client disconnects, the provider's connection is closed, and the received part is recorded."""
    server.answers[:] = [stream(CHAT_STREAM[0], SILENCE)]
    with httpx.stream("POST", proxy.url + PATH, content=BODY) as response:
        assert next(response.iter_raw()) == CHAT_STREAM[0]
    wait_until(lambda: [call.answered and not call.complete for call in proxy.runs()[0].llm_interactions] == [True])
    (call,) = proxy.runs()[0].llm_interactions
    assert call.raw_stream == CHAT_STREAM[0].decode()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_compressed_bodies_pass_unchanged_and_are_recorded_as_text(
    proxy: RunningProxy, server: Server, encoding: str
) -> None:
    """Compressed bodies are forwarded unchanged and recorded as text, in every encoding that programs send."""
    request, answer = compressed(BODY, encoding), compressed(json.dumps(CHAT).encode(), encoding)
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    server.answers[:] = [Answer([answer], 200, headers)]
    with httpx.stream("POST", proxy.url + PATH, content=request, headers=headers) as response:
        assert b"".join(response.iter_raw()) == answer
    assert [body for _, _, body in server.requests] == [request]
    (call,) = proxy.runs()[0].llm_interactions
    assert (call.raw_request, call.raw_response) == (json.loads(BODY), CHAT)


def test_a_key_is_not_recorded(proxy: RunningProxy, tmp_path: Path) -> None:
    """A key in a forwarded header is masked, also where the body repeats the key."""
    key = "mykey-verysecret-of-no-known-form"
    httpx.post(proxy.url + PATH, headers={"authorization": f"Bearer {key}"}, json={"messages": [], "user": key})
    proxy.sessions.end()
    assert [path.name for path in tmp_path.iterdir() if key.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({}, 200),
    ],
)
def test_web_pages_cannot_use_the_proxy(
    proxy: RunningProxy, server: Server, headers: dict[str, str], status: int
) -> None:
    response = httpx.post(proxy.url + PATH, headers=headers, content=BODY)
    assert (response.status_code, len(server.requests)) == (status, status == 200)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_the_proxy_answers_to_each_name_of_this_machine(proxy: RunningProxy, name: str) -> None:
    """A request may have any of these names in its `Host` header, without a token."""
    host = f"{name}:{proxy.url.rpartition(':')[2]}"
    assert httpx.post(proxy.url + PATH, headers={"host": host}, content=BODY).status_code == 200


@pytest.mark.parametrize(("token", "status"), [("t0ken", 200), ("other", 403), (None, 403)])
def test_beyond_this_machine_the_proxy_needs_a_token_and_does_not_pass_it_on(
    server: Server, tmp_path: Path, token: str | None, status: int
) -> None:
    headers = {} if token is None else {"X-Trace-Recorder-Token": token}
    with proxying(tmp_path, {"openai": server.url}, token="t0ken") as proxy:
        response = httpx.post(proxy.url + PATH, headers=headers, content=BODY)
    assert response.status_code == status
    assert [headers.get("x-trace-recorder-token") for _, headers, _ in server.requests] == [None] * (status == 200)


def test_an_unknown_upstream_is_refused_with_the_known_names(proxy: RunningProxy) -> None:
    response = httpx.post(proxy.url + "/v1/chat/completions", content=BODY)
    assert (response.status_code, response.json()["error"]["message"]) == (
        404,
        "the path has to begin with the name of an upstream: /openai",
    )


def test_a_call_whose_session_cannot_be_recorded_is_in_no_run(server: Server, tmp_path: Path) -> None:
    """If the directory of a session is gone, its call is in no run, while a second session is recorded."""
    with proxying(tmp_path / "runs", {"openai": server.url}) as proxy:
        httpx.post(proxy.url + PATH, content=BODY, headers={"session-id": "one"})
        (tmp_path / "runs").rename(tmp_path / "moved")
        (tmp_path / "runs").write_text("")
        response = httpx.post(proxy.url + PATH, content=BODY, headers={"session-id": "two"})
    assert response.json() == CHAT
    assert [len(load(path).llm_interactions) for path in (tmp_path / "moved").glob("*.jsonl")] == [1]


def test_a_failure_of_recording_fails_no_call(server: Server, tmp_path: Path) -> None:
    """If the proxy's directory for runs is a file, calls are still answered."""
    (tmp_path / "runs").write_text("")
    with proxying(tmp_path / "runs", {"openai": server.url}) as proxy:
        response = httpx.post(proxy.url + PATH, content=BODY)
    assert (response.json(), len(server.requests)) == (CHAT, 1)


def test_a_full_disk_fails_no_call(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While files cannot grow, old and new sessions are answered. The loss is logged, and is a gap in each run."""

    def asked(session: str, text: str) -> object:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        return httpx.post(proxy.url + PATH, json=body, headers={"session-id": session}).json()

    with proxying(tmp_path, {"openai": server.url}) as proxy:
        answers = [asked("a", "before")]
        journal = proxy.sessions.documents[0].with_suffix(".jsonl")
        with limit(resource.RLIMIT_FSIZE, journal.stat().st_size + 100):
            answers += [asked("a", "full"), asked("b", "full")]
        answers += [asked("a", "after"), asked("b", "after")]
    answered = [
        [str(call.input_messages[-1].content) for call in run.llm_interactions if call.answered] for run in proxy.runs()
    ]
    assert answers == [CHAT] * 5
    assert [[text for text in texts if text != "full"] for texts in answered] == [["before", "after"], ["after"]]
    assert [bool(run.gaps) for run in proxy.runs()] == [True, "full" not in answered[1]]
    assert "could not record" in caplog.text
