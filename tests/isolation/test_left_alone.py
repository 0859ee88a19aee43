"""Recording changes neither the user's requests and responses nor other libraries' transports."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import httpx2
import openai
import pytest
import trio

from tests.isolation.outcomes import CALLS, outcome_of, shape_of
from tests.isolation.tap import tapped
from tests.provider import CHAT, CHAT_STREAM, plain, serving, stream
from tests.versions.shapes import of_the_sdks
from trace_recorder import TrajectoryRecorder, load

pytestmark = of_the_sdks
Payload = Any
ASK: Payload = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
URL = "http://provider.test/v1/chat/completions"


@pytest.mark.parametrize("kind", ["plain", "stream", "error"])
@pytest.mark.parametrize("call", CALLS)
def test_the_sent_bytes_are_the_same(tmp_path: Path, call: str, kind: str) -> None:
    """A wrapped client opens as many connections as an unwrapped one, and sends the same bytes on each."""
    shape, answer = shape_of(call, kind)

    def sent(url: str, bind: Callable[[Payload], object]) -> list[bytes]:
        with tapped(url) as tap:
            for _ in range(2):
                outcome_of(shape, tap.url, kind, bind)
        return [bytes(line).replace(tap.url.encode().rpartition(b":")[2], b"PORT") for line in tap.sent]

    with serving(answer) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        unwrapped, wrapped = sent(server.url, lambda _: None), sent(server.url, recorder.wrap)

    assert wrapped == unwrapped
    assert sum(len(call.attempts) for call in load(recorder.trajectory_path).llm_interactions) == 2


def looks(value: object) -> Payload:
    """Return the type and the members of an object."""
    return type(value), type(value).__mro__, dir(value)


def see(client: openai.OpenAI) -> Iterator[Payload]:
    """Yield all objects that a client gives to its user."""
    chat = client.chat.completions
    yield looks(client)
    yield looks(client._client)
    yield looks(client.with_options(timeout=3))
    with client.chat.completions.create(**ASK, stream=True) as chunks:
        yield looks(chunks)
        yield looks(chunks.response)
    raw = chat.with_raw_response.create(**ASK)
    yield looks(raw), looks(raw.parse()), raw.http_response.text, raw.http_response.is_closed, raw.elapsed is not None
    with chat.with_streaming_response.create(**ASK, stream=True) as response:
        yield looks(response), response.status_code, dict(response.headers).keys()
        yield list(response.iter_lines()), response.is_closed, response.http_response.num_bytes_downloaded
    with chat.stream(**ASK) as events:
        yield looks(events), [looks(event)[0] for event in events], looks(events.get_final_completion())


def test_a_client_s_objects_are_the_same(tmp_path: Path) -> None:
    """A wrapped client, its copies, streams, raw and streaming responses and helpers have the same types and members as
    unwrapped.
    """
    answers = (stream(*CHAT_STREAM), plain(CHAT), stream(*CHAT_STREAM), stream(*CHAT_STREAM))
    seen = []
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        for bind in (lambda client: client, recorder.wrap):
            with serving(*answers) as server, openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
                seen.append(list(see(bind(client))))

    assert seen[0] == seen[1]
    assert len(load(recorder.trajectory_path).llm_interactions) == 4


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_isinstance_gives_the_same_for_a_transport(tmp_path: Path, module: ModuleType) -> None:
    """`isinstance` gives the same answer for the transport inside a wrapped client as for that of an unwrapped one."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    clients = (module.Client, module.HTTPTransport), (module.AsyncClient, module.AsyncHTTPTransport)

    assert [isinstance(recorder.wrap(client())._transport, kind) for client, kind in clients] == [True, True]


class Others(httpx2.BaseTransport):
    """A transport of another tracing library, which forwards and counts every request."""

    def __init__(self, inner: httpx2.BaseTransport) -> None:
        self.inner = inner
        self.calls = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.calls += 1
        return self.inner.handle_request(request)

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_tracer_beside_ours_changes_nothing(tmp_path: Path, first: str) -> None:
    """With another library's transport around or inside the recording one, each call is recorded once."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
            if first == "ours":
                recorder.wrap(client)
            others = client._client._transport = Others(client._client._transport)
            recorder.wrap(client)
            for _ in range(2):
                client.chat.completions.create(**ASK)

    assert (others.calls, len(server.requests)) == (2, 2)
    assert len(load(recorder.trajectory_path).llm_interactions) == 2


def test_a_tracer_s_patch_of_a_transport_stays(tmp_path: Path) -> None:
    """A tracer that patches the transport's method is called once for each call, and each call is recorded once."""
    seen: list[str] = []
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{server.url}/v1")) as client:
            transport: Payload = client._client._transport
            handle = transport.handle_request

            def traced(request: httpx2.Request) -> httpx2.Response:
                seen.append(request.url.path)
                return handle(request)  # type: ignore[no-any-return]

            transport.handle_request = traced
            client.chat.completions.create(**ASK)

    assert seen == ["/v1/chat/completions"]
    assert len(load(recorder.trajectory_path).llm_interactions) == 1


