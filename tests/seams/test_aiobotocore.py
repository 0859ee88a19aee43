"""Bedrock by the real aiobotocore, over aiohttp and over httpx: the bytes that the server sends are recorded."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.provider import SILENCE, Answer, plain, serving
from tests.seams.bedrock import ASK, KEYS, MODEL, lines_on_file, only_call
from tests.seams.frames import CLAUDE, CONVERSE, WHOLE, cut, frame
from trace_recorder import TrajectoryRecorder, instrument, load, replay, uninstrument, unwrap
from trace_recorder.dialects.stream_framing import encode_line

aiobotocore = pytest.importorskip("aiobotocore.session", reason="aiobotocore has an environment of its own")
pytestmark = [
    # A stream that is not read to its end leaves its connection open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Payload = Any
TRANSPORTS = ["aiohttp", "httpx"] if find_spec("aiobotocore.httpxsession") else ["aiohttp"]
each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@asynccontextmanager
async def bedrock(url: str, transport: str = "aiohttp") -> AsyncIterator[Payload]:
    """Yield a client that sends by one of the two libraries."""
    kind = {"aiohttp": "httpsession.AIOHTTPSession", "httpx": "httpxsession.HttpxSession"}[transport]
    module, _, name = kind.partition(".")
    session_class = getattr(import_module(f"aiobotocore.{module}"), name)
    config = import_module("aiobotocore.config").AioConfig(http_session_cls=session_class)
    made = aiobotocore.get_session().create_client(
        "bedrock-runtime", endpoint_url=url, region_name="us-east-1", config=config, **KEYS
    )
    async with made as client:
        yield client


async def streamed(client: Payload) -> list[Payload]:
    """Request a stream of Converse, and return its events."""
    answer = await client.converse_stream(modelId=MODEL, messages=ASK)
    return [event async for event in answer["stream"]]


async def asked(client: Payload) -> Payload:
    """Request an answer of Converse that is not a stream, and return its message."""
    return (await client.converse(modelId=MODEL, messages=ASK))["output"]["message"]


def called(url: str, call: Callable[[Payload], Payload], bind: Callable[[Payload], object], transport: str) -> Payload:
    """Return the outcome of a call with a bound client."""

    async def work() -> Payload:
        async with bedrock(url, transport) as client:
            bind(client)
            return await call(client)

    return asyncio.run(work())


def test_a_stream_of_converse_is_recorded(tmp_path: Path) -> None:
    """The caller gets the stream's events, wherever its chunks end, and the frames can be rebuilt from the record."""
    path = tmp_path / "a.json"
    with serving(cut(CONVERSE, 1)) as server:
        alone = called(server.url, streamed, lambda _: None, "aiohttp")
    for size in (1, 10_000):
        with serving(cut(CONVERSE, size)) as server, TrajectoryRecorder(path, strict=True) as recorder:
            assert called(server.url, streamed, recorder.wrap, "aiohttp") == alone
        call = only_call(path)

        assert (call.api, call.model, call.complete, call.response.content) == (
            "bedrock-converse",
            MODEL,
            True,
            "Grüße",
        )
        assert [(tool_call.name, tool_call.arguments) for tool_call in call.response.tool_calls] == [
            ("bash", {"command": "ls"})
        ]
        assert call.raw_request == server.bodies()[0]
        assert b"".join(map(encode_line, lines_on_file(path).splitlines())) == b"".join(CONVERSE)


def test_a_stream_of_invoke_model_is_recorded(tmp_path: Path) -> None:
    """InvokeModel's stream over aiohttp is read in Anthropic's own format."""

    async def events(client: Payload) -> list[Payload]:
        answer = await client.invoke_model_with_response_stream(
            modelId="anthropic.claude-3", body=json.dumps({"messages": [{"role": "user", "content": "hi"}]})
        )
        return [json.loads(event["chunk"]["bytes"]) async for event in answer["body"]]

    with serving(cut(CLAUDE, 3)) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True) as recorder:
        got = called(server.url, events, recorder.wrap, "aiohttp")
    call = only_call(tmp_path / "a.json")

    said = [event["delta"].get("text", "") for event in got if event["type"] == "content_block_delta"]
    assert (call.api, call.response.content, call.complete) == ("anthropic-messages", "".join(said), True)


