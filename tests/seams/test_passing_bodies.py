"""Bodies of requests that are made while they are sent: they are recorded as they pass, and sent as without us."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.limits import limited
from tests.provider import CHAT, Answer, plain, serving
from trace_recorder import LLMInteraction, Replay, TrajectoryRecorder, load

PATH = "/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "q é " * 300}]}
BODY = json.dumps(ASKED, ensure_ascii=False).encode()
JSON_TYPE = {"content-type": "application/json"}
Payload = Any


class FileLike:
    """An object that can only be read, as a user may write it."""

    def __init__(self) -> None:
        self._file = io.BytesIO(BODY)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


def pieces() -> Iterator[bytes]:
    yield from (BODY[:10], BODY[10:])


async def async_pieces() -> AsyncIterator[bytes]:
    for piece in (BODY[:10], BODY[10:]):
        await asyncio.sleep(0)
        yield piece


def file_on_disk(path: Path) -> Payload:
    path.write_bytes(BODY)
    return path.open("rb")


def post_by_urllib3(recorder: TrajectoryRecorder, url: str, body: Payload) -> None:
    pool = recorder.wrap(import_module("urllib3").PoolManager(retries=False))
    pool.request("POST", url, body=body, headers=JSON_TYPE)


def post_by_requests(recorder: TrajectoryRecorder, url: str, body: Payload) -> None:
    recorder.wrap(import_module("requests").Session()).post(url, data=body, headers=JSON_TYPE)


def post_by_httpx(library: str) -> Callable[[TrajectoryRecorder, str, Payload], None]:
    def post(recorder: TrajectoryRecorder, url: str, body: Payload) -> None:
        with import_module(library).Client() as client:
            recorder.wrap(client).post(url, content=body, headers=JSON_TYPE)

    return post


def post_by_async_httpx(library: str) -> Callable[[TrajectoryRecorder, str, Payload], None]:
    def post(recorder: TrajectoryRecorder, url: str, body: Payload) -> None:
        async def work() -> None:
            async with import_module(library).AsyncClient() as client:
                await recorder.wrap(client).post(url, content=body, headers=JSON_TYPE)

        asyncio.run(work())

    return post


def post_by_aiohttp(recorder: TrajectoryRecorder, url: str, body: Payload) -> None:
    async def work() -> None:
        library = import_module("aiohttp")
        async with library.ClientSession() as session:
            made = body(library) if callable(body) else body
            async with recorder.wrap(session).post(url, data=made, headers=JSON_TYPE) as response:
                await response.read()

    asyncio.run(work())


FILES: dict[str, Callable[[Path], Payload]] = {
    "BytesIO": lambda _: io.BytesIO(BODY),
    "StringIO": lambda _: io.StringIO(BODY.decode()),
    "file": lambda path: file_on_disk(path / "body.json"),
    "iterator": lambda _: pieces(),
}
PAYLOADS: dict[str, Callable[[Path], Payload]] = {
    **{name: make for name, make in FILES.items() if name != "iterator"},
    "async iterator": lambda _: async_pieces(),
    "JsonPayload": lambda _: lambda library: library.JsonPayload(ASKED),
    "BytesIOPayload": lambda _: lambda library: library.payload.BytesIOPayload(io.BytesIO(BODY)),
    "StringPayload": lambda _: lambda library: library.payload.StringPayload(BODY.decode()),
}
WAYS: dict[str, tuple[Callable[[TrajectoryRecorder, str, Payload], None], dict[str, Callable[[Path], Payload]]]] = {
    "urllib3": (post_by_urllib3, {**FILES, "object": lambda _: FileLike()}),
    "requests": (post_by_requests, {name: make for name, make in FILES.items() if name != "StringIO"}),
    "httpx": (post_by_httpx("httpx"), {name: make for name, make in FILES.items() if name != "StringIO"}),
    "httpx2": (post_by_httpx("httpx2"), {name: make for name, make in FILES.items() if name != "StringIO"}),
    "async httpx": (post_by_async_httpx("httpx"), {"async iterator": PAYLOADS["async iterator"]}),
    "async httpx2": (post_by_async_httpx("httpx2"), {"async iterator": PAYLOADS["async iterator"]}),
    "aiohttp": (post_by_aiohttp, PAYLOADS),
}
ITERATORS = {way: next(name for name in bodies if name.endswith("iterator")) for way, (_, bodies) in WAYS.items()}
"""The body of each way that can be read once."""
CASES = [(way, body) for way, (_, bodies) in WAYS.items() if find_spec(way.removeprefix("async ")) for body in bodies]


def recorded(
    path: Path, way: str, make: Callable[[Path], Payload], answer: Answer, **limits: int
) -> tuple[list[LLMInteraction], list[bytes], list[str]]:
    """Post a body. Return the calls on file, the bodies that the server got, and the reasons of the gaps."""
    post, _ = WAYS[way]
    with serving(answer) as server, limited(**limits)(path / "a.json") as recorder:
        body = make(path)
        post(recorder, server.url + PATH, body)
        if isinstance(body, io.IOBase):
            body.close()
        got = [request.body for request in server.requests]
    run = load(path / "a.json")
    return list(run.llm_interactions), got, [gap.why for gap in run.gaps]


@pytest.mark.parametrize(("way", "body"), CASES)
def test_a_body_is_recorded_as_it_passes(tmp_path: Path, way: str, body: str) -> None:
    """The server gets the body, and the same body is on file, whatever object it was made from."""
    [call], got, gaps = recorded(tmp_path, way, WAYS[way][1][body], plain(CHAT))

    assert (got[0].decode() if body != "JsonPayload" else json.loads(got[0])) == (
        BODY.decode() if body != "JsonPayload" else ASKED
    )
    assert ([message.content for message in call.input_messages], call.complete, gaps) == (
        [ASKED["messages"][0]["content"]],
        True,
        [],
    )


@pytest.mark.parametrize(("way", "body"), CASES)
def test_the_request_is_on_file_before_the_response(tmp_path: Path, way: str, body: str) -> None:
    """The record of the request comes before the record of the response."""
    recorded(tmp_path, way, WAYS[way][1][body], plain(CHAT))
    records = [json.loads(line)["kind"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]

    assert [kind for kind in records if kind.startswith("llm")] == ["llm_request", "llm_response"]


@pytest.mark.parametrize("way", sorted({way for way, body in CASES if body == "iterator"}))
def test_an_exception_of_the_body_reaches_the_caller(tmp_path: Path, way: str) -> None:
    """An exception that the body raises is the caller's. The part that has passed is on file, with a gap."""

    def failing() -> Iterator[bytes]:
        yield BODY[:20]
        raise LookupError("no more")

    raised: list[str] = []

    def act(make: Callable[[Path], Payload]) -> Payload:
        try:
            recorded(tmp_path, way, make, plain(CHAT))
        except Exception as error:  # noqa: BLE001 - any exception that the caller gets is compared
            raised.append(f"{type(error).__name__}: {error}")

    act(lambda _: failing())
    run = load(tmp_path / "a.json")
    [call] = run.llm_interactions

    assert raised == ["LookupError: no more"]
    assert (call.error and call.error.type, [gap.why for gap in run.gaps]) == (
        "LookupError",
        ["only 20 bytes of it were seen"],
    )


