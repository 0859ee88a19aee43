"""The router of a websocket: which message belongs to which response, what is kept of it, and what is masked."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.capture.websocket_programs import KEY, events_on_file, facts, frames_on_file
from tests.limits import limited
from tests.processes import python
from tests.waiting import PATIENCE
from tests.websocket_provider import serving_scripts
from tests.websocket_scenarios import SCENARIOS, answer, create
from trace_recorder import TrajectoryRecorder, load, redact, validate
from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.capture.proxy_header import PROXY_VARIABLE, RECORDED_HEADER
from trace_recorder.capture.seam import Binding
from trace_recorder.capture.websocket_connection import WebsocketConnection, begin_websocket
from trace_recorder.storage.websocket_frames import media_note, without_media
from trace_recorder.values.messages import Payload

DATA = base64.b64encode(b"sound" * 40).decode()


def event(event_type: str, **members: Payload) -> bytes:
    """Return a message."""
    return json.dumps({"type": event_type, **members}).encode()


@contextmanager
def connected(path: Path, api: str, **options: object) -> Iterator[WebsocketConnection]:
    """Yield a connection that was opened in a run."""
    with TrajectoryRecorder(path, strict=True, **options) as recorder:  # type: ignore[arg-type]
        headers = [(b"Authorization", f"Bearer {KEY}".encode())]
        connection = begin_websocket(Binding(RecorderTarget(recorder), None), f"wss://api.openai.com/v1/{api}", headers)
        assert connection is not None
        connection.opened(101)
        yield connection
        connection.ended("the server closed it", 1000)


def ends(path: Path) -> list[tuple[Payload, int, bool]]:
    """Return for each response its request's input or event id, its status, and whether it is complete."""
    requests = {fact["interaction_id"]: fact["body"] for fact in facts(path, "llm_request")}
    return [
        (
            requests[fact["interaction_id"]].get("input", requests[fact["interaction_id"]].get("event_id")),
            fact["status"],
            fact["complete"],
        )
        for fact in facts(path, "llm_response")
    ]


ERROR = event("error", status=429, error={"type": "rate_limit_error", "message": "slow down"})
STARTED = [json.dumps(one).encode() for one in answer("one")]


def test_an_error_in_a_lane_belongs_to_the_request_that_was_not_taken_up(tmp_path: Path) -> None:
    """While one response is made, the second request of its lane is refused. The first one goes on."""
    path = tmp_path / "run.json"
    with connected(path, "responses") as connection:
        connection.sent(json.dumps(create("first")).encode())
        connection.received(STARTED[0])
        connection.sent(json.dumps(create("second")).encode())
        connection.received(ERROR)
        for message in STARTED[1:]:
            connection.received(message)

    assert ends(path) == [("second", 429, True), ("first", 101, True)]


def test_an_error_without_a_lane_beside_two_lanes_belongs_to_neither(tmp_path: Path) -> None:
    """It is a message of the websocket. Both responses are open until the end."""
    path = tmp_path / "run.json"
    with connected(path, "responses") as connection:
        for lane in "ab":
            connection.sent(json.dumps(create(lane, stream_id=lane)).encode())
        connection.received(ERROR)

    assert frames_on_file(path, "received") == [ERROR]
    assert [fact["message"] for fact in facts(path, "llm_error")] == ["the server closed it"] * 2


def test_responses_of_realtime_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    """Requests are taken up in their order, an error names its request, and other events are messages."""
    path = tmp_path / "run.json"
    named = event("error", error={"message": "bad", "event_id": "b"})
    unknown = event("response.output_text.delta", delta="x", response_id="r9")
    with connected(path, "realtime?model=gpt-rt") as connection:
        for name in "abc":
            connection.sent(event("response.create", event_id=name))
        connection.received(ERROR)
        connection.received(named)
        for identity in ("r1", "r2", "r3"):
            connection.received(event("response.created", response={"id": identity}))
        connection.received(unknown)
        for identity in ("r2", "r3", "r1"):
            connection.received(event("response.output_text.delta", delta=identity, response_id=identity))
            connection.received(event("response.done", response={"id": identity, "status": "completed"}))

    assert ends(path) == [("b", 101, False), ("c", 101, True), (None, 101, True), ("a", 101, True)]
    assert frames_on_file(path, "received") == [ERROR, unknown]
    assert [len(events) for events in events_on_file(path).values()] == [1, 3, 3, 3]


