"""The lives of websockets: refusals, reconnections, cancellations, threads, loops, runs that end, and kills."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import openai
import pytest
import websockets.asyncio.client
import websockets.exceptions
import websockets.sync.client

from tests.capture.websocket_programs import (
    KEY,
    WAYS,
    events_on_file,
    facts,
    frames_on_file,
    kinds,
    received_on_file,
    run_in_loop,
    run_sync,
)
from tests.processes import ROOT, python
from tests.websocket_provider import Session, serving_scripts
from tests.websocket_scenarios import ITEM, SCENARIOS, Scenario, answer, create, until_last
from trace_recorder import TrajectoryRecorder, http_client, instrument, load, uninstrument, validate, wrap

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
TEXT = SCENARIOS["text"]


def client_of(url: str, **options: Any) -> openai.OpenAI:
    """Return a client of a server."""
    return openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", **options)


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_handshake_is_on_file(way: str, tmp_path: Path) -> None:
    """The program gets the library's exception, and the refusal has the status and the exception."""
    errors = []
    with serving_scripts(TEXT.script, refusals=[401, 401]) as server:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            for change in (lambda client: client, recorder.wrap):
                with pytest.raises(websockets.exceptions.InvalidStatus) as caught:
                    WAYS[way](TEXT, server.url, change)
                errors.append(str(caught.value))

    [start] = facts(tmp_path / "run.json", "websocket_start")
    assert errors[0] == errors[1]
    assert (start["status"], start["error"]) == (401, {"type": "InvalidStatus", "message": errors[1]})
    assert kinds(tmp_path / "run.json") == ["websocket_start"]


@pytest.mark.parametrize("way", WAYS)
def test_the_sdk_reconnects(way: str, tmp_path: Path) -> None:
    """After a cut connection the SDK opens another one. Each has its own beginning and end."""

    def cut(session: Session) -> None:
        session.receive()
        session.reset()

    codes = []
    options = {"on_reconnecting": lambda event: codes.append(event.close_code), "initial_delay": 0.001}

    async def talk(client: Any) -> list[str]:
        async with client.responses.connect(**options) as connection:
            await connection.send(create("hello"))
            return [event.type async for event in connection]

    path = tmp_path / "run.json"
    with (
        serving_scripts(cut, lambda session: session.send(*answer("hello"))) as server,
        TrajectoryRecorder(path, strict=True) as recorder,
    ):
        if way == "async":
            client = recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1"))
            types = asyncio.run(talk(client))
        else:
            with recorder.wrap(client_of(server.url)).responses.connect(**options) as connection:
                connection.send(create("hello"))
                types = [event.type for event in connection]

    starts, ends = facts(path, "websocket_start"), facts(path, "websocket_end")
    assert (codes, types[-1], len(starts)) == ([1006], "response.completed", 2)
    assert [end["ended_by"].split(":")[0] for end in ends] == ["the connection broke", "the server closed it"]
    assert [call.complete for call in load(path).llm_interactions] == [False, True]


def test_ten_thousand_deltas_are_few_records(tmp_path: Path) -> None:
    """Deltas are joined into parts, each is there once and in order, and the answer is whole."""
    text = "".join(chr(97 + number % 26) for number in range(10_000))

    def script(session: Session) -> None:
        session.receive()
        session.send(*answer(text))

    scenario, path = Scenario("responses", script, until_last(create("hello"))), tmp_path / "run.json"
    with serving_scripts(script) as server:
        with TrajectoryRecorder(path, strict=True) as recorder:
            outcome = run_sync(scenario, server.url, recorder.wrap)
        [session] = server.sessions

    [events] = events_on_file(path).values()
    [call] = load(path).llm_interactions
    assert (len(outcome.events), events, call.response.content) == (10_002, session.sent, text)
    assert len(facts(path, "llm_stream")) < 1_000


