"""The recorded chunks of a stream, with the times at which the caller got them, from which the stream can be replayed
exactly.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from google import genai
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.written import Writing, asked, said
from tests.limits import limited
from tests.provider import Answer, chat_chunk, serving, stream
from tests.seams.bedrock import lines_on_file
from tests.seams.frames import CONVERSE, cut
from trace_recorder import LLMInteraction, TrajectoryRecorder, load

Payload = Any


def event(body: Payload, name: str = "") -> bytes:
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


OPENAI = [chat_chunk(text) for text in ("Grü", "ße", "", "x" * 3000)] + [chat_chunk(None, "stop"), b"data: [DONE]\n\n"]
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "stop_reason": None}
ANTHROPIC = [
    event(
        {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}}},
        "message_start",
    ),
    event(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        "content_block_start",
    ),
    *(
        event(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            "content_block_delta",
        )
        for text in ("Hel", "lo")
    ),
    event({"type": "content_block_stop", "index": 0}, "content_block_stop"),
    event(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}, "message_delta"
    ),
    event({"type": "message_stop"}, "message_stop"),
]
GOOGLE = [
    event({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}]}).replace(
        b"\n", b"\r\n"
    )
    for text in ("Hel", "lo")
]
OLLAMA = [
    json.dumps({"model": "l", "message": {"role": "assistant", "content": text}, "done": text == ""}).encode() + b"\n"
    for text in ("Hel", "lo", "")
]


def read_openai(url: str, recorder: TrajectoryRecorder) -> None:
    with recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)) as client:
        list(client.chat.completions.create(model="m", messages=[], stream=True))


def read_openai_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def work() -> None:
        async with recorder.wrap(openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)) as client:
            async for _ in await client.chat.completions.create(model="m", messages=[], stream=True):
                pass

    asyncio.run(work())


def read_anthropic(url: str, recorder: TrajectoryRecorder) -> None:
    with recorder.wrap(anthropic.Anthropic(api_key="k", base_url=url, max_retries=0)) as client:
        list(client.messages.create(model="c", max_tokens=9, messages=[], stream=True))


def read_anthropic_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def work() -> None:
        async with recorder.wrap(anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)) as client:
            async for _ in await client.messages.create(model="c", max_tokens=9, messages=[], stream=True):
                pass

    asyncio.run(work())


def read_google(url: str, recorder: TrajectoryRecorder) -> None:
    client = recorder.wrap(genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url)))
    list(client.models.generate_content_stream(model="g", contents="hello"))
    client.close()


def read_google_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def work() -> None:
        client = recorder.wrap(genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url)))
        async for _ in await client.aio.models.generate_content_stream(model="g", contents="hello"):
            pass
        await client.aio.aclose()

    asyncio.run(work())


def read_ollama(url: str, recorder: TrajectoryRecorder) -> None:
    client = recorder.wrap(ollama.Client(host=url))
    list(client.chat("l", [], stream=True))
    client._client.close()


def read_ollama_async(url: str, recorder: TrajectoryRecorder) -> None:
    async def work() -> None:
        client = recorder.wrap(ollama.AsyncClient(host=url))
        async for _ in await client.chat("l", [], stream=True):
            pass
        await client._client.aclose()

    asyncio.run(work())


Caller = Callable[[str, TrajectoryRecorder], None]
CALLERS: dict[str, tuple[Caller, list[bytes]]] = {
    "openai": (read_openai, OPENAI),
    "openai, async": (read_openai_async, OPENAI),
    "anthropic": (read_anthropic, ANTHROPIC),
    "anthropic, async": (read_anthropic_async, ANTHROPIC),
    "google": (read_google, GOOGLE),
    "google, async": (read_google_async, GOOGLE),
    "ollama": (read_ollama, OLLAMA),
    "ollama, async": (read_ollama_async, OLLAMA),
}


def recorded(path: Path, caller: Caller, *answers: Answer, **limits: int) -> LLMInteraction:
    """Return the interaction of the only call."""
    with serving(*answers) as server, limited(**limits)(path, strict=True) as recorder:
        caller(server.url, recorder)
    [interaction] = load(path).llm_interactions
    return interaction


def as_came(interaction: LLMInteraction) -> list[bytes]:
    """Return the chunks, after a check that their times are in order, between the request and the end."""
    assert interaction.raw_chunks is not None
    times = [at for at, _ in interaction.raw_chunks]
    assert times == sorted(times)
    assert interaction.time_to_first_token_seconds == pytest.approx(times[0], rel=0, abs=0.000501)  # half a ms and a µs
    assert times[-1] <= (interaction.duration_seconds or 0) + 0.001
    assert b"".join(data for _, data in interaction.raw_chunks).decode("utf-8", "replace") == interaction.raw_stream
    return [data for _, data in interaction.raw_chunks]


@pytest.mark.parametrize("name", CALLERS)
def test_a_stream_is_recorded_chunk_by_chunk(name: str, tmp_path: Path) -> None:
    """The recorded chunks are those of the server, in the order of time, with each SDK, sync and async."""
    caller, sent = CALLERS[name]
    media = "application/x-ndjson" if sent is OLLAMA else "text/event-stream"

    interaction = recorded(tmp_path / "run.json", caller, Answer(sent, 200, {"content-type": media}))

    assert as_came(interaction) == sent


@settings(max_examples=20)
@given(st.lists(st.integers(1, 900), max_size=12), st.sampled_from([1, 300, 64 * 1024]))
def test_chunks_may_end_anywhere(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], flushed: int) -> None:
    """Chunks that end within events, characters or recorded parts are read back unchanged."""
    text = b"".join(OPENAI)
    cuts = sorted({sum(lengths[: at + 1]) for at in range(len(lengths))})
    sent = [part for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if (part := text[start:end])]

    path = tmp_path_factory.mktemp("runs") / "run.json"
    interaction = recorded(path, read_openai, stream(*sent), flush_bytes=flushed)

    assert as_came(interaction) == sent


@pytest.mark.parametrize(("encoding", "flush"), [("gzip", zlib.Z_SYNC_FLUSH), ("gzip", zlib.Z_NO_FLUSH)])
def test_chunks_of_an_encoded_stream_have_their_text(encoding: str, flush: int, tmp_path: Path) -> None:
    """In an encoded stream, each chunk has the text that it was decoded to. A chunk without text is not recorded."""
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(chunk) + packer.flush(flush) for chunk in OPENAI]
    packed[-1] += packer.flush()
    unpacker = zlib.decompressobj(wbits=31)
    given_out = [part for chunk in packed if (part := unpacker.decompress(chunk))]

    interaction = recorded(
        tmp_path / "run.json", read_openai, stream(*filter(None, packed), **{"content-encoding": encoding})
    )

    assert gzip.decompress(b"".join(packed)) == b"".join(OPENAI)
    assert as_came(interaction) == given_out


def test_the_first_token_is_the_first_text(tmp_path: Path) -> None:
    """The time of the first token is that of the first chunk with text, and not of a chunk with only the encoding's
    header.
    """
    packer = zlib.compressobj(wbits=31)
    header = packer.compress(OPENAI[0])
    rest = packer.flush(zlib.Z_SYNC_FLUSH) + packer.compress(b"".join(OPENAI[1:])) + packer.flush()
    answer = stream(header, 0.05, rest, **{"content-encoding": "gzip"})

    interaction = recorded(tmp_path / "run.json", read_openai, answer)

    assert zlib.decompressobj(wbits=31).decompress(header) == b""
    assert as_came(interaction) == [b"".join(OPENAI)]


@pytest.mark.parametrize("size", [7, 10_000])
def test_frames_are_recorded_as_lines_of_text(size: int, tmp_path: Path) -> None:
    """Bedrock's frames that httpx receives are recorded as lines of text."""

    def ask(url: str, recorder: TrajectoryRecorder) -> None:
        with recorder.wrap(httpx.Client()) as client:
            answer = client.post(f"{url}/model/m/converse-stream", json={"messages": []})
            assert answer.content == b"".join(CONVERSE)

    interaction = recorded(tmp_path / "run.json", ask, cut(CONVERSE, size))

    assert (interaction.response.content, interaction.response.tool_calls[0].name, interaction.complete) == (
        "Grüße",
        "bash",
        True,
    )
    lines = lines_on_file(tmp_path / "run.json").splitlines()
    assert [json.loads(line)["headers"][":event-type"] for line in lines][::10] == ["messageStart", "messageStop"]


