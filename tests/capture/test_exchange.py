"""Each HTTP exchange is recorded, however it ends."""

from __future__ import annotations

import errno
import gc
import gzip
import os
import subprocess
import sys
import textwrap
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest
import respx

from tests import zstd
from tests.capture.recorded_clients import ASK, create, interactions, recorded_client
from tests.counting import alive
from tests.provider import (
    CHAT,
    CHAT_STREAM,
    DROP,
    MESSAGE,
    OLLAMA,
    SILENCE,
    Answer,
    chat_chunk,
    plain,
    serving,
    stream,
)
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.capture.exchange import Exchange


def test_a_stream_is_recorded_as_received(tmp_path: Path) -> None:
    """The text of a stream is recorded as received, with the joined response, and marked as complete."""
    path = tmp_path / "run.json"
    with recorded_client(path, stream(*CHAT_STREAM)) as (client, _):
        texts = [chunk.choices[0].delta.content for chunk in create(client, stream=True)]  # type: ignore[attr-defined]

    [one] = interactions(path)
    assert texts == ["Grü", "ße", None]
    assert one.raw_stream == b"".join(CHAT_STREAM).decode()
    assert (one.response.content, one.response.finish_reason, one.stream, one.complete) == ("Grüße", "stop", True, True)
    assert one.time_to_first_token_seconds is not None


def test_calls_that_cannot_be_written_leave_nothing_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that cannot be written to a full disk are forgotten, and recording continues when there is room."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"choices": []})

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        client = recorder.wrap(httpx.Client(transport=httpx.MockTransport(answer)))
        before = alive(Exchange)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            for number in range(20):
                messages = [{"role": "user", "content": f"{number}"}]
                client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "messages": messages})
        left_over = alive(Exchange) - before
        client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "messages": []})

    assert left_over <= 1
    assert len(load(tmp_path / "run.json").llm_interactions) == 1


def test_responses_that_cannot_be_written_leave_nothing_in_memory(tmp_path: Path) -> None:
    """If a redactor fails on each answer, the requests and empty ends are recorded, and the answers are not kept in
    memory.
    """

    def fail_on_answers(text: str) -> str:
        if text.startswith("the answer"):
            raise RuntimeError(text)
        return text

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"choices": [], "text": "the answer" + "!" * 10_000})

    with TrajectoryRecorder(tmp_path / "run.json", redact=fail_on_answers) as recorder:
        client = recorder.wrap(httpx.Client(transport=httpx.MockTransport(answer)))
        before = alive(Exchange)
        for number in range(20):
            messages = [{"role": "user", "content": f"{number}"}]
            client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "messages": messages})
        left_over = alive(Exchange) - before

    assert left_over <= 1
    assert [call.complete for call in load(tmp_path / "run.json").llm_interactions] == [False] * 20


def test_a_pausing_stream_is_written_when_the_disk_has_room(tmp_path: Path) -> None:
    """The flusher's thread writes a stream's text that could not be written before, even if no further chunk comes."""
    attempts: list[str] = []
    is_written = threading.Event()

    def refuse_once(text: str) -> str:
        if text == "Grü":
            attempts.append(text)
            if len(attempts) == 1:
                raise OSError(errno.ENOSPC, "no space left on device")
            is_written.set()
        return text

    def body() -> Iterator[bytes]:
        yield chat_chunk("Grü")
        assert is_written.wait(60)

    server = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body())
    )
    with TrajectoryRecorder(tmp_path / "run.json", redact=refuse_once) as recorder:
        client = recorder.wrap(httpx.Client(transport=server))
        client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "stream": True})

    assert len(attempts) > 1


def test_a_stream_closed_early_is_incomplete(tmp_path: Path) -> None:
    """The received part of a stream that the caller closes is recorded as incomplete, with the reason."""
    path = tmp_path / "run.json"
    with recorded_client(path, stream(chat_chunk("one"), 0.05, chat_chunk("two"), SILENCE)) as (client, _):
        with create(client, stream=True) as chunks:  # type: ignore[attr-defined]
            for _ in chunks:
                break

    [one] = interactions(path)
    assert (one.response.content, one.complete, one.ended_by) == ("one", False, "the caller closed it")