MEDIA = {
    "audio in": (event("input_audio_buffer.append", audio=DATA), "input_audio_buffer.append"),
    "audio out": (event("response.output_audio.delta", delta=DATA), "response.output_audio.delta"),
    "older audio out": (event("response.audio.delta", delta=DATA), "response.audio.delta"),
    "item": (
        event(
            "conversation.item.create", item={"content": [{"type": "input_audio", "audio": DATA, "transcript": "a"}]}
        ),
        "conversation.item.create",
    ),
    "image": (
        event("conversation.item.create", item={"content": [{"image_url": f"data:image/png;base64,{DATA}"}]}),
        "conversation.item.create",
    ),
    "partial image": (
        event("response.image_generation_call.partial_image", partial_image_b64=DATA),
        "response.image_generation_call.partial_image",
    ),
    "image made": (
        event("response.output_item.done", item={"type": "image_generation_call", "result": DATA}),
        "response.output_item.done",
    ),
}
KEPT = {
    "text": event("response.output_text.delta", delta=DATA),
    "thoughts": event("response.output_item.done", item={"type": "reasoning", "encrypted_content": DATA}),
    "settings": event("session.update", session={"audio": {"output": {"voice": "a"}}, "modalities": ["audio"]}),
    "link": event("conversation.item.create", item={"content": [{"image_url": "https://a.test/b.png"}]}),
    "quoted": event("conversation.item.create", item={"content": [{"text": json.dumps({"audio": DATA})}]}),
}


@pytest.mark.parametrize("name", MEDIA)
def test_media_become_a_note(name: str) -> None:
    """Only the base64 is replaced, also if its slashes are escaped."""
    message, event_type = MEDIA[name]
    expected = message.replace(DATA.encode(), media_note(DATA).encode())

    assert without_media(message, event_type) == expected
    assert without_media(message.replace(b"/", b"\\/"), event_type) == expected.replace(b"/", b"\\/")


@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_medium_is_kept(name: str) -> None:
    """Texts, thoughts, settings and links stay as they are."""
    assert without_media(KEPT[name], json.loads(KEPT[name])["type"]) == KEPT[name]


def test_a_message_that_is_no_text_is_a_note(tmp_path: Path) -> None:
    """A binary message has its length and digest on file. Empty messages and lines are kept."""
    path = tmp_path / "run.json"
    with connected(path, "realtime") as connection:
        for message in (b"\xff\xfe", b"", b'{\n"type": "x"\n}'):
            connection.received(message)

    note, *others = frames_on_file(path, "received")
    assert (note[:16], others) == (b"[media: 2 bytes,", [b"", b'{\n"type": "x"\n}'])


def test_the_key_and_split_secrets_are_masked(tmp_path: Path) -> None:
    """The key of the handshake is masked wherever it is, also if it is spelled over several messages."""
    path = tmp_path / "run.json"
    heard = "conversation.item.input_audio_transcription.delta"
    with connected(path, "realtime") as connection:
        connection.sent(event("conversation.item.create", item={"content": [{"text": f"my key: {KEY}"}]}))
        for letter in f"it is {KEY}, yes":
            connection.received(event(heard, delta=letter, item_id="item_1", content_index=0))

    deltas = [json.loads(message)["delta"] for message in frames_on_file(path, "received")]
    assert KEY not in path.with_suffix(".jsonl").read_text("utf-8")
    assert KEY not in frames_on_file(path, "sent")[0].decode()
    assert ("".join(deltas).startswith("it is [REDACTED:"), "".join(deltas).endswith(", yes")) == (True, True)


def test_a_key_in_the_address_or_in_a_subprotocol_is_masked(tmp_path: Path) -> None:
    """Pages in browsers and some clients of Azure can set no header, and give their key in one of these."""
    path, token, in_address = tmp_path / "run.json", "own-7c41-9f03-b2e8", "0a1b2c3d" * 4
    chosen = f"openai-insecure-api-key.{token}"
    with TrajectoryRecorder(path, strict=True) as recorder:
        headers = [(b"Sec-WebSocket-Protocol", f"realtime, {chosen}, openai-beta.realtime-v1".encode())]
        url = f"wss://a.openai.azure.com/openai/realtime?deployment=d&api-key={in_address}"
        connection = begin_websocket(Binding(RecorderTarget(recorder), None), url, headers)
        assert connection is not None
        connection.opened(101, [(b"sec-websocket-protocol", chosen.encode())], chosen)
        connection.sent(event("session.update", session={"instructions": f"{token} and {in_address}"}))
        connection.ended("the server closed it", 3000, f"the key {token} is not known")

    [start] = facts(path, "websocket_start")
    on_file = b"".join([path.with_suffix(".jsonl").read_bytes(), *frames_on_file(path, "sent")]).decode()
    assert [start["model"], token in on_file, in_address in on_file] == ["d", False, False]
    assert start["subprotocol"].startswith("openai-insecure-api-key.[REDACTED")


def test_texts_can_be_left_out_and_removed(tmp_path: Path) -> None:
    """A run without texts has none in its messages, and a text can be removed from them later."""
    messages = [
        event("session.update", session={"type": "realtime", "instructions": "whisper softly"}),
        event("input_audio_buffer.append", audio=DATA),
    ]
    for content in ("none", "masked"):
        with connected(tmp_path / f"{content}.json", "realtime", content=content) as connection:
            for message in messages:
                connection.sent(message)
    redact(tmp_path / "masked.json", text="whisper softly")

    without, removed = [frames_on_file(tmp_path / f"{name}.json", "sent") for name in ("none", "masked")]
    assert [json.loads(message)["type"] for message in without] == ["session.update", "input_audio_buffer.append"]
    assert [b"whisper" in message for message in (*without, *removed)] == [False] * 4
    assert removed[1] == without_media(messages[1], "")
    assert validate(tmp_path / "masked.json").ok


