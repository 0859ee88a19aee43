"""A local provider that answers from a recording: the real SDKs and plain HTTP over a socket."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from google import genai

from tests.provider import (
    CHAT,
    CHAT_STREAM,
    DROP,
    GENERATED,
    MESSAGE,
    OLLAMA,
    Answer,
    plain,
    running,
    serving,
    stream,
)
from tests.rerun.runs import KEY, ask, client, said
from trace_recorder import TrajectoryRecorder, replay
from trace_recorder.rerun.serving import ReplayServer, base_urls, error_body

ASKED: Any = [{"role": "user", "content": "hi"}]
Made = Callable[[str], Any]


def made_openai(url: str) -> Any:
    return openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)


def made_anthropic(url: str) -> Any:
    return anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0)


def made_google(url: str) -> Any:
    return genai.Client(api_key=KEY, http_options={"base_url": url})


def made_ollama(url: str) -> Any:
    return ollama.Client(url)


def chat(made: Any) -> Any:
    return made.chat.completions.create(model="m", messages=ASKED).model_dump()


def streamed(made: Any) -> Any:
    options = {"include_usage": True}
    chunks = made.chat.completions.create(model="m", messages=ASKED, stream=True, stream_options=options)
    return [chunk.model_dump() for chunk in chunks]


def refused(made: Any) -> Any:
    with pytest.raises(openai.RateLimitError) as error:
        made.chat.completions.create(model="m", messages=ASKED)
    return str(error.value), error.value.response.headers["retry-after"]


def broken(made: Any) -> Any:
    with pytest.raises(openai.APIConnectionError) as error:
        streamed(made)
    return str(error.value.__cause__)


def message(made: Any) -> Any:
    return made.messages.create(model="c", max_tokens=9, messages=ASKED).model_dump()


def generated(made: Any) -> Any:
    return made.models.generate_content(model="gemini-2.5-flash", contents="hi").text


def talked(made: Any) -> Any:
    return made.chat(model="llama", messages=ASKED).model_dump()


RATE_LIMITED = plain({"error": {"message": "slow down"}}, 429, **{"retry-after": "7"})
CASES: dict[str, tuple[Answer, Made, Callable[[Any], Any]]] = {
    "openai": (plain(CHAT), made_openai, chat),
    "openai, streamed": (stream(*CHAT_STREAM), made_openai, streamed),
    "openai, refused": (RATE_LIMITED, made_openai, refused),
    "openai, broken off": (stream(CHAT_STREAM[0], DROP), made_openai, broken),
    "anthropic": (plain(MESSAGE), made_anthropic, message),
    "google": (plain(GENERATED), made_google, generated),
    "ollama": (plain(OLLAMA), made_ollama, talked),
}


@contextmanager
def local_provider(path: Path, **options: Any) -> Iterator[ReplayServer]:
    """Run a local provider from a run during a test. `missed` has its mismatches."""
    missed: list[str] = []
    server = ReplayServer(replay(path, **options), on_mismatch=missed.append)
    server.missed = missed  # type: ignore[attr-defined]
    with running(server):
        yield server


@contextmanager
def closing(made: Any) -> Iterator[Any]:
    """Close a client of any SDK at the end of the block."""
    try:
        yield made
    finally:
        (made._client if isinstance(made, ollama.Client) else made).close()


def recorded(path: Path, answer: Answer, make: Made, act: Callable[[Any], Any]) -> Any:
    with serving(answer) as server, closing(make(server.url)) as made, TrajectoryRecorder(path) as recorder:
        return act(recorder.wrap(made))


@pytest.mark.parametrize(("answer", "make", "act"), CASES.values(), ids=CASES)
def test_an_sdk_gets_its_recorded_answers(
    answer: Answer, make: Made, act: Callable[[Any], Any], tmp_path: Path
) -> None:
    """The objects, chunks and exceptions are the same, and all recorded calls are used."""
    before = recorded(tmp_path / "run.json", answer, make, act)

    with local_provider(tmp_path / "run.json") as server, closing(make(server.url)) as made:
        assert act(made) == before
        assert (server.replay.unused, server.missed) == ([], [])  # type: ignore[attr-defined]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run of one call."""
    with serving(said("one")) as server, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        ask(recorder.wrap(client(f"{server.url}/v1")))
    return tmp_path / "run.json"


def test_an_unrecorded_request_is_not_found(path: Path) -> None:
    """The SDK raises its own exception with the difference as its message, and does not retry.

    Recorded calls are still answered.
    """
    with local_provider(path) as server:
        made = client(f"{server.url}/v1")
        with pytest.raises(openai.NotFoundError, match=r"messages\[0\]\.content: Please list the\[- files-\]"):
            ask(made, "Please list the folders")
        assert ask(made) == "one"
        with pytest.raises(openai.NotFoundError, match="all recorded calls have been used"):
            ask(made)

        assert (len(server.missed), server.replay.unused) == (2, [])  # type: ignore[attr-defined]


REFUSALS: dict[str, tuple[Made, Callable[[Any], Any], type[Exception]]] = {
    "anthropic": (made_anthropic, message, anthropic.NotFoundError),
    "google": (made_google, generated, genai.errors.ClientError),
    "ollama": (made_ollama, talked, ollama.ResponseError),
}


@pytest.mark.parametrize(("make", "act", "kind"), REFUSALS.values(), ids=REFUSALS)
def test_each_dialect_is_refused_in_its_own_form(
    make: Made, act: Callable[[Any], Any], kind: type[Exception], path: Path
) -> None:
    """Each SDK finds the message where its provider states errors."""
    with local_provider(path) as server, closing(make(server.url)) as made:
        with pytest.raises(kind, match="no recorded call is of this dialect"):
            act(made)