@each_transport
def test_a_whole_answer_is_recorded_once(tmp_path: Path, transport: str) -> None:
    """With either library, an answer is recorded once, with the request that the server got."""
    with serving(plain(WHOLE)) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True) as recorder:
        message = called(server.url, asked, recorder.wrap, transport)
    call = only_call(tmp_path / "a.json")

    assert message == WHOLE["output"]["message"]
    assert (call.raw_request, call.raw_response) == (server.bodies()[0], WHOLE)


@each_transport
def test_an_instrumented_process_records_any_client(tmp_path: Path, transport: str) -> None:
    """In an instrumented process, the calls of unwrapped and of wrapped clients are recorded once."""
    with serving(plain(WHOLE)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        instrument()
        try:
            called(server.url, asked, lambda _: None, transport)
            called(server.url, asked, recorder.wrap, transport)
        finally:
            uninstrument()

    assert [call.response.content for call in load(tmp_path / "a.json").llm_interactions] == ["hi", "hi"]


@each_transport
def test_unwrap_restores_a_client(tmp_path: Path, transport: str) -> None:
    """An unwrapped client has its earlier state, and is not recorded, whether or not it has sent a request."""

    async def work(url: str) -> None:
        async with bedrock(url, transport) as client:
            before = dict(vars(client._endpoint.http_session))
            unwrap(recorder.wrap(client))
            assert vars(client._endpoint.http_session) == before
            recorder.wrap(client)
            await asked(client)
            await asked(unwrap(client))

    with serving(plain(WHOLE)) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True) as recorder:
        asyncio.run(work(server.url))

    assert (len(server.requests), len(load(tmp_path / "a.json").llm_interactions)) == (2, 1)


def test_an_early_end_of_a_stream_is_recorded(tmp_path: Path) -> None:
    """A stream that ends by an exception in a frame, or by a cancelled read, raises the same for the caller and is
    recorded with this error.
    """

    async def cancelled(client: Payload) -> None:
        async def read() -> None:
            answer = await client.converse_stream(modelId=MODEL, messages=ASK)
            async with asyncio.timeout(None) as limit:
                async for event in answer["stream"]:
                    if event.get("contentBlockDelta", {}).get("delta", {}).get("text") == "ße":
                        limit.reschedule(0.0)

        with pytest.raises(TimeoutError):
            await read()

    async def refused(client: Payload) -> None:
        with pytest.raises(import_module("botocore.exceptions").EventStreamError, match="Too many requests"):
            await streamed(client)

    failed = frame("throttlingException", {"message": "Too many requests."}, "exception")
    slow = Answer([b"".join(CONVERSE[:7]), SILENCE], 200, cut([], 1).headers)
    for answer, call, expected in (
        (cut([*CONVERSE[:7], failed], 9), refused, "throttlingException"),
        (slow, cancelled, "CancelledError"),
    ):
        with serving(answer) as server, TrajectoryRecorder(tmp_path / f"{expected}.json") as recorder:
            called(server.url, call, recorder.wrap, "aiohttp")
            gc.collect()
        recorded = only_call(tmp_path / f"{expected}.json")

        assert (recorded.response.content, recorded.complete) == ("Grüße", False)
        assert recorded.error is not None
        assert recorded.error.type.endswith(expected)


@each_transport
def test_a_replay_answers_a_call(tmp_path: Path, transport: str) -> None:
    """A replay answers calls over both libraries, of wrapped clients and of a whole process."""
    path = tmp_path / "run.json"
    with serving(plain(WHOLE)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        came = called(server.url, asked, recorder.wrap, transport)
    with replay(path) as run:
        again = called("http://127.0.0.1:9", asked, run.wrap, transport)
    with replay(path, instrument=True):
        anywhere = called("http://127.0.0.1:9", asked, lambda _: None, transport)

    assert (again, anywhere) == (came, came)


def test_a_replay_answers_a_stream(tmp_path: Path) -> None:
    """A replay gives the recorded events to the caller."""
    path = tmp_path / "run.json"
    with serving(cut(CONVERSE, 7)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        came = called(server.url, streamed, recorder.wrap, "aiohttp")
    with replay(path) as run:
        again = called("http://127.0.0.1:9", streamed, run.wrap, "aiohttp")

    assert again == came