def test_a_stream_cut_off_by_the_server_is_an_error(tmp_path: Path) -> None:
    """A broken stream raises the same error as without wrapping. The received part is recorded with the error."""
    path = tmp_path / "run.json"
    with recorded_client(path, stream(chat_chunk("one"), 0.05, DROP)) as (client, _):
        with pytest.raises(openai.APIConnectionError):
            list(create(client, stream=True))  # type: ignore[call-overload]

    [one] = interactions(path)
    assert one.error is not None
    assert (one.response.content, one.complete, one.error.type) == ("one", False, "RemoteProtocolError")


def test_an_abandoned_stream_is_recorded(tmp_path: Path) -> None:
    """A stream that the garbage collector closes is recorded once, as incomplete."""
    path = tmp_path / "run.json"
    with recorded_client(path, stream(chat_chunk("one"), 0.05, chat_chunk("two"), SILENCE)) as (client, _):
        chunks = iter(create(client, stream=True))  # type: ignore[call-overload]
        next(chunks)
        del chunks
        gc.collect()

    [one] = interactions(path)
    assert (one.response.content, one.complete) == ("one", False)


def test_a_stream_with_an_error_event_has_failed(tmp_path: Path) -> None:
    """An error event in a stream of status 200 is the interaction's error."""
    path = tmp_path / "run.json"
    event = b'data: {"error": {"message": "overloaded", "type": "server_error", "code": 502}}\n\n'
    with recorded_client(path, stream(chat_chunk("one"), event)) as (client, _):
        with pytest.raises(openai.APIError, match="overloaded"):
            list(create(client, stream=True))  # type: ignore[call-overload]

    [one] = interactions(path)
    assert one.error is not None
    assert (one.error.type, one.error.message) == ("server_error", "overloaded")


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress)],
)
def test_compressed_streams_are_read(tmp_path: Path, encoding: str, compress: object) -> None:
    """A compressed stream is recorded as text, and the caller gets it unchanged."""
    path = tmp_path / "run.json"
    packed = compress(b"".join(CHAT_STREAM))  # type: ignore[operator]
    pieces = [packed[at : at + 7] for at in range(0, len(packed), 7)]
    with (
        serving(stream(*pieces, **{"content-encoding": encoding})) as server,
        TrajectoryRecorder(path, strict=True) as recorder,
        recorder.wrap(httpx2.Client()) as client,  # httpx needs a package for zstd
    ):
        text = client.post(f"{server.url}/v1/chat/completions", json={"model": "m", "stream": True}).text

    [one] = interactions(path)
    assert text == one.raw_stream == b"".join(CHAT_STREAM).decode()


@pytest.mark.parametrize(
    "body", [b"<html>bad gateway</html>", b"\xff\xfe not text", b'{"a": NaN}', b"", b'{"a": "\\ud800"}']
)
def test_a_body_that_is_not_json_is_kept(tmp_path: Path, body: bytes) -> None:
    """A response that is not JSON is recorded as text."""
    path = tmp_path / "run.json"
    with recorded_client(path, Answer([body])) as (client, _):
        client._client.post(f"{client.base_url}chat/completions", json={"model": "m"})

    [one] = interactions(path)
    assert one.raw_response == (body.decode("utf-8", "replace") or None)


def test_raw_and_streaming_responses_are_recorded_once(tmp_path: Path) -> None:
    """`with_raw_response`, `with_streaming_response`, `parse` and the stream helpers each give one record."""
    path = tmp_path / "run.json"
    answers = (plain(CHAT), plain(CHAT), plain(CHAT), stream(*CHAT_STREAM))
    with recorded_client(path, *answers) as (client, _):
        chat = client.chat.completions
        chat.with_raw_response.create(model="m", messages=ASK).parse()  # type: ignore[call-overload]
        with chat.with_streaming_response.create(model="m", messages=ASK) as response:  # type: ignore[call-overload]
            response.read()
        chat.parse(model="m", messages=ASK)  # type: ignore[arg-type]
        with chat.stream(model="m", messages=ASK) as events:  # type: ignore[arg-type]
            events.get_final_completion()

    assert [(call.complete, call.response and call.response.content) for call in interactions(path)] == [
        (True, "hi"),
        (True, "hi"),
        (True, "hi"),
        (True, "Grüße"),
    ]


