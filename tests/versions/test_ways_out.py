"""The ways on which a client sends its calls: proxies, event loops, aiohttp, client certificates."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from tests.processes import python
from tests.provider import GENERATED, Answer, plain, serving
from tests.versions.every_shape import FIRST, SHAPES, asked, each_of, said
from tests.versions.shapes import Shape, closed, of_the_sdks
from trace_recorder import TrajectoryRecorder, load, replay, unwrap, wrap
from trace_recorder.rerun.subprocess.supervisor import replay_program

pytestmark = of_the_sdks
Payload = Any


@each_of(FIRST)
def test_a_call_through_a_proxy_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    """A client that takes a proxy from the environment sends through the proxy, and each call is recorded once."""
    with serving(*shape.call.answers) as proxy, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        monkeypatch.setenv("http_proxy", proxy.url)
        shape.run(recorder.wrap(shape.client("http://provider.test")))

    [(path, _, _)] = asked(proxy)
    assert path.startswith("http://provider.test/")
    recorded = [said(call) for call in load(recorder.trajectory_path).llm_interactions]
    assert recorded == [(api, True, None, body) for api, body in zip(shape.call.apis, proxy.bodies(), strict=True)]


COMPRESSED = (*FIRST, "openai, AsyncOpenAI on aiohttp: create", "anthropic, AsyncAnthropic on aiohttp: create")


@each_of(COMPRESSED)
def test_a_compressed_answer_is_recorded_as_json(tmp_path: Path, shape: Shape) -> None:
    """A compressed answer is recorded as JSON, whichever library decompresses it for the caller."""
    [sent] = shape.call.answers
    body = b"".join(sent.chunks)
    packed = Answer([gzip.compress(body)], 200, {**sent.headers, "content-encoding": "gzip"})
    with serving(packed) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        shape.run(recorder.wrap(shape.client(server.url)))

    assert [call.raw_response for call in load(recorder.trajectory_path).llm_interactions] == [json.loads(body)]


def test_a_recording_transport_can_be_copied(tmp_path: Path) -> None:
    """The copy of a wrapped client's transport has the same inner transport."""
    shape = SHAPES["openai, OpenAI: create"]
    with wrap(shape.client("http://127.0.0.1:9")) as client:
        transport = client._client._transport
        assert copy(transport).inner is transport.inner


def gemini(url: str, **options: Payload) -> Payload:
    """Return a client of the Gemini API."""
    genai = pytest.importorskip("google.genai")
    if missing := options.keys() - genai.types.HttpOptions.model_fields.keys():
        pytest.skip(f"not in this version: HttpOptions.{min(missing)}")
    return genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url, **options))


