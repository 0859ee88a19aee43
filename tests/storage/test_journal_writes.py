"""Writes that fail or are incomplete: the journal keeps only complete lines, and the next record is complete."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.faults.unlucky import limit
from tests.interrupts import interrupted
from tests.journals import TIME, RawRecord, read_raw
from tests.processes import python
from tests.storage.journal_lines import LONG, damages, records
from trace_recorder.storage.journal import Journal

FILL = """
import resource, sys
from pathlib import Path
from trace_recorder.storage.journal import Journal

journal = Journal.create(Path(sys.argv[1]))
def append(text):
    try:
        return journal.append("note", '{"text":"%s"}' % text, "t")
    except OSError:
        return None
"""


def test_a_short_write_leaves_complete_lines(tmp_path: Path) -> None:
    """A record that the system writes only in part is cut off, and later records are complete."""
    path = tmp_path / "run.jsonl"
    ended = python(
        FILL
        + """
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
seqs = [append("first"), append("x" * 500)]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print([*seqs, append("last")])
""",
        path,
    )

    assert (ended.stdout, ended.stderr) == ("[1, None, 2]\n", "")
    assert [one.data["text"] for one in read_raw(path.read_bytes()) if isinstance(one, RawRecord)] == ["first", "last"]
    assert damages(path.read_bytes()) == []


def test_ctrl_c_and_a_short_write_lose_no_appended_record(tmp_path: Path) -> None:
    """If one append is interrupted at any moment, and a later append finds no room, the record between them stays."""
    lost = []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for moment in range(1, 100):
        journal = Journal.create(tmp_path / f"{moment}.jsonl")
        reached = interrupted(partial(journal.append, "note", '{"text":"interrupted"}', TIME), moment)
        journal.append("note", '{"text":"between"}', TIME)
        resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 10, hard))
        with pytest.raises(OSError, match="of a record"):
            journal.append("note", f'{{"text":"{LONG}"}}', TIME)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        journal.append("note", '{"text":"last"}', TIME)
        journal.close()
        texts = [record.data["text"] for record in records(journal.path.read_bytes())]
        if texts[-2:] != ["between", "last"] or damages(journal.path.read_bytes()):
            lost.append((moment, texts))
        if not reached:
            break

    assert lost == []


def test_a_full_disk_leaves_complete_lines(tmp_path: Path) -> None:
    """On a full disk, records are refused, and the journal continues when there is room."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        journal = Journal.create(tmp_path / "run.jsonl")
        (tmp_path / "other").write_bytes(bytes(40_000))
        written = appended_until_full(journal)
        (tmp_path / "other").unlink()
        written.append(journal.append("note", '{"text":"last"}', TIME))
        journal.close()
        data = journal.path.read_bytes()
    finally:
        subprocess.run(["umount", tmp_path], check=True)

    assert ([record.seq for record in records(data)], damages(data)) == (written, [])
    assert written == list(range(1, len(written) + 1))


def appended_until_full(journal: Journal) -> list[int]:
    seqs = []
    for number in range(20):
        with contextlib.suppress(OSError):
            seqs.append(journal.append("note", f'{{"text":"{"x" * 3000}{number}"}}', TIME))
    assert 0 < len(seqs) < 20
    return seqs


def test_a_torn_end_that_cannot_be_cut_off_is_closed() -> None:
    """If half a record cannot be cut off, the next record is on a line of its own."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    journal = Journal(writing, Path("pipe"))
    journal.append("note", "{}", TIME)
    with pytest.raises(OSError, match="bytes of a record could be written"):
        journal.append("note", f'{{"text":"{"x" * 2**20}"}}', TIME)
    data = drained(reading)

    journal.append("note", '{"text":"last"}', TIME)

    data += drained(reading)
    os.close(reading)
    journal.close()
    assert ([(record.seq, record.data) for record in records(data)], len(damages(data))) == (
        [(1, {}), (2, {"text": "last"})],
        1,
    )


def test_a_record_without_its_newline_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without its newline that cannot be cut off is read, and the next record has the next number."""
    journal = Journal.create(tmp_path / "run.jsonl")
    journal.append("note", '{"text":"1"}', TIME)
    size = journal.path.stat().st_size
    monkeypatch.setattr(os, "ftruncate", lambda *_: (tmp_path / "nothing").stat())
    with limit(resource.RLIMIT_FSIZE, 3 * size - 1), pytest.raises(OSError, match="of a record"):
        journal.append_all([("note", f'{{"text":"{number}"}}') for number in (2, 3)], TIME)

    journal.append("note", '{"text":"4"}', TIME)

    journal.close()
    assert [(record.seq, record.data["text"]) for record in records(journal.path.read_bytes())] == [
        (number, str(number)) for number in range(1, 5)
    ]


@pytest.mark.parametrize("size", [0, 150, 10_000])
def test_a_short_write_to_a_changed_file_loses_nothing_else(tmp_path: Path, size: int) -> None:
    """If others have cut or extended the file, only the incomplete record is cut off, and the next record has the next
    number.
    """
    journal = Journal.create(tmp_path / "run.jsonl")
    journal.append("note", '{"text":"1"}', TIME)
    journal.append("note", '{"text":"2"}', TIME)
    os.truncate(journal.path, size)
    with limit(resource.RLIMIT_FSIZE, size + 300), pytest.raises(OSError, match="of a record"):
        journal.append_all([("note", '{"text":"lost"}'), ("note", f'{{"text":"{LONG}"}}')], TIME)
    remaining = journal.path.stat().st_size

    journal.append("note", '{"text":"3"}', TIME)

    journal.close()
    assert remaining == size
    assert [(record.seq, record.data["text"]) for record in records(journal.path.read_bytes())][-1] == (3, "3")


def drained(reading: int) -> bytes:
    data = b""
    with contextlib.suppress(BlockingIOError):
        while True:
            data += os.read(reading, 2**20)
    return data
