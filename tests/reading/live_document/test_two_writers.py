"""A caller and the thread that write the same document at once: the document has the records of both."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.journals import journal_of
from tests.waiting import wait_until
from trace_recorder.reading.live_document.document_thread import DEFAULT_LIMITS
from trace_recorder.reading.live_document.writer import DocumentWriter

FIRST = journal_of(("start", {"task": "t"}))
BOTH = journal_of(("start", {"task": "t"}), ("annotation", {"key": "k", "value": "x" * 50_000}))


def writer_of(
    journal: Path,
    path: Path,
    guarded: AbstractContextManager[object, bool | None] | None = None,
    in_place: Callable[[], bool] = lambda: True,
) -> DocumentWriter:
    return DocumentWriter(
        journal,
        path,
        "auto",
        guarded or nullcontext(),
        sync=False,
        in_place=in_place,
        limits=replace(DEFAULT_LIMITS, at_once_bytes=10**8, cost_multiple=0),  # the thread writes soon
    )


class Replaced(type(Path())):  # type: ignore[misc]
    """The path of a document. Right after its content is written, a caller records something, and saves the
    document.
    """

    caller: threading.Thread
    journal: Path
    writer: DocumentWriter

    def __fspath__(self) -> str:
        if not hasattr(self, "caller") and any(one.stat().st_size for one in self.journal.parent.glob(".*.tmp")):
            self.caller = threading.Thread(target=self.writer.save)
            self.journal.write_bytes(BOTH)
            self.caller.start()
            while not self.writer._requested:
                time.sleep(0.001)
        return str(super().__fspath__())


def test_a_record_made_right_after_the_thread_s_write_is_in_the_document(tmp_path: Path) -> None:
    path, journal = Replaced(tmp_path / "run.json"), tmp_path / "run.jsonl"
    journal.write_bytes(FIRST)
    path.journal, path.writer = journal, writer_of(journal, path)

    path.writer.write_in_thread()

    path.caller.join()
    assert json.loads((tmp_path / "run.json").read_bytes())["journal_records"] == 2


class Closing(AbstractContextManager[None, None]):
    """A guard that ends the run before the thread writes the document. The user then moves the document."""

    writer: DocumentWriter
    path: Path

    def __enter__(self) -> None:
        if not self.path.exists():
            return
        self.path.unlink()
        caller = threading.Thread(target=self.writer.close)
        caller.start()
        caller.join()
        self.path.unlink()

    def __exit__(self, *_: object) -> None:
        return None


def test_a_document_is_not_written_after_the_end_of_its_run(tmp_path: Path) -> None:
    guarded, path = Closing(), tmp_path / "run.json"
    path.with_suffix(".jsonl").write_bytes(BOTH)
    guarded.path, guarded.writer = path, writer_of(path.with_suffix(".jsonl"), path, guarded)
    guarded.writer.save()

    guarded.writer.write_in_thread()

    assert not path.exists()


def test_a_record_added_during_a_write_does_not_delay_the_next_write(tmp_path: Path) -> None:
    """The predicted cost depends on the bytes that the write read, and not on the journal's earlier size."""
    journal, size = tmp_path / "run.jsonl", 4_000_000
    journal.write_bytes(journal_of(("start", {"task": "x" * size})))
    seconds = []
    for known in (size, 1):
        writer = writer_of(journal, tmp_path / "run.json")
        writer.is_due(known, at_once=True)
        writer.save()
        writer.is_due(size, at_once=True)
        seconds.append(writer.predicted_seconds())

    assert seconds[1] < 8 * seconds[0]


def test_a_large_record_after_a_small_document_does_not_delay_the_next_write(tmp_path: Path) -> None:
    """Creating a file costs more than writing the few bytes of a new run, so this cost is not extrapolated by bytes."""
    journal = tmp_path / "run.jsonl"
    journal.write_bytes(FIRST)
    writer = writer_of(journal, tmp_path / "run.json")
    writer.save()

    writer.is_due(10_000_000, at_once=True)

    assert writer.predicted_seconds() < 3


def test_a_document_whose_caller_was_interrupted_is_written_by_the_thread(tmp_path: Path) -> None:
    """Ctrl-C comes in the middle of a write, and no record follows."""
    journal, path = tmp_path / "run.jsonl", tmp_path / "run.json"
    journal.write_bytes(BOTH)
    presses = [KeyboardInterrupt()]

    def interrupt_once() -> bool:
        if presses:
            raise presses.pop()
        return True

    writer = writer_of(journal, path, in_place=interrupt_once)

    with pytest.raises(KeyboardInterrupt):
        writer.save()

    wait_until(path.exists)
    assert path.exists()
    writer.close()


def test_a_failed_write_is_not_repeated_more_often_than_others(tmp_path: Path) -> None:
    """If a program keeps the file from being replaced, the write still has a cost, because only its last step
    failed.
    """
    journal, path = tmp_path / "run.jsonl", tmp_path / "run.json"
    data = journal_of(("start", {}), *[("annotation", {"key": f"k{number}", "value": 1}) for number in range(10_000)])
    writer = writer_of(journal, path)
    path.mkdir()
    journal.write_bytes(data)
    writer.is_due(len(data), at_once=True)

    with pytest.raises(IsADirectoryError):
        writer.save()

    assert writer.predicted_seconds() > 0