def post(server: ReplayServer, text: str = "Please list the files", **headers: str) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    with httpx.Client(trust_env=False) as made:
        return made.post(f"{server.url}/any/prefix/chat/completions", json=body, headers=headers)


def test_any_http_client_is_answered(path: Path) -> None:
    """A client needs no key, and may use any prefix.

    The answer states its length and the recorded call.
    """
    with local_provider(path) as server:
        answer = post(server)
        identity = server.replay.recording.trajectory_id

    assert answer.json()["choices"][0]["message"]["content"] == "one"
    assert answer.headers == {
        "content-type": "application/json",
        "trace-recorder-replayed-from": json.dumps({"trajectory_id": identity, "interaction_id": "llm_1"}),
        "content-length": str(len(answer.content)),
    }


def test_chunks_are_sent_as_recorded(tmp_path: Path) -> None:
    """Each recorded chunk is one chunk of HTTP, and is delayed as recorded if the user asks for it."""
    paused = stream(CHAT_STREAM[0], 0.3, *CHAT_STREAM[1:])
    recorded(tmp_path / "run.json", paused, made_openai, streamed)
    body = {"model": "m", "messages": ASKED, "stream": True, "stream_options": {"include_usage": True}}
    answers = []
    for speed in (None, 1.0):
        with local_provider(tmp_path / "run.json", speed=speed) as server, httpx.Client(trust_env=False) as made:
            with made.stream("POST", f"{server.url}/v1/chat/completions", json=body) as answer:
                answers.append((list(answer.iter_raw()), answer.elapsed.total_seconds() >= 0.25))

    assert answers == [(list(CHAT_STREAM), False), (list(CHAT_STREAM), True)]


def test_a_call_without_an_answer_has_none_again(tmp_path: Path) -> None:
    """If a connection was cut before the answer, it is cut again."""

    def cut(made: Any) -> None:
        with pytest.raises(openai.APIConnectionError):
            chat(made)

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with closing(made_openai(f"http://127.0.0.1:{nobody.getsockname()[1]}")) as made:
            with TrajectoryRecorder(tmp_path / "run.json") as recorder:
                cut(recorder.wrap(made))

    with local_provider(tmp_path / "run.json") as server, closing(made_openai(server.url)) as made:
        cut(made)
        assert server.replay.unused == []


def raw(server: ReplayServer, request: bytes) -> http.client.HTTPResponse:
    """Return the answer to raw bytes."""
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        answer.read()
        return answer


BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Please list the files"}]}).encode()
TARGET = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost:PORT\r\n"
WHOLE = b"content-length: %d\r\n\r\n%s" % (len(BODY), BODY)
REQUESTS = {
    "in chunks": (TARGET + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), 200),
    "of its own page": (TARGET + b"origin: http://localhost:PORT\r\nsec-fetch-site: same-origin\r\n" + WHOLE, 200),
    "of no length": (TARGET + b"content-length: x\r\n\r\n", 400),
    "of less than no length": (TARGET + b"content-length: -1\r\n\r\n", 400),
    "another address": (b"POST /v1/files HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ncontent-length: 0\r\n\r\n", 404),
    "another method": (b"GET /v1/models HTTP/1.1\r\nhost: localhost:PORT\r\n\r\n", 404),
}
FOREIGN = {
    "under another name": TARGET.replace(b"localhost", b"evil.example") + WHOLE,
    "without a name": TARGET.partition(b"host")[0] + WHOLE,
    "for another port": TARGET.replace(b"PORT", b"1") + WHOLE,
    "of another origin": TARGET + b"origin: https://evil.example\r\n" + WHOLE,
    "of a file": TARGET + b"origin: null\r\n" + WHOLE,
    "of another site": TARGET + b"sec-fetch-site: cross-site\r\n" + WHOLE,
    "of an image": b"GET /v1/responses/r HTTP/1.1\r\nhost: localhost:PORT\r\nsec-fetch-site: same-site\r\n\r\n",
}


@pytest.mark.parametrize(("request_", "status"), REQUESTS.values(), ids=REQUESTS)
def test_requests_are_read_by_the_rules_of_http(request_: bytes, status: int, path: Path) -> None:
    """A request that is not an LLM call is refused."""
    with local_provider(path) as server:
        assert raw(server, request_.replace(b"PORT", b"%d" % server.server_port)).status == status


@pytest.mark.parametrize("request_", FOREIGN.values(), ids=FOREIGN)
def test_a_web_page_uses_up_no_answer(request_: bytes, path: Path) -> None:
    """A browser's request is refused, and counts neither as a call nor as a mismatch."""
    with local_provider(path) as server:
        status = raw(server, request_.replace(b"PORT", b"%d" % server.server_port)).status

        assert (status, len(server.replay.unused), server.missed) == (403, 1, [])  # type: ignore[attr-defined]


def test_the_server_listens_only_on_this_machine(path: Path) -> None:
    """Its address belongs to the loopback interface."""
    with local_provider(path) as server:
        assert (server.server_address[0], server.url) == ("127.0.0.1", f"http://127.0.0.1:{server.server_port}")


def test_the_variables_belong_to_the_recorded_dialects(path: Path, tmp_path: Path) -> None:
    """The server names the base URL's variable for the SDK of each dialect in the recording."""
    recorded(tmp_path / "other.json", plain(MESSAGE), made_anthropic, message)
    found = [base_urls(replay(one).recording, "http://h") for one in (path, tmp_path / "other.json")]

    assert found == [{"OPENAI_BASE_URL": "http://h/v1"}, {"ANTHROPIC_BASE_URL": "http://h"}]


def test_an_error_of_an_unknown_dialect_has_openai_s_form() -> None:
    """Most clients can read that form."""
    assert error_body("", "why") == error_body("openai-chat", "why")
