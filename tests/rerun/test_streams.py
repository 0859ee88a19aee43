"""Replayed responses: old journals, large bodies, incomplete streams, and encoded answers."""

from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.provider import CHAT, CHAT_STREAM, Answer, chat_chunk, plain, serving, stream
from tests.rerun.runs import KEY, NOWHERE, ask, client, record, said
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, load, replay

ASKED: Any = [{"role": "user", "content": "hello"}]
THREE = [chat_chunk(text) for text in ("a", "b", "c")]
DONE = [chat_chunk(None, "stop"), b"data: [DONE]\n\n"]


def chunks_of(made: openai.OpenAI) -> list[bytes]:
    """Return the chunks of a stream as the HTTP library gives them."""
    asked = made.chat.completions.with_streaming_response.create(model="m", messages=ASKED, stream=True)
    with asked as response:
        return list(response.iter_bytes())


def first_of(made: openai.OpenAI) -> str | None:
    """Return the first chunk of a stream, and close the stream."""
    with made.chat.completions.create(model="m", messages=ASKED, stream=True) as chunks:
        return next(iter(chunks)).choices[0].delta.content


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.with_suffix(".jsonl").read_bytes().splitlines()]


def rewritten(path: Path, change: Callable[[dict[str, Any]], object], lines: int | None = None) -> None:
    """Write the journal again, with each record changed. `lines` limits how many lines are written."""
    written = []
    for record_ in lines_of(path)[:lines]:
        del record_["crc"]
        change(record_)
        line = json.dumps(record_, separators=(",", ":"))[:-1].encode()
        written.append(line + b',"crc":"%08x"}\n' % zlib.crc32(line))
    path.with_suffix(".jsonl").write_bytes(b"".join(written))


def test_a_stream_of_an_older_journal_is_given_event_by_event(tmp_path: Path) -> None:
    """If the journal does not state the chunks, each event is a chunk."""
    path = tmp_path / "run.json"
    record(path, [stream(b"".join(THREE), *DONE)], chunks_of)
    rewritten(path, lambda one: [one["data"].pop(name, None) for name in ("chunk_ends", "chunk_times")])

    with replay(path) as run:
        assert chunks_of(run.wrap(client())) == [*THREE, *DONE]


def test_a_large_plain_body_is_whole(tmp_path: Path) -> None:
    """The replay gives a large answer as one JSON body."""
    path = tmp_path / "run.json"
    text = "".join(f"line {number}\n" for number in range(20_000))

    came = record(path, [said(text)], ask)

    with replay(path) as run:
        assert ask(run.wrap(client())) == came == text


def test_a_run_that_ended_in_a_stream_says_where(tmp_path: Path) -> None:
    """The received part is given. Then an error says that the recording ends."""
    path = tmp_path / "run.json"
    record(path, [stream(*THREE, *DONE)], chunks_of)
    kinds = [line["kind"] for line in lines_of(path)]
    rewritten(path, lambda _: None, kinds.index("llm_stream") + 1)

    came: list[str | None] = []

    def read() -> None:
        with replay(path) as run:
            chunks = run.wrap(client()).chat.completions.create(model="m", messages=ASKED, stream=True)
            came.extend(chunk.choices[0].delta.content for chunk in chunks)

    rewritten(path, lambda one: _shorten(one) if one["kind"] == "llm_stream" else None)
    with pytest.raises((openai.APIConnectionError, httpx2.ConnectError), match=r"recording ends here|Connection error"):
        read()
    assert came == ["a", "b", "c"]


def _shorten(part: dict[str, Any]) -> None:
    """Keep only the text of a part before the end of the stream."""
    data = part["data"]
    text = zlib.decompress(base64.b64decode(data["zlib"]))
    data["zlib"] = base64.b64encode(zlib.compress(text[: text.index(DONE[0])])).decode()
    data["chunk_ends"], data["chunk_times"] = "2*3", data["chunk_times"][:3]


