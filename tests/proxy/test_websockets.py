"""Websockets that programs open through the proxy are recorded: their calls, their sessions, and all their messages."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import ResponsesServerEvent
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection

from tests.proxy.running import RunningProxy, proxying
from tests.scripted_model import SCRIPT, Model, script_of
from tests.websocket_model import WebsocketModel
from tests.websocket_provider import serving_websockets
from trace_recorder import load
from trace_recorder.capture.proxy_header import RECORDED_HEADER
from trace_recorder.facts import (
    Fact,
    LLMStreamFact,
    WebsocketEndFact,
    WebsocketFramesFact,
    WebsocketStartFact,
)
from trace_recorder.reading.exchange_facts import ExchangeFacts
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.websocket_frames import from_event, read_marked

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")  # openai 3.57 does not
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


@pytest.fixture
def model() -> WebsocketModel:
    return WebsocketModel(Model(script_of(SCRIPT)))


@pytest.fixture
def proxy(model: WebsocketModel, tmp_path: Path) -> Iterator[RunningProxy]:
    with serving_websockets(model) as url, proxying(tmp_path, {"openai": url}) as proxy:
        yield proxy


@contextmanager
def client_of(url: str, **headers: str) -> Iterator[openai.OpenAI]:
    """Make a client of the SDK whose provider is at `url`."""
    with openai.OpenAI(api_key="sk-of-the-program", base_url=url, default_headers=headers) as client:
        yield client


def agent(url: str, **headers: str) -> list[list[ResponsesServerEvent]]:
    """Run an agent of two turns: a call of a tool, and the answer."""
    with client_of(url, **headers) as client:
        with client.responses.connect() as connection:
            first = _turn(connection, [{"role": "user", "content": "Weather in Tokyo?"}], {})
            call = first[-1].response.output[-1]
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
            second = _turn(connection, [output], {"previous_response_id": first[-1].response.id})
    return [first, second]


def _turn(connection: Any, new: list[Any], previous: dict[str, Any]) -> list[Any]:
    connection.response.create(model="m", input=new, tools=[TOOL], **previous)
    events = []
    for event in connection:
        events.append(event)
        if event.type in {"response.completed", "error"}:
            return events
    raise AssertionError("the websocket ended")


def facts_in(journal: Path) -> list[Fact]:
    """Return the facts of a journal."""
    return [record.fact for record in read_records(journal.read_bytes()) if isinstance(record, Record)]


def messages_on_file(facts: Sequence[Fact]) -> tuple[list[str], list[str]]:
    """Return the messages that the client sent and received, by the records of a run. A request is its JSON."""
    sent, received = [], []
    for fact in facts:
        if isinstance(fact, LLMStreamFact):
            part = ExchangeFacts(0, parts=[fact]).stream_bytes()
            assert part is not None
            received += [from_event(event + b"\n\n").decode() for event in part.split(b"\n\n")[:-1]]
        elif isinstance(fact, WebsocketFramesFact):
            part = ExchangeFacts(0, parts=[fact]).stream_bytes()  # type: ignore[list-item]
            assert part is not None
            for direction, message in read_marked(part):
                (sent if direction == "sent" else received).append(message.decode())
    return sent, received


def test_a_call_over_a_websocket_is_a_call(proxy: RunningProxy, model: WebsocketModel, tmp_path: Path) -> None:
    """The SDK gets what it gets without the proxy. The run has both calls, the tool, and each message."""
    answers = agent(f"{proxy.url}/openai/v1")
    with serving_websockets(WebsocketModel(Model(script_of(SCRIPT)))) as url:
        plain = agent(f"{url}/v1")
    assert [[event.type for event in events] for events in answers] == [
        [event.type for event in events] for events in plain
    ]

    [run] = proxy.runs()
    assert [(call.api, call.provider, call.model, call.complete) for call in run.llm_interactions] == [
        ("openai-responses", "openai", "m", True)
    ] * 2
    assert [call.raw_request for call in run.llm_interactions] == [json.loads(message) for message in model.sent]
    assert [call.raw_response for call in run.llm_interactions] == [
        events[-1].response.to_dict(mode="json") for events in answers
    ]
    [result] = [result for step in run.agent_steps for result in step.tool_results]
    assert (result.name, result.result) == ("get_weather", "sunny")

    facts = facts_in(proxy.sessions.documents[0].with_suffix(".jsonl"))
    assert messages_on_file(facts) == ([], model.received)
    [start], [end] = [
        [fact for fact in facts if isinstance(fact, kind)] for kind in (WebsocketStartFact, WebsocketEndFact)
    ]
    assert (start.status, start.api) == (101, "openai-responses")
    assert (end.sent, end.received, end.code, end.ended_by) == (2, len(model.received), 1000, "the client closed it")
    assert "sk-of-the-program" not in proxy.sessions.documents[0].with_suffix(".jsonl").read_text()


def test_what_names_a_session_names_that_of_a_websocket(tmp_path: Path) -> None:
    """Two websockets with one id in a header are one session, and so are two under one path, or of one program."""
    models = [WebsocketModel(Model(script_of(SCRIPT))) for _ in range(4)]
    waiting = iter(models)

    def answer(websocket: ServerConnection) -> None:
        next(waiting)(websocket)

    with serving_websockets(answer) as url:
        with proxying(tmp_path / "a", {"openai": url}) as proxy:
            agent(f"{proxy.url}/openai/v1", **{"session-id": "s 1"})
            agent(f"{proxy.url}/openai/v1", **{"session-id": "s 1"})
            agent(f"{proxy.url}/run/task/group/1/openai/v1")
        with proxying(tmp_path / "b", {"openai": url}, command=["program"]) as other:
            agent(f"{other.url}/openai/v1")
    first, second = proxy.runs()
    assert (len(first.llm_interactions), first.metadata["session_id"]) == (4, "s 1")
    assert (len(second.llm_interactions), second.task) == (2, "task")
    assert [run.metadata["session_from"] for run in other.runs()] == ["program"]


def test_a_websocket_continues_its_conversation(proxy: RunningProxy, model: WebsocketModel) -> None:
    """Without a name, a websocket is one session, although its later requests have only what is new."""
    agent(f"{proxy.url}/openai/v1")
    [run] = proxy.runs()
    assert run.metadata["session_from"] == "conversation (inferred)"
    assert len(run.llm_interactions) == len(model.sent) == 2


def test_each_request_over_a_websocket_uses_its_session(proxy: RunningProxy) -> None:
    """A session is not idle while it asks, and messages of MCP servers belong to the run that asked last."""
    newest = []
    with client_of(f"{proxy.url}/openai/v1") as client:
        with (
            client.responses.connect(extra_headers={"session-id": "a"}) as one,
            client.responses.connect(extra_headers={"session-id": "b"}) as other,
        ):
            for connection in (one, other, one):
                _turn(connection, [{"role": "user", "content": "Weather in Tokyo?"}], {})
                run = proxy.sessions.newest_run()
                assert run is not None
                newest.append(run.document)

    assert [*map(newest.index, newest)] == [0, 1, 0]


def test_many_websockets_at_once(tmp_path: Path) -> None:
    """Each message of twenty programs that run at once is in the run of its program, and nowhere else."""
    models: dict[str, WebsocketModel] = {f"s{number}": WebsocketModel(Model(script_of(SCRIPT))) for number in range(20)}

    def answer(websocket: ServerConnection) -> None:
        assert websocket.request is not None
        models[websocket.request.headers["session-id"]](websocket)

    with serving_websockets(answer) as url, proxying(tmp_path, {"openai": url}) as proxy:
        address = f"{proxy.url}/openai/v1"
        threads = [threading.Thread(target=agent, args=(address,), kwargs={"session-id": name}) for name in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {run.metadata["session_id"] for run in proxy.runs()} == models.keys()
    for path, run in zip(proxy.sessions.documents, proxy.runs(), strict=True):
        model = models[run.metadata["session_id"]]
        assert [call.raw_request for call in run.llm_interactions] == [json.loads(message) for message in model.sent]
        assert messages_on_file(facts_in(path.with_suffix(".jsonl"))) == ([], model.received)


def test_realtime_is_recorded_from_its_first_message(tmp_path: Path) -> None:
    """A websocket of Realtime is a session of its own. Its messages are on file, but for media."""
    audio = "UklGRg" * 200
    received = [
        '{"type":"session.created","session":{"id":"sess_1"}}',
        '{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}',
        json.dumps({"type": "response.output_audio.delta", "response_id": "resp_1", "delta": audio}),
        '{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[]}}',
        '{"type":"rate_limits.updated"}',
    ]
    sent = ['{"type":"session.update"}', json.dumps({"type": "input_audio_buffer.append", "audio": audio})]

    def answer(websocket: ServerConnection) -> None:
        websocket.send(received[0])
        assert [websocket.recv(), websocket.recv()] == sent
        for message in received[1:]:
            websocket.send(message)

    with serving_websockets(answer) as url, proxying(tmp_path, {"openai": url}) as proxy:
        address = proxy.url.replace("http:", "ws:") + "/openai/v1/realtime?model=gpt-realtime"
        with connect(address) as client:
            assert client.recv() == received[0]
            for message in sent:
                client.send(message)
            assert [client.recv() for _ in received[1:]] == received[1:]
    [path] = proxy.sessions.documents
    facts = facts_in(path.with_suffix(".jsonl"))
    on_file = messages_on_file(facts)
    assert [json.loads(message)["type"] for message in on_file[0]] == ["session.update", "input_audio_buffer.append"]
    assert sorted(json.loads(message)["type"] for message in on_file[1]) == sorted(
        json.loads(message)["type"] for message in received
    )
    assert audio not in "".join((*on_file[0], *on_file[1]))
    assert "media: 900 bytes" in "".join(on_file[0])
    [start] = [fact for fact in facts if isinstance(fact, WebsocketStartFact)]
    assert (start.api, start.model) == ("openai-realtime", "gpt-realtime")


def test_a_refused_websocket_is_on_file(tmp_path: Path) -> None:
    """A program with a session gets the refusal, which is on file, and goes on over HTTP in the same run."""

    def refuse(connection: ServerConnection, _: object) -> object:
        return connection.respond(426, "not here")

    with serving_websockets(lambda _: None, process_request=refuse) as url:
        with proxying(tmp_path, {"openai": url}) as proxy:
            address = proxy.url.replace("http:", "ws:") + "/openai/v1/responses"
            with pytest.raises(InvalidStatus), connect(address, additional_headers={"session-id": "s"}):
                pass
            with pytest.raises(InvalidStatus), connect(address):
                pass
    [path] = proxy.sessions.documents
    [start] = [fact for fact in facts_in(path.with_suffix(".jsonl")) if isinstance(fact, WebsocketStartFact)]
    assert (start.status, start.error and start.error["message"]) == (426, "the server answered with status 426")


def test_what_is_not_recorded(tmp_path: Path) -> None:
    """A websocket that leads to no model, or that the program records itself, passes unrecorded."""

    def echo(websocket: ServerConnection) -> None:
        websocket.send(websocket.recv())

    def said(client: ClientConnection) -> object:
        client.send('{"type":"response.create"}')
        return client.recv()

    with serving_websockets(echo) as url, proxying(tmp_path, {"openai": url}) as proxy:
        address = proxy.url.replace("http:", "ws:") + "/openai/v1"
        with connect(f"{address}/other") as client:
            assert said(client) == '{"type":"response.create"}'
        with connect(f"{address}/responses", additional_headers={RECORDED_HEADER: "%2Fown.json"}) as client:
            assert said(client) == '{"type":"response.create"}'
    assert proxy.sessions.documents == []
    assert [*proxy.sessions.own_runs] == [Path("/own.json")]


def test_messages_that_cannot_be_read_leave_a_gap(tmp_path: Path) -> None:
    """A server that breaks the protocol has its bytes passed. The run says why no more messages are on file."""

    def answer(websocket: ServerConnection) -> None:
        websocket.recv()
        websocket.socket.sendall(b"\x8f\x00" + b"\xff" * 100)  # a frame of no known kind
        websocket.recv()

    with serving_websockets(answer) as url, proxying(tmp_path, {"openai": url}, command=["program"]) as proxy:
        address = proxy.url.replace("http:", "ws:") + "/openai/v1/responses"
        with connect(address) as client:
            client.send('{"type":"response.create","model":"m","input":"hi"}')
            with pytest.raises(Exception, match="invalid opcode"):
                client.recv()
    [run] = proxy.runs()
    assert any(gap.what == "record the messages of a websocket" and "opcode" in gap.why for gap in run.gaps), run.gaps
    assert [call.complete for call in run.llm_interactions] == [False]


def test_a_program_that_records_itself_is_recorded_once(tmp_path: Path, model: WebsocketModel) -> None:
    """A program with a recorder of its own tells the proxy so in the handshake. The server does not see that."""
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import openai
import trace_recorder
with trace_recorder.TrajectoryRecorder({str(tmp_path / "own.json")!r}) as recorder:
    with recorder.wrap(openai.OpenAI(api_key="k")).responses.connect() as connection:
        connection.response.create(model="m", input="hi", tools=[{TOOL}])
        while connection.recv().type != "response.completed":
            pass
"""
    )
    with serving_websockets(model) as url:
        options = ["--quiet", "--directory", str(tmp_path / "runs"), "--upstream", f"openai={url}/v1"]
        command = [sys.executable, "-m", "trace_recorder", "proxy", *options, "--", sys.executable, str(program)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert len(load(tmp_path / "own.json").llm_interactions) == len(model.sent) == 1
    assert not [*(tmp_path / "runs").glob("*.jsonl")]