def test_the_stream_helper_of_anthropic_is_recorded_once(tmp_path: Path) -> None:
    """Anthropic's `messages.stream()` gives one record, and the helper keeps its type and methods."""
    path = tmp_path / "run.json"
    start = {**MESSAGE, "content": [], "stop_reason": None}
    events = (
        ("message_start", f'{{"type":"message_start","message":{_json(start)}}}'),
        ("content_block_start", '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
        ("content_block_delta", '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}'),
        ("content_block_stop", '{"type":"content_block_stop","index":0}'),
        ("message_delta", '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}'),
        ("message_stop", '{"type":"message_stop"}'),
    )
    body = [f"event: {name}\ndata: {data}\n\n".encode() for name, data in events]
    with serving(stream(*body)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with recorder.wrap(anthropic.Anthropic(api_key="k", base_url=server.url)) as client:
            with client.messages.stream(model="m", max_tokens=9, messages=ASK) as helper:  # type: ignore[arg-type]
                final = helper.get_final_message()

    [one] = interactions(path)
    assert (final.content[0].text, one.response.content, one.complete) == ("hi", "hi", True)  # type: ignore[union-attr]


def _json(value: object) -> str:
    import json

    return json.dumps(value)


def test_a_request_that_is_not_json_is_kept(tmp_path: Path) -> None:
    """A request body that is not a JSON object is recorded as text."""
    path = tmp_path / "run.json"
    with recorded_client(path, plain(CHAT)) as (client, _):
        client._client.post(f"{client.base_url}chat/completions", content=b"[1, 2")

    assert [call.raw_request for call in interactions(path)] == ["[1, 2"]


def test_mocked_answers_are_recorded(tmp_path: Path) -> None:
    """A response that a mock transport creates whole, without a stream, is recorded."""
    path = tmp_path / "run.json"
    stream_text = b"".join(CHAT_STREAM)
    answers = iter(
        [
            httpx2.Response(200, json=CHAT),
            httpx2.Response(
                200,
                content=gzip.compress(stream_text),
                headers={"content-type": "text/event-stream", "content-encoding": "gzip"},
            ),
        ]
    )
    mock = httpx2.Client(transport=httpx2.MockTransport(lambda _: next(answers)))
    with TrajectoryRecorder(path, strict=True) as recorder, openai.OpenAI(api_key="k", http_client=mock) as client:
        recorder.wrap(client)
        create(client)
        list(create(client, stream=True))  # type: ignore[call-overload]

    plain_one, streamed = interactions(path)
    assert (plain_one.complete, plain_one.raw_response, plain_one.provider) == (True, CHAT, "openai")
    assert (streamed.complete, streamed.raw_stream) == (True, stream_text.decode())


@respx.mock
def test_respx_sees_and_mocks_a_wrapped_client(tmp_path: Path) -> None:
    """A client that is wrapped before or after respx mocks its library is mocked, and recorded."""
    path = tmp_path / "run.json"
    respx.post("http://server/api/chat").mock(return_value=httpx.Response(200, json=OLLAMA))
    with TrajectoryRecorder(path, strict=True) as recorder, ollama.Client(host="http://server") as client:
        recorder.wrap(client).chat(model="m", messages=ASK)

    assert [(call.complete, call.raw_response) for call in interactions(path)] == [(True, OLLAMA)]


def test_a_killed_process_leaves_the_received_part(tmp_path: Path) -> None:
    """After SIGKILL in the middle of a stream, the finished call is on file, and the received text of the open call."""
    path = tmp_path / "run.json"
    agent = f"""
        import os, signal, threading, time, openai
        from trace_recorder import TrajectoryRecorder, load
        recorder = TrajectoryRecorder({str(path)!r}, task="t")
        recorder.start()
        client = recorder.wrap(openai.OpenAI(api_key="k", base_url=os.environ["URL"]))
        ask = dict(model="m", messages=[{{"role": "user", "content": "hello"}}])
        client.chat.completions.create(**ask)
        def die():
            while "Two. " not in (load({str(path)!r}).llm_interactions[-1].raw_stream or ""):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=die).start()
        for chunk in client.chat.completions.create(stream=True, **ask):
            pass
    """
    with serving(plain(CHAT), stream(chat_chunk("One. "), 0.05, chat_chunk("Two. "), SILENCE)) as server:
        environment = {"URL": f"{server.url}/v1", "PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(agent)], env=environment, timeout=120, check=False
        )

    trajectory = load(path)
    finished, cut = trajectory.llm_interactions
    assert (process.returncode, trajectory.status) == (-9, "interrupted")
    assert (finished.complete, finished.response and finished.response.content) == (True, "hi")
    assert (cut.complete, cut.raw_stream) == (False, (chat_chunk("One. ") + chat_chunk("Two. ")).decode())
    assert cut.response.content == "One. Two. "