def test_a_closed_connection_records_nothing_more(tmp_path: Path) -> None:
    """Messages after the end are left out, and a second end too."""
    path = tmp_path / "run.json"
    with connected(path, "responses") as connection:
        connection.ended("the client closed it", 1000, "bye")
        connection.received(STARTED[0])
        connection.sent(json.dumps(create("late")).encode())

    [end] = facts(path, "websocket_end")
    assert (end["ended_by"], end["reason"], end["sent"], end["received"]) == ("the client closed it", "bye", 0, 0)
    assert list(load(path).llm_interactions) == []


def test_a_run_ends_although_its_messages_are_being_masked(tmp_path: Path) -> None:
    """A run that ends does not wait for ever: a redactor may be slow, or its thread may wait for this one."""
    is_masking, may_go_on = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        if "whisper" in text:
            is_masking.set()
            may_go_on.wait()
        return text

    recorder = limited(lock_timeout_seconds=0.01)(tmp_path / "run.json", redact=slow)
    recorder.start()
    connection = begin_websocket(Binding(RecorderTarget(recorder), None), "wss://api.openai.com/v1/realtime", ())
    assert connection is not None
    connection.opened(101)
    connection.sent(event("session.update", session={"instructions": "whisper"}))
    asking = threading.Thread(target=connection.sent, args=(event("response.create"),), daemon=True)
    asking.start()
    is_masking.wait()
    ending = threading.Thread(target=recorder.finalize, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    has_ended = not ending.is_alive()
    may_go_on.set()
    asking.join()

    assert has_ended


PROGRAM = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import openai
from trace_recorder import TrajectoryRecorder, wrap

os.environ["OPENAI_BASE_URL"] = sys.argv[1] + "/v1"
WRAPPED = sys.argv[3] == "wrapped"

def ask(client):
    with client.responses.connect() as connection:
        connection.send({"type": "response.create", "model": "m", "input": "x"})
        while connection.recv().type != "response.completed":
            pass

async def ask_in_loop(client):
    async with client.responses.connect() as connection:
        await connection.send({"type": "response.create", "model": "m", "input": "x"})
        while (await connection.recv()).type != "response.completed":
            pass

with TrajectoryRecorder(sys.argv[2]) as recorder:
    ask(recorder.wrap(openai.OpenAI(api_key="k")))
    asyncio.run(ask_in_loop(recorder.wrap(openai.AsyncOpenAI(api_key="k"))))
    if not WRAPPED:
        ask(openai.OpenAI(api_key="k"))
"""


@pytest.mark.parametrize(("which", "lines"), [("wrapped", 0), ("other", 1)])
def test_only_websockets_that_are_not_recorded_are_warned_of(which: str, lines: int, tmp_path: Path) -> None:
    """A connection of a client that was not wrapped is named at the end of the run."""
    with serving_scripts(SCENARIOS["text"].script) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        ended = python(PROGRAM, url, tmp_path / "run.json", which)

    told = ended.stderr.splitlines()
    assert (ended.returncode, len(told)) == (0, lines), ended.stderr
    assert [line for line in told if "may lack LLM calls: websockets connected to localhost" in line] == told


def test_a_program_that_is_run_is_recorded(tmp_path: Path) -> None:
    """`trace-recorder run` records websockets of a program that knows no recorder."""
    program = tmp_path / "agent.py"
    program.write_text(
        PROGRAM.split("with TrajectoryRecorder", maxsplit=1)[0]
        + "ask(openai.OpenAI(api_key='k'))\nasyncio.run(ask_in_loop(openai.AsyncOpenAI(api_key='k')))\n"
    )
    code = """
    import subprocess, sys
    command = [sys.executable, "-m", "trace_recorder", "run", "-q", "--trajectory-file", sys.argv[2], "--"]
    ended = subprocess.run([*command, sys.executable, *sys.argv[3:], sys.argv[1], "-", "-"])
    sys.exit(ended.returncode)
    """
    with serving_scripts(SCENARIOS["text"].script) as server:
        ended = python(code, server.url, tmp_path / "run.json", program)

    calls = load(tmp_path / "run.json").llm_interactions
    assert (ended.returncode, [call.response.content for call in calls]) == (0, ["hello"] * 2), ended.stderr


def test_the_proxy_is_told_who_records(tmp_path: Path) -> None:
    """Under `trace-recorder proxy`, the handshake of a recorded connection has the header of recorded requests."""
    with serving_scripts(SCENARIOS["text"].script) as server:
        code = f"import os; os.environ['{PROXY_VARIABLE}'] = {server.url!r}\n{PROGRAM}"
        ended = python(code, server.url, tmp_path / "run.json", "other")

    told = [request.headers.get(RECORDED_HEADER) for request in server.requests]
    assert ended.returncode == 0, ended.stderr
    assert told == [quote(str(tmp_path / "run.json"))] * 2 + [None]
