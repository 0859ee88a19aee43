"""A replay answers `responses.connect()` from the recording, by the SDK and the library that the program uses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import openai
import pytest
import websockets.asyncio.client
import websockets.sync.client
from openai.types.responses import ResponsesServerEvent
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from tests.scripted_model import SCRIPT, Model, script_of
from tests.websocket_model import WebsocketModel
from tests.websocket_provider import serving_websockets
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, load, replay

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")  # openai 3.57 does not
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
QUESTION = [{"role": "user", "content": "Weather?"}]
PROGRAM = f"""
import openai
events = []
with openai.OpenAI(api_key="none").responses.connect() as connection:
    connection.response.create(model="m", input={QUESTION}, tools=[{TOOL}])
    for event in connection:
        events.append(event.to_json(indent=None))
        if event.type == "response.completed":
            break
print(events)
"""
Answers = list[list[ResponsesServerEvent]]


def client(url: str = "https://api.openai.com") -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=f"{url}/v1")


def agent(made: openai.OpenAI, question: Any = QUESTION, **options: Any) -> Answers:
    """Call a tool, and give its result in a second turn over the same websocket. Return the events of both turns."""
    answers: Answers = []
    with made.responses.connect(**options) as connection:
        new, previous = question, {}
        for _ in SCRIPT:
            connection.response.create(model="m", input=new, tools=[TOOL], **previous)
            answers.append([])
            for event in connection:
                answers[-1].append(event)
                if event.type == "error":
                    return answers
                if event.type == "response.completed":
                    break
            new, previous = _next(answers[-1][-1])
    return answers


async def agent_async(made: openai.AsyncOpenAI) -> Answers:
    """Do the same as `agent` with the async client."""
    answers: Answers = []
    async with made.responses.connect() as connection:
        new, previous = QUESTION, {}
        for _ in SCRIPT:
            await connection.response.create(model="m", input=new, tools=[TOOL], **previous)  # type: ignore[arg-type]
            answers.append([])
            async for event in connection:
                answers[-1].append(event)
                if event.type == "response.completed":
                    break
            new, previous = _next(answers[-1][-1])
    return answers


def _next(completed: Any) -> tuple[list[Any], dict[str, Any]]:
    [*_, last] = completed.response.output
    output = {"type": "function_call_output", "call_id": getattr(last, "call_id", None), "output": "sunny"}
    return [output], {"previous_response_id": completed.response.id}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answers]:
    """Return a recorded run, and what its agent got."""
    path = tmp_path_factory.mktemp("recorded") / "run.json"
    with serving_websockets(WebsocketModel(Model(script_of(SCRIPT)))) as url, TrajectoryRecorder(path) as recorder:
        answers = agent(recorder.wrap(client(url)))
    return path, answers


def test_every_client_gets_the_recorded_events(recorded: tuple[Path, Answers]) -> None:
    """A wrapped client, an async one, and one that is made while the process is answered get equal events."""
    path, answers = recorded
    with replay(path) as run:
        assert agent(run.wrap(client())) == answers
    with replay(path) as run:
        made = openai.AsyncOpenAI(api_key="none")
        assert asyncio.run(agent_async(run.wrap(made))) == answers
    with replay(path, instrument=True):
        assert agent(client()) == answers
    with replay(path, speed=1000.0) as run:
        assert agent(run.wrap(client())) == answers


def test_many_replays_beside_a_recorder_leave_one_layer(recorded: tuple[Path, Answers], tmp_path: Path) -> None:
    """Replays and recorders take turns in one process, and the library's functions are replaced once."""
    path, _ = recorded
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        kept = [recorder.wrap(client())]
        replaced = websockets.sync.client.connect
        for _ in range(3):
            with replay(path, strict=False) as run:
                kept += [recorder.wrap(run.wrap(client())), run.wrap(recorder.wrap(client()))]
                assert websockets.sync.client.connect is replaced
            assert websockets.sync.client.connect is replaced


def test_a_recorded_replay_names_the_calls_that_answered(recorded: tuple[Path, Answers], tmp_path: Path) -> None:
    """A recorder of the same client records the replay, with the origin of each answer, in either order of `wrap`."""
    path, answers = recorded
    for number, replay_first in enumerate((True, False)):
        again = tmp_path / f"{number}.json"
        with replay(path) as run, TrajectoryRecorder(again) as recorder:
            made = recorder.wrap(run.wrap(client())) if replay_first else run.wrap(recorder.wrap(client()))
            assert agent(made) == answers
        assert [call.replayed_from and call.replayed_from.interaction_id for call in load(again).llm_interactions] == [
            call.interaction_id for call in load(path).llm_interactions
        ]
        assert [call.raw_response for call in load(again).llm_interactions] == [
            call.raw_response for call in load(path).llm_interactions
        ]


