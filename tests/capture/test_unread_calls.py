"""A request to a model's host at a URL that the recorder cannot read is a gap, once for each host."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
import urllib3

from tests.provider import CHAT, plain, serving
from trace_recorder import TrajectoryRecorder, instrument, load, uninstrument

Payload = Any
GAP = ("record a request to localhost", "no dialect has this address")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Payload:
    """Yield a URL of a model's server, whose host is set in an environment variable."""
    with serving(plain(CHAT)) as server:
        address = f"{server.url.replace('127.0.0.1', 'localhost')}/v1"
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        yield address


def gaps(path: Path) -> list[tuple[str, str]]:
    """Return the gaps of a run, with their reasons."""
    return [(gap.what, gap.why) for gap in load(path).gaps]


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests"])
def test_an_unread_host_is_a_gap_once(tmp_path: Path, url: str, library: str) -> None:
    """With each way of capture, a host whose requests cannot be read is one gap, and LLM calls are recorded."""
    http = import_module(library)
    with TrajectoryRecorder(tmp_path / "a.json", strict=True):
        instrument()
        try:
            for path in ("videos", "audio/voices", "chat/completions", "videos"):
                http.post(f"{url}/{path}", json={"prompt": "a house"})
        finally:
            uninstrument()

    assert gaps(tmp_path / "a.json") == [GAP]
    assert len(load(tmp_path / "a.json").llm_interactions) == 1


class ByUrllib3(httpx.BaseTransport):
    """A transport of httpx that sends by urllib3, as other libraries send by aiohttp."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        sent = urllib3.request(request.method, str(request.url), body=request.read(), headers=dict(request.headers))
        return httpx.Response(sent.status, content=sent.data)


def test_a_call_that_one_library_sends_by_another_is_no_gap(tmp_path: Path, url: str) -> None:
    """The outer seam records the call. The inner seam neither records it, nor takes it for a call that is not read."""
    with TrajectoryRecorder(tmp_path / "a.json"), httpx.Client(transport=ByUrllib3()) as client:
        instrument()
        try:
            client.post(f"{url}/chat/completions", json={"model": "m"})
        finally:
            uninstrument()

    assert gaps(tmp_path / "a.json") == []
    assert len(load(tmp_path / "a.json").llm_interactions) == 1


@pytest.mark.parametrize("path", ["files", "responses/input_tokens", "traces/ingest"])
def test_requests_that_are_no_calls_are_no_gaps(tmp_path: Path, url: str, path: str) -> None:
    """Uploads, token counts, traces, and requests that only read cause no gap."""
    with TrajectoryRecorder(tmp_path / "a.json") as recorder, recorder.wrap(import_module("httpx").Client()) as client:
        client.post(f"{url}/{path}", json={})
        client.get(f"{url}/models")

    assert gaps(tmp_path / "a.json") == []


def test_an_unread_host_begins_no_run(tmp_path: Path, url: str) -> None:
    """A request that cannot be read does not start a recorder that waits for its first call."""
    recorder = TrajectoryRecorder(tmp_path / "a.json")
    instrument(recorder=recorder)
    try:
        import_module("httpx").post(f"{url}/videos", json={})
    finally:
        uninstrument()

    assert [*tmp_path.iterdir()] == []


def test_a_host_without_a_known_model_is_no_gap(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to a host without a known model cause no gap."""
    monkeypatch.delenv("OPENAI_BASE_URL")
    with TrajectoryRecorder(tmp_path / "a.json") as recorder, recorder.wrap(import_module("httpx").Client()) as client:
        client.post(f"{url}/videos", json={})

    assert gaps(tmp_path / "a.json") == []
