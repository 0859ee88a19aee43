"""The ways by which a client's calls leave it: proxies, event loops, aiohttp, and those that are refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from tests.capture.server import GENERATED, Answer, plain, serving
from tests.processes import python
from tests.versions.every_shape import SHAPES, asked, each_of, said
from tests.versions.shapes import Shape, closed, of_the_sdks
from trace_recorder import TrajectoryRecorder, UnsupportedClientError, load, unwrap, wrap
from trace_recorder.rerun.subprocess.supervisor import replay_program

pytestmark = of_the_sdks
Payload = Any

PROXIED = (
    "openai, OpenAI: create",
    "openai, AsyncOpenAI: create",
    "anthropic, Anthropic: create",
    "anthropic, AsyncAnthropic: create",
    "google-genai, Client: generate_content",
    "google-genai, Client, .aio: generate_content",
    "ollama, Client: chat",
    "ollama, AsyncClient: chat",
)


@each_of(PROXIED)
def test_a_call_through_a_proxy_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    """A client that takes a proxy from the environment goes on through it, and is recorded."""
    with serving(*shape.call.answers) as proxy, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        monkeypatch.setenv("http_proxy", proxy.url)
        shape.run(recorder.wrap(shape.client("http://provider.test")))

    [(path, _, _)] = asked(proxy)
    assert path.startswith("http://provider.test/")
    recorded = [said(one) for one in load(recorder.trajectory_path).llm_interactions]
    assert recorded == [(api, True, None, body) for api, body in zip(shape.call.apis, proxy.bodies(), strict=True)]


COMPRESSED = (*PROXIED, "openai, AsyncOpenAI on aiohttp: create", "anthropic, AsyncAnthropic on aiohttp: create")


@each_of(COMPRESSED)
def test_a_compressed_answer_is_read(tmp_path: Path, shape: Shape) -> None:
    """An answer that came compressed is on file as JSON, whoever undoes the compression for the caller."""
    [sent] = shape.call.answers
    body = b"".join(sent.chunks)
    packed = Answer([gzip.compress(body)], 200, {**sent.headers, "content-encoding": "gzip"})
    with serving(packed) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        shape.run(recorder.wrap(shape.client(server.url)))

    assert [one.raw_response for one in load(recorder.trajectory_path).llm_interactions] == [json.loads(body)]


def test_a_recording_transport_can_be_copied(tmp_path: Path) -> None:
    """A copy of the transport of a wrapped client has the same transport inside."""
    shape = SHAPES["openai, OpenAI: create"]
    with wrap(shape.client("http://127.0.0.1:9")) as client:
        transport = client._client._transport
        assert copy(transport).inner is transport.inner


def gemini(url: str, **options: Payload) -> Payload:
    """A client of the Gemini API."""
    genai = pytest.importorskip("google.genai")
    if missing := options.keys() - genai.types.HttpOptions.model_fields.keys():
        pytest.skip(f"not in this version: HttpOptions.{min(missing)}")
    return genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url, **options))


def test_the_event_loop_that_runs_already_is_followed(tmp_path: Path) -> None:
    """wrap and unwrap reach the inner client that google-genai has made for the running event loop."""

    async def calls(client: Payload, recorder: TrajectoryRecorder) -> None:
        for change in (lambda same: same, recorder.wrap, unwrap):
            await change(client).aio.models.generate_content(model="m", contents="hello")
        await closed(client, asynchronous=True)

    with serving(plain(GENERATED)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        asyncio.run(calls(gemini(server.url), recorder))

    assert (len(server.requests), len(load(recorder.trajectory_path).llm_interactions)) == (3, 1)


def test_a_session_of_aiohttp_is_refused() -> None:
    """A google-genai client that was given an aiohttp session is refused, with what to give it instead."""
    aiohttp = pytest.importorskip("aiohttp")

    async def refused() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(UnsupportedClientError, match=r"an aiohttp_client of its own.*httpx_async_client"):
                wrap(gemini("http://127.0.0.1:9", aiohttp_client=session))

    asyncio.run(refused())


def test_settings_for_aiohttp_alone_are_refused() -> None:
    """A google-genai client whose TLS settings only aiohttp would heed is refused: they would be lost."""
    pytest.importorskip("aiohttp")
    with pytest.raises(UnsupportedClientError, match=r"settings for aiohttp alone.*httpx_async_client"):
        wrap(gemini("http://127.0.0.1:9", async_client_args={"ssl": False}))


def test_a_client_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of Vertex that calls through google-auth, to show a certificate, is refused: nothing would be seen."""
    shape = SHAPES["google-genai, Client of Vertex: generate_content"]
    (tmp_path / ".secureConnect").mkdir()
    (tmp_path / ".secureConnect" / "context_aware_metadata.json").write_text("{}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GOOGLE_API_USE_CLIENT_CERTIFICATE", "true")
    client = shape.client("http://127.0.0.1:9")
    if not hasattr(client._api_client, "_use_google_auth_sync"):
        pytest.skip("not in this version: a client certificate")

    with pytest.raises(UnsupportedClientError, match=r"has a client certificate.*httpx_client"):
        wrap(client)


AGENT = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
from google import genai

async def ask():
    async with genai.Client(api_key="k").aio as client:
        await client.models.generate_content(model="m", contents="hi")
"""
RECORDED = """
from trace_recorder import TrajectoryRecorder, instrument

instrument()
with TrajectoryRecorder(sys.argv[1]):
    asyncio.run(ask())
"""
REPLAYED = """
try:
    asyncio.run(ask())
except OSError:
    raise SystemExit(7) from None
"""


def test_aiohttp_is_recorded_and_not_replayed_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """google-genai's async client uses it: an instrumented process records it, and a replay refuses it."""
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
    assert [one.response.content for one in load(tmp_path / "other.json").llm_interactions] == ["hi"]
    [mismatch] = ended.mismatches
    assert (ended.code, ended.unused) == (7, "run.jsonl has calls that nobody asked for: llm_1")
    assert mismatch.startswith("aiohttp was kept from connecting to localhost, where models are.")