def test_another_request_is_refused_with_its_differences(recorded: tuple[Path, Answers]) -> None:
    """The program gets an error event with the differences, and the block raises them."""
    path, _ = recorded
    got: Answers = []

    def differ() -> None:
        with replay(path) as run:
            got.extend(agent(run.wrap(client()), [{"role": "user", "content": "Other?"}]))

    with pytest.raises(ReplayMismatchError, match=r"\[-Weather-\]\{\+Other\+\}"):
        differ()
    [[event]] = got
    assert event.type == "error"
    assert "Other" in event.error.message


def test_unused_calls_are_reported(recorded: tuple[Path, Answers]) -> None:
    """A websocket that was not opened leaves its calls unused."""
    path, _ = recorded
    with pytest.raises(ReplayMismatchError, match="nobody asked for: llm_1, llm_2"), replay(path):
        pass


def test_a_realtime_conversation_is_refused(recorded: tuple[Path, Answers]) -> None:
    """Its audio is not on file, so nothing is answered, and no provider is asked."""
    path, _ = recorded
    with pytest.raises(ReplayMismatchError, match="audio"), replay(path) as run:
        with run.wrap(client()).realtime.connect(model="m"):
            pass


def test_other_connections_are_the_library_s_own(recorded: tuple[Path, Answers]) -> None:
    """While a replay runs, a program may connect elsewhere, and may name the address by keyword."""
    path, answers = recorded

    async def talk(address: str) -> object:
        async with websockets.asyncio.client.connect(uri=address) as connection:
            await connection.send("hello")
            return await connection.recv()

    def echo(websocket: ServerConnection) -> None:
        websocket.send(websocket.recv())

    with serving_websockets(echo) as url, replay(path) as run:
        address = url.replace("http", "ws")
        with websockets.sync.client.connect(uri=address) as connection:
            connection.send("hello")
            assert [connection.recv(), asyncio.run(talk(address))] == ["hello", "hello"]
        assert agent(run.wrap(client())) == answers


def test_a_cut_connection_is_cut_again(tmp_path: Path) -> None:
    """A program gets the recorded events, and then the same exception as in the recording."""
    model = WebsocketModel(Model(script_of(SCRIPT)))

    def answer(websocket: ServerConnection) -> None:
        websocket.recv()
        websocket.send('{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}')
        websocket.socket.shutdown(2)

    def got(made: openai.OpenAI) -> tuple[list[str], type]:
        types: list[str] = []
        with made.responses.connect() as connection:
            connection.response.create(model="m", input="hi")
            with pytest.raises(ConnectionClosed) as closed:
                types.extend(connection.recv().type for _ in range(2))
        return types, type(closed.value)

    path = tmp_path / "run.json"
    with serving_websockets(answer) as url, TrajectoryRecorder(path) as recorder:
        before = got(recorder.wrap(client(url)))
    with replay(path) as run:
        assert got(run.wrap(client())) == before
    assert model.sent == []


def test_a_program_is_replayed(recorded: tuple[Path, Answers], tmp_path: Path) -> None:
    """`trace-recorder replay` answers the websockets of a program in another process."""
    path, answers = recorded
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "trace_recorder", "replay", str(path), "--", sys.executable, str(program)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert str([event.to_json(indent=None) for event in answers[0]]) in process.stdout


def test_pings_are_answered_while_an_answer_waits(tmp_path: Path) -> None:
    """A client that pings long before its answer is due gets its pongs, so it does not close the websocket."""

    def answer(websocket: ServerConnection) -> None:
        websocket.recv()
        websocket.send('{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}')
        time.sleep(0.05)  # the recorded pause
        websocket.send('{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}')

    path = tmp_path / "run.json"
    with serving_websockets(answer) as url, TrajectoryRecorder(path) as recorder:
        with recorder.wrap(client(url)).responses.connect() as connection:
            connection.response.create(model="m", input="hi")
            while connection.recv().type != "response.completed":
                pass
    with replay(path, speed=1e-7) as run, run.wrap(client()).responses.connect() as connection:
        connection.response.create(model="m", input="hi")
        for _ in range(2):  # the server may read the first ping together with the request
            assert connection._connection.ping().wait(60)