def test_the_inner_client_of_the_running_event_loop_is_wrapped(tmp_path: Path) -> None:
    """`wrap` and `unwrap` reach the client that google-genai has created inside for the running event loop."""

    async def calls(client: Payload, recorder: TrajectoryRecorder) -> None:
        for change in (lambda same: same, recorder.wrap, unwrap):
            await change(client).aio.models.generate_content(model="m", contents="hello")
        await closed(client, asynchronous=True)

    with serving(plain(GENERATED)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        asyncio.run(calls(gemini(server.url), recorder))

    assert (len(server.requests), len(load(recorder.trajectory_path).llm_interactions)) == (3, 1)


async def generated_by(client: Payload) -> str:
    """Make a call with a client's async half, and close that half."""
    try:
        return (await client.aio.models.generate_content(model="m", contents="hello")).text
    finally:
        await closed(client, asynchronous=True)


def inside(client: Payload) -> dict[str, Payload]:
    """Return the members inside a google-genai client. Some versions keep their own session after the first call."""
    members = dict(vars(client._api_client))
    if type(members.get("_aiohttp_session")).__module__.startswith("google."):
        members["_aiohttp_session"] = None
    return members


@pytest.mark.parametrize("settings", [{}, {"async_client_args": {"ssl": False}}], ids=["its own", "with settings"])
def test_google_still_uses_aiohttp(tmp_path: Path, settings: Payload) -> None:
    """A wrapped google-genai client sends its async calls by aiohttp, as unwrapped, and is restored afterwards."""
    pytest.importorskip("aiohttp")
    with serving(plain(GENERATED)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = gemini(server.url, **settings)
        before = inside(client)
        assert asyncio.run(generated_by(recorder.wrap(client))) == "hi"
        assert inside(unwrap(client)) == before
        asyncio.run(generated_by(client))

    wrapped, unwrapped = [headers for _, headers, _ in server.requests]
    assert wrapped == unwrapped
    assert [call.response.content for call in load(recorder.trajectory_path).llm_interactions] == ["hi"]


def test_google_with_the_user_s_session_is_recorded(tmp_path: Path) -> None:
    """A google-genai client over the user's aiohttp session is recorded, and the session itself is not wrapped."""
    aiohttp = pytest.importorskip("aiohttp")

    async def call(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            client = recorder.wrap(gemini(url, aiohttp_client=session))
            await client.aio.models.generate_content(model="m", contents="hello")
            async with session.post(f"{url}/v1beta/models/m:generateContent", json={}) as response:
                await response.read()

    with serving(plain(GENERATED)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        asyncio.run(call(server.url))

    assert len(server.requests) == 2
    assert [call.response.content for call in load(recorder.trajectory_path).llm_interactions] == ["hi"]


def test_a_client_certificate_is_recorded(tmp_path: Path) -> None:
    """A call of a Vertex client with a client certificate, which google-auth sends by requests, is recorded."""
    requests = pytest.importorskip("google.auth.transport.requests")
    with serving(plain(GENERATED)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = SHAPES["google-genai, Client of Vertex: generate_content"].client(server.url)
        inside = client._api_client
        if not hasattr(inside, "_use_google_auth_sync"):
            pytest.skip("not in this version: a client certificate")
        inside._use_google_auth_sync = lambda: True  # no certificate is available, so its session is created here
        inside._authorized_session = requests.AuthorizedSession(inside._credentials)
        text = recorder.wrap(client).models.generate_content(model="m", contents="hello").text

    assert text == "hi"
    assert [call.response.content for call in load(recorder.trajectory_path).llm_interactions] == ["hi"]


@pytest.mark.parametrize("settings", [{}, {"async_client_args": {"ssl": False}}], ids=["its own", "with settings"])
def test_google_is_replayed_on_aiohttp(tmp_path: Path, settings: Payload) -> None:
    """A replay answers a google-genai client that uses aiohttp, and leaves the client unchanged."""
    pytest.importorskip("aiohttp")
    path = tmp_path / "run.json"
    with serving(plain(GENERATED)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(generated_by(recorder.wrap(gemini(server.url, **settings))))
    client = gemini("http://127.0.0.1:9", **settings)
    before = dict(vars(client._api_client))
    with replay(path) as run:
        assert asyncio.run(generated_by(run.wrap(client))) == "hi"

    assert vars(client._api_client).keys() - before.keys() <= {"_aiohttp_session"}
    assert client._api_client._async_request.__func__ is type(client._api_client)._async_request


AGENT = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
from google import genai

async def ask():
    client = genai.Client(api_key="k")  # some versions close the session of a client that is freed
    await client.aio.models.generate_content(model="m", contents="hi")
"""
RECORDED = """
from trace_recorder import TrajectoryRecorder, instrument

instrument()
with TrajectoryRecorder(sys.argv[1]):
    asyncio.run(ask())
"""
REPLAYED = """
asyncio.run(ask())
"""


def test_aiohttp_is_recorded_and_replayed_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instrumented process records google-genai's async calls over aiohttp, and a replay answers them without a
    server.
    """
    pytest.importorskip("aiohttp")
    path = tmp_path / "run.json"
    with serving(plain(GENERATED)) as server:
        with TrajectoryRecorder(path) as recorder:
            client = recorder.wrap(gemini(server.url))
            client.models.generate_content(model="m", contents="hi")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url.replace("127.0.0.1", "localhost"))
        recorded = python(AGENT + RECORDED, tmp_path / "other.json")
        ended = replay_program([sys.executable, "-c", AGENT + REPLAYED], path)

    assert (recorded.returncode, recorded.stderr, len(server.requests)) == (0, "", 2)
    assert [call.response.content for call in load(tmp_path / "other.json").llm_interactions] == ["hi"]
    assert (ended.code, ended.mismatches, ended.unused) == (0, [], None)