def test_a_masked_chunk_ends_at_the_same_place(tmp_path: Path) -> None:
    """A secret is masked in the chunk that has it, and all other chunks are unchanged."""
    secret = chat_chunk("my key is sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4")
    sent = [OPENAI[0], secret[:150], secret[150:], *OPENAI[1:]]

    interaction = recorded(tmp_path / "run.json", read_openai, stream(*sent))

    came = as_came(interaction)
    assert (came[:1], came[3:]) == (sent[:1], sent[3:])
    assert b"".join(came[1:3]) == chat_chunk("my key is [REDACTED:openai-key]")


def test_chunks_of_a_broken_stream_are_recorded(tmp_path: Path) -> None:
    """The received chunks of a broken stream are recorded."""

    def leave(url: str, recorder: TrajectoryRecorder) -> None:
        with recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)) as client:
            with client.chat.completions.create(model="m", messages=[], stream=True) as made:
                next(iter(made))

    interaction = recorded(tmp_path / "run.json", leave, stream(*OPENAI))

    assert (as_came(interaction), interaction.complete) == (OPENAI[: len(as_came(interaction))], False)


def test_older_journals_have_no_chunks(tmp_path: Path) -> None:
    """A stream of an older journal, a plain answer, and a document alone have no chunks."""
    writing = Writing(tmp_path / "run.jsonl")
    writing.request(1, asked({"role": "user", "content": "q"}))
    writing.stream(1, b"".join(OPENAI).decode())
    writing.request(2, asked({"role": "user", "content": "q"}))
    writing.response(2, body=said("fine"))
    writing.journal.close()

    streamed, plain = load(tmp_path / "run.jsonl").llm_interactions
    assert (streamed.raw_stream, streamed.raw_chunks) == (b"".join(OPENAI).decode(), None)
    assert (plain.raw_stream, plain.raw_chunks) == (None, None)
