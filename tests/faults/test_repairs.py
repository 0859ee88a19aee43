"""After a fault in the middle of a write, all earlier and later records are complete."""

from __future__ import annotations

import asyncio
import errno
import resource
from pathlib import Path

import openai
import pytest

from tests.faults.unlucky import UnavailableError, attribute, limit
from tests.journals import TIME, RawRecord, read_raw, records_of
from tests.provider import CHAT, chat_chunk, plain, serving, stream
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate
from trace_recorder.storage.journal import Journal

PIECES = [chat_chunk("one " * 50), 1.3, chat_chunk("two " * 50), 0.1, chat_chunk("three"), chat_chunk(None, "stop")]


def append(journal: Journal, text: str) -> None:
    """Append a record, whose length does not depend on the text."""
    journal.append("note", f'{{"text":"{text:_<100}"}}', TIME)


def fail_to_append(journal: Journal, *, can_be_cut: bool) -> None:
    """Let a write fail in the middle of a record. The written part can be taken back, or cannot."""
    with limit(resource.RLIMIT_FSIZE, journal.path.stat().st_size + 50):
        if can_be_cut:
            with pytest.raises(OSError, match="only 50 of") as failed:
                append(journal, "lost")
            assert failed.value.errno == errno.ENOSPC  # a limit of the system, which is logged once for all runs
            return
        with attribute(journal.path, "a"), pytest.raises(OSError, match="only 50 of"):
            append(journal, "torn")


def test_a_torn_record_that_stays_affects_no_later_record(tmp_path: Path) -> None:
    """Half a record that could not be taken back stays in the file. A second failure takes back only its own half."""
    journal = Journal.create(tmp_path / "run.jsonl")
    append(journal, "first")
    try:
        fail_to_append(journal, can_be_cut=False)
    except UnavailableError as error:
        pytest.skip(str(error))
    append(journal, "second")
    append(journal, "third")
    fail_to_append(journal, can_be_cut=True)

    append(journal, "fourth")

    journal.close()
    lines = list(read_raw(journal.path.read_bytes()))
    texts = [line.data["text"].strip("_") for line in lines if isinstance(line, RawRecord)]
    assert (texts, len(lines)) == (["first", "second", "third", "fourth"], 5)


def test_a_stream_on_a_full_disk_is_complete_in_the_end(tmp_path: Path) -> None:
    """The parts of a stream that could not be written are written with the next part."""
    path = tmp_path / "run.json"
    with (
        serving(stream(*PIECES)) as server,
        TrajectoryRecorder(path) as recorder,
        recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{server.url}/v1")) as client,
    ):
        chunks = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], stream=True)
        with limit(resource.RLIMIT_FSIZE, path.with_suffix(".jsonl").stat().st_size + 20):
            assert next(chunks).choices[0].delta.content == "one " * 50
            assert next(chunks).choices[0].delta.content == "two " * 50
        list(chunks)

    [one] = load(path).llm_interactions
    errors = [finding.what for finding in validate(path).findings if finding.severity == "error"]
    assert (one.raw_stream, errors) == (b"".join(piece for piece in PIECES if isinstance(piece, bytes)).decode(), [])


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a_large_response_on_a_full_disk_reaches_its_caller(tmp_path: Path, streamed: bool, awaited: bool) -> None:
    """If no part of a large response can be written, the caller still gets all of it, and a gap is recorded."""
    path, text = tmp_path / "run.json", "word " * 40_000
    answer = (
        stream(chat_chunk(text), chat_chunk(None, "stop"))
        if streamed
        else plain({**CHAT, "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]})
    )

    async def later(client: openai.AsyncOpenAI) -> int:
        async with client:
            reply = await client.chat.completions.with_raw_response.create(model="m", messages=[], stream=streamed)
            return len(await reply.http_response.aread())

    def now(client: openai.OpenAI) -> int:
        with client:
            reply = client.chat.completions.with_raw_response.create(model="m", messages=[], stream=streamed)
            return len(reply.http_response.read())

    with serving(answer) as server, TrajectoryRecorder(path) as recorder:
        url = f"{server.url}/v1"
        with limit(resource.RLIMIT_FSIZE, path.with_suffix(".jsonl").stat().st_size + 2000):
            if awaited:
                assert asyncio.run(later(recorder.wrap(openai.AsyncOpenAI(api_key="k", base_url=url)))) > len(text)
            else:
                assert now(recorder.wrap(openai.OpenAI(api_key="k", base_url=url))) > len(text)

    assert {gap.what for gap in load(path).gaps} & {"record a response", "record a part of a response"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_device_loses_only_the_refused_records(tmp_path: Path) -> None:
    """A journal that accepts no byte for a while has all other records, with consecutive numbers."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    journal = recorder.trajectory_path.with_suffix(".jsonl")
    recorder.annotate("before", 1)
    with limit(resource.RLIMIT_FSIZE, journal.stat().st_size):
        recorder.annotate("during", 1)
    recorder.annotate("after", 1)

    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    assert (trajectory.annotations, [gap.what for gap in trajectory.gaps]) == (
        {"before": 1, "after": 1},
        ["record an annotation"],
    )
    assert [record.seq for record in records_of(recorder.trajectory_path)] == [1, 2, 3, 4, 5]
