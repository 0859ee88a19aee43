"""Each place at which recording touches a websocket fails in turn, and the program gets what it gets unrecorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from tests.capture.websocket_programs import WAYS, frames_on_file
from tests.isolation.hooks import failing
from tests.limits import limited
from tests.websocket_provider import serving_scripts
from tests.websocket_scenarios import SCENARIOS
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.capture import attempt_records, websocket_clients, websocket_connection, websocket_records
from trace_recorder.capture.received_response import ReceivedResponse
from trace_recorder.capture.seam import Binding
from trace_recorder.capture.websocket_connection import begin_websocket
from trace_recorder.recording.run import Run
from trace_recorder.storage import stream_chunks
from trace_recorder.storage.journal import Journal

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
HOOKS: list[tuple[Any, str]] = [
    *((websocket_clients, name) for name in ("_url_of", "sdk_client", "recognise_websocket", "raw_headers")),
    (websocket_clients.Fragments, "__init__"),
    (websocket_clients.RecordedWebsocket, "_ended"),
    *((websocket_connection, name) for name in ("json_value", "context_of", "without_media", "as_event")),
    *((websocket_connection, name) for name in ("begin_over_websocket", "WebsocketInRun", "SentRequest")),
    *((websocket_records, name) for name in ("marked", "clean_url", "merge_facts", "WebsocketEndFact")),
    *((websocket_records, "identify"), (attempt_records, "join_stream"), (stream_chunks, "describe_chunks")),
    *((ReceivedResponse, name) for name in ("chunk", "flush", "set_form", "finish")),
    *((Run, name) for name in ("append", "append_body", "learn", "next_id")),
    (Journal, "append_all"),
]


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Return the kind of client."""
    return str(request.param)


@pytest.fixture(scope="module")
def unrecorded(way: str) -> Any:
    """Return what the program gets without a recorder."""
    scenario = SCENARIOS["steering"]
    with serving_scripts(scenario.script) as server:
        return WAYS[way](scenario, server.url, lambda client: client)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook[1])
def test_a_failing_hook_does_not_reach_the_program(
    hook: tuple[Any, str], way: str, unrecorded: Any, tmp_path: Path
) -> None:
    """Events, exceptions and closing codes are those without a recorder."""
    scenario = SCENARIOS["steering"]
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    with serving_scripts(scenario.script) as server, pytest.MonkeyPatch.context() as patch:
        failing(*hook)(patch)
        recorded = WAYS[way](scenario, server.url, recorder.wrap)
        got = server.sessions[0].got
    recorder.finalize()

    assert recorded == unrecorded
    assert len(got) == 2


def test_a_strict_run_ends_the_connection_with_the_failure(way: str, tmp_path: Path) -> None:
    """The program gets the library's exception. Its cause is the failure of recording."""
    scenario = SCENARIOS["steering"]
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    with serving_scripts(scenario.script) as server, pytest.MonkeyPatch.context() as patch:
        failing(websocket_connection, "as_event")(patch)
        recorded = WAYS[way](scenario, server.url, recorder.wrap)
    recorder.finalize()

    assert recorded.events == []
    assert recorded.error is not None
    assert (recorded.error[0], recorded.cause) == ("ConnectionClosedError", "BrokenError")


def test_messages_that_cannot_be_written_do_not_pile_up(tmp_path: Path) -> None:
    """While nothing can be written, messages beyond the limit of a body are forgotten. The run gets a gap."""
    recorder = limited(body_bytes=10_000)(tmp_path / "run.json")
    recorder.start()
    connection = begin_websocket(Binding(RecorderTarget(recorder), None), "wss://api.openai.com/v1/realtime", [])
    assert connection is not None
    connection.opened(101)
    with pytest.MonkeyPatch.context() as patch:
        failing(Journal, "append_all")(patch)
        for number in range(1_000):
            connection.received(b'{"type":"rate_limits.updated","event_id":"event_%d"}' % number)
    connection.ended("the server closed it")
    recorder.finalize()

    gaps = {(gap.what, gap.why) for gap in load(tmp_path / "run.json").gaps}
    kept = frames_on_file(tmp_path / "run.json", "received")
    assert any("more than 10000 bytes of them" in why for _, why in gaps)
    assert kept[-1].endswith(b'"event_999"}')
    assert sum(map(len, kept)) < 10_000