@pytest.mark.parametrize("way", sorted({way for way, _ in CASES}))
def test_a_body_that_is_too_long_is_a_gap(tmp_path: Path, way: str) -> None:
    """A body that is longer than the bound is sent. It is not kept, and a gap has its length and digest."""
    [call], got, gaps = recorded(tmp_path, way, WAYS[way][1][ITERATORS[way]], plain(CHAT), body_bytes=1000)

    assert (got, call.input_messages, gaps) == (
        [BODY],
        [],
        [f"it has {len(BODY):,} bytes, sha256 {sha256(BODY).hexdigest()}"],
    )


def test_a_retry_that_rewinds_a_file_is_an_attempt(tmp_path: Path) -> None:
    """urllib3 rewinds a file for its retry. Both attempts have the whole body."""
    urllib3 = import_module("urllib3")
    retries = urllib3.Retry(1, status_forcelist=[500], allowed_methods=None)
    with serving(plain({}, status=500), plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        pool = recorder.wrap(urllib3.PoolManager(retries=retries))
        pool.request("POST", server.url + PATH, body=io.BytesIO(BODY), headers=JSON_TYPE)
        got = [request.body for request in server.requests]
    [call] = load(tmp_path / "a.json").llm_interactions

    assert (got, [attempt.status for attempt in call.attempts]) == ([BODY, BODY], [500, 200])


@pytest.mark.parametrize("way", sorted({way for way, _ in CASES}))
def test_a_replay_answers_a_body_that_passes(tmp_path: Path, way: str) -> None:
    """A replay compares the body of an iterator with the recorded body, and answers."""
    recorded(tmp_path, way, WAYS[way][1][ITERATORS[way]], plain(CHAT))
    with Replay(tmp_path / "a.json", instrument=True) as replay, TrajectoryRecorder(tmp_path / "b.json") as again:
        WAYS[way][0](again, "http://127.0.0.1:1" + PATH, WAYS[way][1][ITERATORS[way]](tmp_path))

    assert replay.live_calls == 0
    [call] = load(tmp_path / "b.json").llm_interactions
    assert call.response is not None
    assert call.response.content == CHAT["choices"][0]["message"]["content"]