def test_a_cancelled_recv_loses_nothing(tmp_path: Path) -> None:
    """A program that cancels its waiting gets every event, and every event is on file once."""
    path = tmp_path / "run.json"

    async def run(url: str, recorder: TrajectoryRecorder) -> int:
        cancelled = 0
        client = recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1"))
        async with client.responses.connect() as connection:
            await connection.send(create("hello"))
            types: list[str] = []
            while types[-1:] != ["response.completed"]:
                receiving = asyncio.ensure_future(connection.recv())
                await asyncio.sleep(0)
                receiving.cancel()
                try:
                    types.append((await receiving).type)
                except asyncio.CancelledError:
                    cancelled += 1
                    await asyncio.sleep(0)
            assert len(types) == 202
        return cancelled

    def script(session: Session) -> None:
        session.receive()
        session.send(*answer("a" * 200))
        session.wait_until_left()

    with serving_scripts(script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        cancelled = asyncio.run(run(server.url, recorder))

    assert cancelled > 0
    assert received_on_file(path) == sorted(server.sessions[0].sent)


def test_a_cancelled_send_is_on_file_as_cancelled(tmp_path: Path) -> None:
    """A request whose thread is interrupted is not sent, and the connection can be used further."""
    path = tmp_path / "run.json"

    async def run(url: str, recorder: TrajectoryRecorder) -> None:
        client = recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1"))
        async with client.responses.connect() as connection:
            sending = asyncio.ensure_future(connection.send(create("a word " * 100_000)))
            await asyncio.sleep(0)  # now a thread writes the request
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await connection.send(create("hello"))
            async for event in connection:
                if event.type == "response.completed":
                    break

    with serving_scripts(TEXT.script) as server, TrajectoryRecorder(path, strict=False) as recorder:
        asyncio.run(run(server.url, recorder))

    assert [json.loads(message)["input"] for message in server.sessions[0].got] == ["hello"]
    assert [fact["type"] for fact in facts(path, "llm_error")] == ["CancelledError"]
    assert sorted(call.complete for call in load(path).llm_interactions) == [False, True]


def test_a_request_that_is_on_file_and_not_sent_gets_no_answer(tmp_path: Path) -> None:
    """A large request waits for the end of a message in fragments, and is cancelled. The next gets its own answer."""
    path, journal = tmp_path / "run.json", tmp_path / "run.jsonl"

    def script(session: Session) -> None:
        session.receive()
        session.send(*answer(session.receive()["input"]))
        session.wait_until_left()

    async def run(url: str, recorder: TrajectoryRecorder) -> None:
        go_on = asyncio.Event()

        async def fragments() -> AsyncIterator[str]:
            yield '{"type": '
            await go_on.wait()
            yield '"other"}'

        client = recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1"))
        async with client.responses.connect() as connection:
            in_fragments = asyncio.ensure_future(connection._connection.send(fragments()))
            await asyncio.sleep(0)
            sending = asyncio.ensure_future(connection.send(create("a word " * 100_000)))
            while b'"llm_request"' not in journal.read_bytes() or not journal.read_bytes().endswith(b"\n"):
                await asyncio.sleep(0.001)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            go_on.set()
            await in_fragments
            await connection.send(create("hello"))
            while (await connection.recv()).type != "response.completed":
                pass

    with serving_scripts(script) as server, TrajectoryRecorder(path, strict=False) as recorder:
        asyncio.run(run(server.url, recorder))

    first, second = load(path).llm_interactions
    assert (first.complete, second.response.content) == (False, "hello")
    assert [fact["type"] for fact in facts(path, "llm_error")] == ["CancelledError"]


def test_threads_and_loops_record_side_by_side(tmp_path: Path) -> None:
    """Each of four threads and two loops has a connection of its own, and each answer is in its own response."""
    path, results = tmp_path / "run.json", []

    def script(session: Session) -> None:
        asked = session.receive()
        session.send(*answer(asked["input"] * 20))

    def in_loop(url: str, name: str) -> None:
        scenario = Scenario("responses", script, until_last(create(name)))
        results.append(asyncio.run(run_in_loop(scenario, url, recorder.wrap)))

    def in_thread(url: str, name: str) -> None:
        results.append(run_sync(Scenario("responses", script, until_last(create(name))), url, recorder.wrap))

    with serving_scripts(script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        work = [*((in_thread, name) for name in "abcd"), *((in_loop, name) for name in "xy")]
        threads = [threading.Thread(target=function, args=(server.url, name)) for function, name in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    calls = load(path).llm_interactions
    answers = {call.raw_request["input"]: call.response.content for call in calls}
    assert answers == {name: name * 20 for name in "abcdxy"}
    assert (len(results), validate(path).ok) == (6, True)


def test_a_run_ends_while_a_websocket_is_open(tmp_path: Path) -> None:
    """What was received until then is on file. The connection works on, and a later run records it from then on."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    go_on = threading.Event()

    def script(session: Session) -> None:
        events = answer("hello")
        session.receive()
        session.send(*events[:3])
        go_on.wait()
        session.send(*events[3:])
        session.receive()
        session.send(*answer("again", "resp_2"))

    with serving_scripts(script) as server:
        client = wrap(client_of(server.url))
        with TrajectoryRecorder(first, strict=True):
            connection = client.responses.connect().enter()
            connection.send(create("hello"))
            types = [connection.recv().type for _ in range(3)]
        go_on.set()
        with TrajectoryRecorder(second, strict=True):
            types += [connection.recv().type for _ in range(4)]
            connection.send(create("again"))
            types += [connection.recv().type for _ in range(7)]
            connection.close()

    [before], [after] = load(first).llm_interactions, load(second).llm_interactions
    assert (before.complete, after.complete, after.response.content) == (False, True, "again")
    assert [fact["ended_by"] for fact in facts(first, "websocket_end")] == ["the run ended"]
    assert kinds(second) == ["websocket_start", "llm_request", "llm_stream", "llm_response", "websocket_end"]
    assert len(types) == 14


def test_a_websocket_that_nobody_reads_is_recorded(tmp_path: Path) -> None:
    """Events are on file although the program never receives them, and drops the connection."""
    path = tmp_path / "run.json"

    async def leave_open(url: str, recorder: TrajectoryRecorder) -> None:
        client = recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1"))
        connection = await client.responses.connect().enter()
        await connection.send(create("hello"))
        while "llm_response" not in kinds(path):
            await asyncio.sleep(0.001)

    def run(url: str, recorder: TrajectoryRecorder) -> None:
        asyncio.run(leave_open(url, recorder))
        gc.collect()  # Python warns of the open socket here, not in a later test

    def script(session: Session) -> None:
        TEXT.script(session)
        session.wait_until_left()

    with serving_scripts(script) as server:
        with TrajectoryRecorder(path, strict=True) as recorder, pytest.warns(ResourceWarning, match="unclosed"):
            run(server.url, recorder)
        sent = server.sessions[0].sent

    assert received_on_file(path) == sorted(sent)
    assert kinds(path)[-1] == "websocket_end"


def test_each_response_is_in_its_step_and_agent(tmp_path: Path) -> None:
    """The context in which a response is asked for counts. What the server begins belongs to that of the handshake."""

    def script(session: Session) -> None:
        session.receive()
        session.send(*answer("one"), *answer("two", "resp_2"))

    path = tmp_path / "run.json"
    with serving_scripts(script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        client = recorder.wrap(client_of(server.url))
        with recorder.agent("opener"), client.responses.connect() as connection:
            with recorder.agent("asker"), recorder.step(7):
                connection.send(create("hello"))
            while connection.recv().type != "response.completed" or connection.recv().type != "response.created":
                pass
            while connection.recv().type != "response.completed":
                pass

    requests = facts(path, "llm_request")
    assert [(fact.get("agent"), fact.get("step_number"), fact["body"]) for fact in requests] == [
        ("asker", 7, create("hello")),
        ("opener", None, {}),
    ]


# ── which connections are recorded ───────────────────────────────────────────────────────────────────────────────────


def _beta(client: openai.OpenAI) -> Any:
    return client.beta.responses.connect()


def _responses(client: openai.OpenAI) -> Any:
    return client.responses.connect()


@pytest.mark.parametrize("opened", [_responses, _beta], ids=["responses", "beta"])
@pytest.mark.parametrize("made", ["wrapped", "http_client", "copied"])
def test_a_client_is_recognised_by_its_http_client(made: str, opened: Any, tmp_path: Path) -> None:
    """Whoever records the HTTP client of an SDK's client records its websockets. Other clients are not recorded."""
    path = tmp_path / "run.json"
    with serving_scripts(TEXT.script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        if made == "http_client":
            client = client_of(server.url, http_client=http_client(recorder=recorder))
        else:
            client = recorder.wrap(client_of(server.url))
        if made == "copied":
            client = client.with_options(timeout=5)
        for each in (client, client_of(server.url)):
            with opened(each) as connection:
                connection.send(create("hello"))
                while connection.recv().type != "response.completed":
                    pass

    [call] = load(path).llm_interactions
    assert (call.api, call.provider, call.response.content) == ("openai-responses", "openai", "hello")


def test_the_model_of_azure_is_its_deployment(tmp_path: Path) -> None:
    """A client of Azure opens another address, with another header for its key."""
    path = tmp_path / "run.json"
    with serving_scripts(SCENARIOS["realtime"].script) as server, TrajectoryRecorder(path, strict=True) as recorder:
        azure = openai.AzureOpenAI(
            api_key=KEY,
            api_version="2025-04-01-preview",
            azure_endpoint="https://example.openai.azure.com",
            websocket_base_url=f"{server.url.replace('http', 'ws')}/openai",
        )
        with recorder.wrap(azure).realtime.connect(model="voice") as connection:
            connection.send({"type": "conversation.item.create", "item": ITEM, "previous_item_id": KEY})
            connection.recv()

    [start] = facts(path, "websocket_start")
    [frame] = frames_on_file(path, "sent")
    assert (start["api"], start["model"], json.loads(frame)["type"]) == (
        *("openai-realtime", "voice"),
        "conversation.item.create",
    )
    assert KEY not in path.with_suffix(".jsonl").read_text("utf-8")


def test_an_instrumented_process_records_all_websockets_to_models(tmp_path: Path) -> None:
    """The library is recorded without an SDK: its own iteration, fragments and reconnects. Other addresses are not."""
    path = tmp_path / "run.json"

    def echo(session: Session) -> None:
        session.receive()

    async def run(url: str) -> list[str]:
        texts = []
        async for connection in websockets.asyncio.client.connect(f"{url}/v1/responses?model=m"):
            text = json.dumps(create("hello"))
            await connection.send([text[:5], text[5:]])
            texts += [json.loads(message)["type"] async for message in connection]
            break
        return texts

    with serving_scripts(TEXT.script, echo) as server, TrajectoryRecorder(path, strict=True) as recorder:
        url = server.url.replace("http", "ws")
        instrument(recorder=recorder)
        try:
            types = asyncio.run(run(url))
            with websockets.sync.client.connect(f"{url}/v1/other") as connection:
                connection.send("hello")
        finally:
            uninstrument()

    [call] = load(path).llm_interactions
    assert (call.raw_request, call.response.content, len(types)) == (create("hello"), "hello", 7)
    assert len(facts(path, "websocket_start")) == 1


def test_everything_is_restored(tmp_path: Path) -> None:
    """After `unwrap`, and when a connection has ended, the library is as it was."""
    code = """
    import sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    import openai
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.sync.client import ClientConnection as SyncConnection
    from trace_recorder import TrajectoryRecorder, unwrap

    def inside():
        return [vars(SyncConnection)["handshake"], vars(ClientConnection)["handshake"], vars(connect)["__init__"]]

    before, hooks = inside(), [*sys.meta_path]
    with TrajectoryRecorder(sys.argv[2]) as recorder:
        client = recorder.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[1] + "/v1"))
        wrapped = inside()
        with client.responses.connect() as connection:
            websocket = connection._connection
            replaced = [*vars(websocket.protocol), *vars(websocket.recv_messages)]
        unwrap(client)
    left = [*vars(websocket.protocol), *vars(websocket.recv_messages)]
    print([one is other for one, other in zip(before, wrapped)], inside() == before, sys.meta_path == hooks)
    print(*({*replaced} - {*left}))
    """
    with serving_scripts(TEXT.script) as server:
        ended = python(code, server.url, tmp_path / "run.json")

    first, second = ended.stdout.splitlines()
    assert first == "[False, False, False] True True"
    assert {*second.split()} == {"send_frame", "send_request", "put", "close"}


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────

AGENT = """
import sys
import openai
from tests.websocket_scenarios import create
from trace_recorder import TrajectoryRecorder

recorder = TrajectoryRecorder(sys.argv[2])
recorder.start()
client = recorder.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[1] + "/v1"))
with client.responses.connect() as connection:
    while True:
        connection.send(create("hello"))
        while True:
            message = connection.recv_bytes()
            print(len(message), flush=True)
            if b"response.completed" in message:
                break
"""


ANSWER = answer("hello, how are you?")
WHOLE = len(ANSWER)
KILLS = int(os.environ.get("TRACE_RECORDER_WEBSOCKET_KILLS", "3"))


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_agent_leaves_what_it_received(number: int, tmp_path: Path) -> None:
    """Every response whose last event the program got is on file, and every request. The files are valid.

    `nox -s kills` kills 200 agents.
    """
    path, reports = tmp_path / "run.json", Random(number).randint(1, 5 * WHOLE)

    def script(session: Session) -> None:
        while True:
            session.receive()
            session.send(*ANSWER)

    with serving_scripts(script) as server:
        agent = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", AGENT, server.url, str(path)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert agent.stdout is not None
        for _ in range(reports):
            agent.stdout.readline()
        agent.send_signal(signal.SIGKILL)
        rest = agent.stdout.read().splitlines()
        agent.stdout.close()
        agent.wait()
        sent = server.sessions[0].sent

    events = [event for stream in events_on_file(path).values() for event in stream]
    assert events == sent[: len(events)]
    assert len(events) >= (reports + len(rest)) // WHOLE * WHOLE
    assert len(facts(path, "llm_request")) > (reports + len(rest) - 1) // WHOLE
    assert (validate(path).ok, load(path).status) == (True, "interrupted")
