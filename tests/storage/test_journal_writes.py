"""Writes that fail or fall short: the journal keeps whole lines, and the next record finds its place."""

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
from tests.journals import TIME
from tests.processes import python
from tests.storage.journal_lines import LONG, damages, records
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_reader import Record, read

FILL = """
import resource, sys
from pathlib import Path
from trace_recorder.storage.journal import Journal

journal = Journal.create(Path(sys.argv[1]))
def append(text):
    try:
        return journal.append("note", '{"text":"%s"}' % text, "t")[0]
    except OSError:
        return None
"""


def test_a_short_write_leaves_whole_lines_and_the_next_one_works(tmp_path: Path) -> None:
    """A record that the system takes only in half leaves no trace; later records are complete."""
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
    assert [one.data["text"] for one in read(path.read_bytes()) if isinstance(one, Record)] == ["first", "last"]
    assert damages(path.read_bytes()) == []


def test_ctrl_c_and_a_short_write_cost_no_record_that_was_appended(tmp_path: Path) -> None:
    """Interrupted at any moment of one append, with a later one that finds no room, the one between is on file."""
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


def test_a_full_disk_leaves_whole_lines_and_the_next_one_works(tmp_path: Path) -> None:
    """Records that find no room are refused; when there is room again, the journal goes on."""
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
        written.append(journal.append("note", '{"text":"last"}', TIME)[0])
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
            seqs.append(journal.append("note", f'{{"text":"{"x" * 3000}{number}"}}', TIME)[0])
    assert 0 < len(seqs) < 20
    return seqs


def test_a_torn_end_that_cannot_be_cut_off_is_closed_by_the_next_record() -> None:
    """If half a record has to stay, the next record is on a line of its own."""
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


def test_a_record_that_lacks_only_its_newline_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the record cannot be cut off, it is read, and the next record has the next number."""
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
def test_a_short_write_to_a_file_that_others_have_cut_or_grown_costs_nothing_else(tmp_path: Path, size: int) -> None:
    """The incomplete part is cut off in its place, and the next record has the next number."""
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
