"""A call of many attempts costs what its records cost: each record is read once, whichever way the run is read."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.counting import calls
from tests.journals import journal_of
from trace_recorder import load, load_all
from trace_recorder.reading.growing_journal import GrowingJournal
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.values.messages import Payload

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ANSWER = {"id": "c", "model": "m", "choices": [{"message": {"role": "assistant", "content": "there"}}]}
BROKEN = base64.b64encode(zlib.compress(b'data: {"id": "c", "choices": []}\n\n')).decode()


def failed(number: int) -> list[tuple[str, Payload]]:
    """Return the records of an attempt that failed."""
    attempt: Payload = {"interaction_id": "llm_1", "attempt": number}
    ending: Payload = {"status": 500, "headers": {}, "complete": True, "body": {"error": {"message": "busy"}}}
    return [("llm_request", attempt | {"api": "openai.chat", "body": REQUEST}), ("llm_response", attempt | ending)]


def broken(number: int) -> list[tuple[str, Payload]]:
    """Return the records of an attempt whose stream broke, so that a part of an answer is known."""
    attempt: Payload = {"interaction_id": "llm_1", "attempt": number}
    request: Payload = {"api": "openai.chat", "body": REQUEST, "stream": True}
    part: Payload = {"status": 200, "headers": {}, "bytes": 33, "zlib": BROKEN}
    ending: Payload = {"status": 200, "headers": {}, "complete": False, "stream": True, "assembled": {"id": "c"}}
    return [("llm_request", attempt | request), ("llm_stream", attempt | part), ("llm_response", attempt | ending)]


def write(path: Path, attempts: int, attempt: Callable[[int], list[tuple[str, Payload]]]) -> Path:
    """Write a journal with one call that succeeds after many attempts, and return the path of its document."""
    last: Payload = {"interaction_id": "llm_1", "attempt": attempts}
    path.with_suffix(".jsonl").write_bytes(
        journal_of(
            ("start", {"format": "trace-recorder/1", "trajectory_id": "t"}),
            *(record for number in range(attempts) for record in attempt(number)),
            ("llm_request", last | {"api": "openai.chat", "body": REQUEST}),
            ("llm_response", last | {"status": 200, "headers": {}, "complete": True, "body": ANSWER}),
        )
    )
    return path


def read_by_load(path: Path) -> int:
    return sum(len(call.attempts) for call in load(path.with_suffix(".jsonl")).llm_interactions)


def read_step_by_step(path: Path) -> int:
    """Read the journal while it grows, in four steps."""
    lines, copy = path.with_suffix(".jsonl").read_bytes().splitlines(keepends=True), path.with_name(f"of-{path.name}l")
    copy.write_bytes(b"")
    growing = GrowingJournal(copy)
    for quarter in range(4):
        with copy.open("ab") as file:
            file.writelines(lines[len(lines) * quarter // 4 : len(lines) * (quarter + 1) // 4])
        growing.read_more()
    return sum(len(call.attempts) for call in growing.trajectory().llm_interactions)


def write_document(path: Path, limits: DocumentLimits) -> int:
    WholeDocument(path.with_suffix(".jsonl"), "auto", limits=limits).write(path)
    return sum(len(call["attempts"]) for call in json.loads(path.read_bytes())["llm_interactions"])


def write_with_memory(path: Path) -> int:
    return write_document(path, DocumentLimits())


def write_without_memory(path: Path) -> int:
    """Write the document by a fold that drops the records of every call that has ended."""
    return write_document(path, DocumentLimits(kept_bytes=0))


WAYS = [read_by_load, read_step_by_step, write_with_memory, write_without_memory]


def cost(tmp_path: Path, way: Callable[[Path], int], make: Callable[[Path], Path], attempts: int) -> int:
    path = make(tmp_path / f"{attempts}.json")
    read = 0

    def act() -> None:
        nonlocal read
        read = way(path)

    counted = calls(act)
    assert read == attempts + 1
    return counted


@pytest.mark.parametrize("attempt", [failed, broken])
@pytest.mark.parametrize("way", WAYS)
def test_attempts_cost_what_their_records_cost(
    way: Callable[[Path], int], attempt: Callable[[int], list[tuple[str, Payload]]], tmp_path: Path
) -> None:
    """For four times as many attempts, at most four times as many of our functions run, and few more."""
    few, many = (
        cost(tmp_path, way, lambda path, count=count: write(path, count, attempt), count)  # type: ignore[misc]
        for count in (200, 800)
    )
    assert many < 4.4 * few


def har_of(path: Path, failures: int) -> Path:
    request = {"method": "POST", "url": "https://api.openai.com/v1/chat/completions", "headers": []}
    request |= {"postData": {"text": json.dumps(REQUEST)}}
    entries = [
        {
            "startedDateTime": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
            "time": 1,
            "request": request,
            "response": {"status": 500, "headers": [], "content": {"text": "{}"}},
        }
        for number in range(failures + 1)
    ]
    document = {"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": entries}}
    har = path.with_suffix(".har")
    har.write_text(json.dumps(document))
    return har


def read_har(path: Path) -> int:
    return sum(len(call.attempts) for run in load_all(path) for call in run.llm_interactions)


def test_failed_requests_of_a_har_file_cost_what_they_are(tmp_path: Path) -> None:
    """A HAR file with four times as many repetitions of a failed request costs at most four times as much."""
    few, many = (cost(tmp_path, read_har, lambda path, count=count: har_of(path, count), count) for count in (200, 800))  # type: ignore[misc]
    assert many < 4.4 * few
