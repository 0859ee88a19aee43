"""Multipart forms, sent by each library and through the proxy: on file as JSON, and sent as without us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.counting import arguments_of
from tests.journals import records_of
from tests.provider import Request, plain, serving
from trace_recorder import Replay, TrajectoryRecorder, load
from trace_recorder.dialects.form_bodies import form_as_json

Payload = Any
PATH = "/v1/audio/transcriptions"
SOUND = bytes(range(256)) * 40
LARGE = bytes(range(256)) * 1000
TEXT = plain({"text": "hello", "usage": {"type": "duration", "seconds": 3}})
FIELDS = {"model": "whisper-1", "prompt": "my password: hunter2secret", "api_key": "hunter2secret"}


def file_of(sound: bytes) -> Payload:
    return ("a.wav", sound, "audio/wav")


def by_httpx(library: str) -> Callable[[TrajectoryRecorder, str, bytes], None]:
    def post(recorder: TrajectoryRecorder, url: str, sound: bytes) -> None:
        with import_module(library).Client() as client:
            recorder.wrap(client).post(url, data=FIELDS, files={"file": file_of(sound)})

    return post


def by_async_httpx(library: str) -> Callable[[TrajectoryRecorder, str, bytes], None]:
    def post(recorder: TrajectoryRecorder, url: str, sound: bytes) -> None:
        async def work() -> None:
            async with import_module(library).AsyncClient() as client:
                await recorder.wrap(client).post(url, data=FIELDS, files={"file": file_of(sound)})

        asyncio.run(work())

    return post


def by_requests(recorder: TrajectoryRecorder, url: str, sound: bytes) -> None:
    recorder.wrap(import_module("requests").Session()).post(url, data=FIELDS, files={"file": file_of(sound)})


def by_urllib3(recorder: TrajectoryRecorder, url: str, sound: bytes) -> None:
    pool = recorder.wrap(import_module("urllib3").PoolManager(retries=False))
    pool.request("POST", url, fields={**FIELDS, "file": file_of(sound)})


def by_aiohttp(recorder: TrajectoryRecorder, url: str, sound: bytes) -> None:
    async def work() -> None:
        library = import_module("aiohttp")
        form = library.FormData(FIELDS)
        form.add_field("file", sound, filename="a.wav", content_type="audio/wav")
        async with library.ClientSession() as session:
            async with recorder.wrap(session).post(url, data=form) as response:
                await response.read()

    asyncio.run(work())


WAYS: dict[str, Callable[[TrajectoryRecorder, str, bytes], None]] = {
    "httpx": by_httpx("httpx"),
    "httpx2": by_httpx("httpx2"),
    "async httpx": by_async_httpx("httpx"),
    "async httpx2": by_async_httpx("httpx2"),
    "requests": by_requests,
    "urllib3": by_urllib3,
    "aiohttp": by_aiohttp,
}
INSTALLED = [way for way in WAYS if find_spec(way.removeprefix("async "))]


def on_file(sound: bytes) -> Payload:
    """Return the form as it must be on file."""
    base64 = import_module("base64").b64encode(sound).decode()
    file = {"filename": "a.wav", "content_type": "audio/wav", "base64": base64}
    masked = {"prompt": "my password: [REDACTED:assigned-secret]", "api_key": "[REDACTED:secret-member]"}
    return {"model": "whisper-1", **masked, "file": file}


def files_in(request: Request) -> Payload:
    """Return the form that a server got, by the reader of the standard library."""
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    parts = import_module("email").message_from_bytes(head + request.body).get_payload()
    return {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}


@pytest.mark.parametrize("sound", [SOUND, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("way", INSTALLED)
def test_a_form_is_on_file_as_json(tmp_path: Path, way: str, sound: bytes) -> None:
    """The server gets the form. The same fields are on file, without the boundary, and with secrets masked."""
    with serving(TEXT) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        WAYS[way](recorder, server.url + PATH, sound)
        [request] = server.requests
    run = load(tmp_path / "a.json")
    [call] = run.llm_interactions

    assert files_in(request) == {**{name: text.encode() for name, text in FIELDS.items()}, "file": sound}
    assert (call.raw_request, call.model, call.response.content, run.gaps) == (
        on_file(sound),
        "whisper-1",
        "hello",
        (),
    )
    boundary = request.headers["content-type"].rpartition("boundary=")[2].strip('"')
    assert boundary
    assert boundary not in (tmp_path / "a.jsonl").read_text()


@pytest.mark.parametrize("way", INSTALLED)
def test_a_form_sent_again_is_on_file_once(tmp_path: Path, way: str) -> None:
    """The bytes of a file that several calls send are stored once, by content."""
    with serving(TEXT) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        for _ in range(2):
            WAYS[way](recorder, server.url + PATH, SOUND)
    journal = (tmp_path / "a.jsonl").read_text()
    first, second = load(tmp_path / "a.json").llm_interactions

    assert journal.count(on_file(SOUND)["file"]["base64"]) == 1
    assert first.raw_request == second.raw_request == on_file(SOUND)


@pytest.mark.parametrize("way", INSTALLED)
def test_a_replay_answers_a_form(tmp_path: Path, way: str) -> None:
    """A replay compares a form with the recorded form, whose boundary was another one."""
    with serving(TEXT) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        WAYS[way](recorder, server.url + PATH, SOUND)
    with Replay(tmp_path / "a.json", instrument=True) as replay, TrajectoryRecorder(tmp_path / "b.json") as again:
        WAYS[way](again, "http://127.0.0.1:1" + PATH, SOUND)
    [call] = load(tmp_path / "b.json").llm_interactions

    assert (replay.live_calls, call.response.content) == (0, "hello")


def test_the_proxy_records_a_form(tmp_path: Path) -> None:
    """A program that sends a form through the proxy is recorded in the same form."""
    pytest.importorskip("uvicorn")  # the environment with aiohttp has no proxy
    from tests.proxy.running import proxying

    with serving(TEXT) as server, proxying(tmp_path, {"openai": server.url}) as proxy:
        httpx.post(f"{proxy.url}/openai{PATH}", data=FIELDS, files={"file": file_of(SOUND)})
        [call] = proxy.runs()[0].llm_interactions
        [request] = server.requests

    assert files_in(request)["file"] == SOUND
    assert (call.api, call.raw_request) == ("transcriptions", on_file(SOUND))


@pytest.mark.parametrize("way", [way for way in INSTALLED if way.startswith("a")])
def test_a_thread_reads_a_large_form(tmp_path: Path, way: str) -> None:
    """The event loop reads no large form, because that would stop all its tasks."""

    def ask() -> None:
        with serving(TEXT) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
            WAYS[way](recorder, server.url + PATH, LARGE)

    assert arguments_of(ask, form_as_json, lambda _: 1) == []
    assert load(tmp_path / "a.json").llm_interactions[0].raw_request == on_file(LARGE)


@pytest.mark.parametrize("way", INSTALLED)
def test_a_form_that_is_sent_again_after_a_failure_is_an_attempt(tmp_path: Path, way: str) -> None:
    """Two forms are equal although their boundaries differ, so the second request is the next attempt of the call."""
    answers = [plain({"error": {"message": "later"}}, status=500), TEXT]
    with serving(*answers) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        for _ in range(2):
            WAYS[way](recorder, server.url + PATH, SOUND)
    calls = load(tmp_path / "a.json").llm_interactions

    assert [attempt.status for call in calls for attempt in call.attempts] == [500, 200]
    assert len(calls) == (1 if way in IN_ONE_CONTEXT else 2)


IN_ONE_CONTEXT = ("httpx", "httpx2", "requests", "urllib3")
"""The ways in which both requests are sent in one context. Each of the others starts an event loop for a request."""


def test_a_form_that_breaks_off_keeps_what_was_seen(tmp_path: Path) -> None:
    """If the file of the program raises, the fields that have passed are on file, with a gap."""

    class Breaking:
        def __init__(self) -> None:
            self.left = [SOUND]

        def read(self, size: int = -1) -> bytes:  # noqa: ARG002 - the name that httpx calls
            if not self.left:
                raise LookupError("no more")
            return self.left.pop()

    with serving(TEXT) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder, httpx.Client() as client:
        with pytest.raises(LookupError):
            recorder.wrap(client).post(server.url + PATH, data={"model": "m"}, files={"file": ("a", Breaking())})
    run = load(tmp_path / "a.json")
    [call] = run.llm_interactions

    assert (call.model, call.error and call.error.type, len(run.gaps)) == ("m", "LookupError", 1)
    assert call.raw_request["file"]["base64"] == on_file(SOUND)["file"]["base64"]
    assert [record.kind for record in records_of(tmp_path / "a.jsonl") if record.kind.startswith("llm")] == [
        "llm_request",
        "llm_error",
    ]