def test_two_clients_with_one_http_client_are_recorded_once(tmp_path: Path) -> None:
    """If two wrapped clients share an HTTP client, each call is one record."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with httpx2.Client() as shared:
            for _ in range(2):
                client = openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", http_client=shared)
                recorder.wrap(client).chat.completions.create(**ASK)

    assert len(load(recorder.trajectory_path).llm_interactions) == 2


def test_an_inner_transport_that_reads_is_unchanged(tmp_path: Path) -> None:
    """A response that the user's own transport has already read reaches the caller and the record whole."""

    class Reading(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            response = super().handle_request(request)
            response.read()
            return response

    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with recorder.wrap(httpx2.Client(transport=Reading())) as client:
            said = client.post(f"{server.url}/v1/chat/completions", json=ASK).json()

    assert [call.raw_response for call in load(recorder.trajectory_path).llm_interactions] == [said] == [CHAT]


def test_a_consumed_response_is_unchanged(tmp_path: Path) -> None:
    """If the user's own transport has read a response and kept nothing, the caller gets the unwrapped error."""

    class Greedy(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            response = super().handle_request(request)
            list(response.iter_raw())
            return response

    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    for bind in (lambda client: client, recorder.wrap):
        with serving(plain(CHAT)) as server, bind(httpx2.Client(transport=Greedy())) as client:
            with pytest.raises(httpx2.StreamConsumed):
                client.post(f"{server.url}/v1/chat/completions", json=ASK)
    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    assert [(call.complete, call.ended_by) for call in trajectory.llm_interactions] == [
        (False, "it could not be recorded")
    ]
    assert [gap.what for gap in trajectory.gaps] == ["wrap a response"]


def test_a_generated_request_body_is_unchanged(tmp_path: Path) -> None:
    """A request whose body is an iterator is sent unchanged, and is recorded as it passes."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    with serving(plain(CHAT)) as server, recorder.wrap(httpx2.Client()) as client:
        length = {"content-length": "2"}
        client.post(f"{server.url}/v1/chat/completions", content=iter([b"{", b"}"]), headers=length)
    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    assert [body for _, _, body in server.requests] == [b"{}"]
    assert [(call.raw_request, call.raw_response) for call in trajectory.llm_interactions] == [({}, CHAT)]
    assert [gap.what for gap in trajectory.gaps] == []


class Pieces:
    """A stream of the user's own that knows whether its iterator was closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece in CHAT_STREAM:
                yield piece
        finally:
            self.closed.append("iteration")

    async def aclose(self) -> None:
        self.closed.append("stream")


def _break_out(run: Callable[..., None], module: Payload, bind: Callable[[Payload], Payload]) -> Payload:
    """Leave a stream after its first piece, and return the closed objects in order, and the warnings about our code."""
    pieces = type("Own", (Pieces, module.AsyncByteStream), {})()
    transport = module.MockTransport(lambda _: module.Response(200, stream=pieces))

    async def work() -> None:
        async with bind(module.AsyncClient(transport=transport)) as client:
            async with client.stream("POST", URL, json=ASK) as response:
                async with aclosing(response.aiter_raw()) as chunks:
                    await anext(chunks)

    gc.collect()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run(work)
        gc.collect()
    said = [str(warning.message) for warning in warned]
    return pieces.closed, [one for one in said if "trace_recorder" in one]


@pytest.mark.parametrize("run", [lambda work: asyncio.run(work()), trio.run], ids=["asyncio", "trio"])
@pytest.mark.parametrize("module", [httpx, httpx2])
def test_an_iteration_is_closed_as_without_a_recorder(
    tmp_path: Path, module: ModuleType, run: Callable[..., None]
) -> None:
    """A recorded stream closes the same objects in the same order as unwrapped, and leaves none of ours open."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        wrapped = _break_out(run, module, recorder.wrap)

    assert wrapped == _break_out(run, module, lambda client: client)
    assert [call.complete for call in load(recorder.trajectory_path).llm_interactions] == [False]