def test_an_unanswered_call_says_so(tmp_path: Path) -> None:
    """A run that was killed while it waited has no answer to give, and no retry hides that."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)
    kinds = [line["kind"] for line in lines_of(path)]
    rewritten(path, lambda _: None, kinds.index("llm_request") + 1)

    def call() -> None:
        with replay(path) as run, suppress(openai.APIConnectionError):
            ask(run.wrap(client()))

    with pytest.raises(ReplayMismatchError, match="the recording ends here"):
        call()


@pytest.mark.parametrize("leave", [first_of, lambda made: next(_dropped(made))])
def test_a_stream_that_was_closed_early_is_given_so_far(
    tmp_path: Path, leave: Callable[[openai.OpenAI], object]
) -> None:
    """A caller that closes or abandons the stream at the same place notices nothing. A caller that reads on gets an
    error.
    """
    path = tmp_path / "run.json"
    came = record(path, [stream(THREE[0], 0.05, *THREE[1:], 0.2, *DONE)], leave)
    gc.collect()

    with replay(path) as run:
        assert leave(run.wrap(client())) == came == "a"
    with pytest.raises(ReplayMismatchError, match=r"closed|abandoned|the run ended"), replay(path) as run:
        with suppress(openai.APIConnectionError, httpx2.ConnectError):
            chunks_of(run.wrap(client()))


def _dropped(made: openai.OpenAI) -> Any:
    response = made.chat.completions.create(model="m", messages=ASKED, stream=True)
    yield next(response).choices[0].delta.content


@pytest.mark.parametrize("how", ["gzip", "deflate"])
@pytest.mark.parametrize("streams", [True, False])
def test_encoded_answers_are_given_decoded(tmp_path: Path, how: str, streams: bool) -> None:
    """The body is given without its encoding, and no header names an encoding."""
    path = tmp_path / "run.json"
    encode = gzip.compress if how == "gzip" else zlib.compress
    body = encode(b"".join(CHAT_STREAM) if streams else json.dumps(CHAT).encode())
    media = "text/event-stream" if streams else "application/json"
    answer = Answer([body[:40], body[40:]], headers={"content-type": media, "content-encoding": how})

    def said_and_headers(made: openai.OpenAI) -> tuple[str, bool]:
        response = made.chat.completions.with_raw_response.create(model="m", messages=ASKED, stream=streams)
        given: Any = response.parse()
        text = "".join(chunk.choices[0].delta.content or "" for chunk in given) if streams else ""
        return text or given.choices[0].message.content, "content-encoding" in response.headers

    came = record(path, [answer], said_and_headers)
    with replay(path) as run:
        again = said_and_headers(run.wrap(client()))

    text = "Grüße" if streams else "hi"
    assert (came, again) == ((text, True), (text, False))


def test_bytes_in_an_unknown_encoding_are_unchanged(tmp_path: Path) -> None:
    """For an unknown encoding the bytes themselves are recorded and given."""
    path = tmp_path / "run.json"
    answer = Answer([b"\xff\xfe\x00raw"], headers={"content-type": "application/json", "content-encoding": "x-own"})

    def raw(made: openai.OpenAI) -> bytes:
        return made.chat.completions.with_raw_response.create(model="m", messages=ASKED).content

    came = record(path, [answer], raw)
    with replay(path) as run:
        assert raw(run.wrap(client())) == came == b"\xff\xfe\x00raw"


def test_a_stream_that_its_server_ended_early_ends_early_again(tmp_path: Path) -> None:
    """HTTP ended cleanly without the last event. The replay gives the same, and this is not a mismatch."""
    path = tmp_path / "run.json"
    came = record(path, [stream(*THREE)], chunks_of)

    with replay(path) as run:
        assert chunks_of(run.wrap(client())) == came == THREE
    assert load(path).llm_interactions[0].complete is False


def test_a_stream_that_is_iterated_twice_continues(tmp_path: Path) -> None:
    """After the last event an SDK reads the rest, and not the stream from its beginning."""
    path = tmp_path / "run.json"

    async def pieces(made: openai.AsyncOpenAI) -> list[int]:
        lengths = []
        async with (
            made,
            made.chat.completions.with_streaming_response.create(model="m", messages=ASKED, stream=True) as response,
        ):
            stream_: Any = response.http_response.stream
            async for chunk in stream_:
                lengths.append(len(chunk))
                break
            lengths += [len(chunk) async for chunk in stream_]
        return lengths

    record(path, [stream(THREE[0], 0.05, THREE[1], 0.05, b"data: [DONE]\n\n")], chunks_of)
    with replay(path) as run:
        found = asyncio.run(pieces(run.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=NOWHERE))))

    assert found == [len(THREE[0]), len(THREE[1]), len(b"data: [DONE]\n\n")]


def test_a_body_without_bytes_is_empty_again(tmp_path: Path) -> None:
    """A stream that ended before its first byte gives no chunk."""
    path = tmp_path / "run.json"
    assert record(path, [stream()], chunks_of) == []

    with TrajectoryRecorder(tmp_path / "again.json", strict=True) as recorder, replay(path) as run:
        assert chunks_of(run.wrap(recorder.wrap(client()))) == []


def test_answers_other_than_json_are_unchanged(tmp_path: Path) -> None:
    """A proxy's HTML page in place of an answer is given with its status."""
    path = tmp_path / "run.json"
    page = Answer([b"<html>\n<h1>Bad Gateway</h1>\r\n</html>"], 502, {"content-type": "text/html"})

    def failed(made: openai.OpenAI) -> tuple[int, bytes]:
        with pytest.raises(openai.InternalServerError) as raised:
            ask(made.with_options(max_retries=0))
        return raised.value.status_code, raised.value.response.content

    came = record(path, [page], failed)
    with replay(path) as run:
        assert failed(run.wrap(client())) == came == (502, b"<html>\n<h1>Bad Gateway</h1>\r\n</html>")


def test_a_request_that_is_no_call_reaches_the_server(tmp_path: Path) -> None:
    """A request for a list of models is not an LLM call, so a replay sends it to the server."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)

    with serving(plain({"data": []})) as server, replay(path, strict=False) as run:
        with httpx2.Client(trust_env=False) as made:
            assert run.wrap(made).post(f"{server.url}/v1/files", content=b"?").json() == {"data": []}
