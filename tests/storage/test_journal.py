"""The journal: every undamaged record can be read, whatever happens to other bytes of the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import arguments_of
from tests.journals import TIME, RawRecord, line, read_raw
from tests.json_strategies import json_objects
from tests.processes import ROOT
from tests.storage.journal_lines import damages, records
from trace_recorder.storage import journal_reader
from trace_recorder.storage.file_system import is_locked, writer_is_alive
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_reader import BadLine
from trace_recorder.values.jsonable import to_json

DATA = ({"text": "one"}, {"text": "zwei\n\u2028"}, {}, {"list": [1, {"seq": 2}]}, {"text": "three\0"})
WHOLE = b"".join(line(seq, "note", data) for seq, data in enumerate(DATA, start=1))


def untouched(begin: int, end: int) -> list[RawRecord]:
    """Return the records of WHOLE without a byte in [begin, end); the loss of a newline affects no record."""
    return [record for record in records(WHOLE) if record.offset + record.length <= begin or end <= record.offset]


def test_an_appended_record_has_the_documented_form(tmp_path: Path) -> None:
    """A record is a line of the documented form, with the CRC-32 of the text before its `crc` member."""
    journal = Journal.create(tmp_path / "run.jsonl")

    journal.append("start", '{"text":"Wörld"}', TIME)

    head = f'{{"seq":1,"time":"{TIME}","kind":"start","data":{{"text":"Wörld"}}'.encode()
    assert journal.path.read_bytes() == head + b',"crc":"%08x"}\n' % crc32(head)


@given(st.lists(json_objects, max_size=4))
def test_appended_records_are_read_again(data: list[dict[str, object]]) -> None:
    """Appended records are read in order, with the number that `append` returned, and with their place."""
    with tempfile.NamedTemporaryFile() as file:
        journal = Journal(os.dup(file.fileno()), Path(file.name))

        given_back = [journal.append("note", to_json(one), TIME) for one in data]

        journal.close()
        written = Path(file.name).read_bytes()
    ends = [at for at, byte in enumerate(written) if byte == ord("\n")]
    found = [(record.seq, record.data, record.offset, record.length) for record in records(written)]
    assert found == [
        (seq, one, begin, end - begin)
        for seq, one, begin, end in zip(given_back, data, [0, *(end + 1 for end in ends)], ends, strict=False)
    ]
    assert len(ends) == len(data)


def test_every_cut_gives_the_first_records() -> None:
    """A journal that is cut off at any byte gives its complete records, and the rest as one torn line."""
    whole = records(WHOLE)
    for cut in range(len(WHOLE) + 1):
        kept = [one for one in whole if one.offset + one.length <= cut]
        rest = cut - (kept[-1].offset + kept[-1].length + 1 if kept else 0)
        torn = [BadLine(cut - rest, rest, "the file ends in the middle of a record", torn=True)] if rest > 0 else []
        assert list(read_raw(WHOLE[:cut])) == [*kept, *torn], cut


def test_a_flipped_bit_affects_only_its_line() -> None:
    """If any bit of a journal is flipped, every other line is read as before, and the loss is reported."""
    for place in range(len(WHOLE)):
        for bit in (0, 3, 5, 7):
            broken = WHOLE[:place] + bytes([WHOLE[place] ^ 1 << bit]) + WHOLE[place + 1 :]
            numbered = [(record.seq, record.data) for record in records(broken)]
            assert numbered == [(record.seq, record.data) for record in untouched(place, place + 1)], (place, bit)
            assert damages(broken), (place, bit)


@given(begin=st.integers(0, len(WHOLE)), length=st.integers(1, 200))
def test_a_block_of_nuls_affects_only_its_lines(begin: int, length: int) -> None:
    """If a part of the file is overwritten by NULs, as by a crash, all other lines are read."""
    end = min(begin + length, len(WHOLE))
    broken = WHOLE[:begin] + bytes(end - begin) + WHOLE[end:]

    assert records(broken) == untouched(begin, end)


def test_a_block_of_nuls_between_two_lines_affects_neither() -> None:
    """NULs between two lines, as after a crash, affect no record."""
    second = records(WHOLE)[1].offset
    broken = WHOLE[:second] + bytes(4096) + WHOLE[second:]

    assert [record.data for record in records(broken)] == list(DATA)


def test_a_record_after_half_a_record_in_one_line_is_read() -> None:
    """In a line with half a record and a complete one, the complete record is read, and the half is a bad line."""
    welded = line(1, "note", {})[:30] + line(2, "note", {"a": 1})

    assert list(read_raw(welded)) == [
        BadLine(0, 30, "not a record, or its CRC does not match", torn=False),
        RawRecord(2, TIME, "note", {"a": 1}, 30, len(welded) - 31),
    ]


def test_any_number_of_records_in_one_line_are_read() -> None:
    """If all newlines are lost, all records are still read."""
    welded = b"".join(line(seq, "note", {}).rstrip(b"\n") for seq in range(1, 2001))

    assert [record.seq for record in records(welded)] == list(range(1, 2001))
    assert damages(welded) == []


def test_bytes_between_two_records_of_one_line_are_a_bad_line() -> None:
    """Bytes between two records of a line are a bad line, which has no byte of a record."""
    first, second = line(1, "note", {}).rstrip(b"\n"), line(2, "note", {})
    bad = list(read_raw(first + b"\0\0\0" + second))[1]

    assert bad == BadLine(len(first), 3, "not a record, or its CRC does not match", torn=False)


def test_a_record_with_beginnings_of_records_in_its_data_is_found_in_a_damaged_line() -> None:
    """At most eight beginnings of records are tried for one end: the record's own, and seven in its data."""
    quoted = ",".join(['{"seq":1,"time":"","kind":""}'] * 7)
    text = f'{{"seq":1,"time":"{TIME}","kind":"note","data":{{"quoted":[{quoted}]}}'.encode()
    broken = b'\0%s,"crc":"%08x"}\n' % (text, crc32(text))

    assert [(record.seq, len(record.data["quoted"])) for record in records(broken)] == [(1, 7)]


INNER = line(1, "finalize", {}).rstrip(b"\n")


@pytest.mark.parametrize("cut", [2, 20])
def test_a_record_within_a_string_of_a_record_is_not_a_record(tmp_path: Path, cut: int) -> None:
    """A record that a model writes in its text never becomes a record of the run, whatever damages its line."""
    journal = Journal.create(tmp_path / "run.jsonl")
    journal.append("llm_response", f'{{"body":{{"tool_input":{INNER.decode()}}}}}', TIME)
    journal.close()
    written = (tmp_path / "run.jsonl").read_bytes()

    assert records(written)[0].data == {"body": {"tool_input": json.loads(INNER)}}
    assert records(written[:-cut]) == []


def test_a_long_damaged_line_is_skipped_in_linear_time() -> None:
    """A damaged line with 60,000 possible beginnings of records is skipped in linear time."""
    broken = line(1, "note", {"list": [{"seq": 1}] * 60_000}).replace(b": ", b":").replace(b"note", b"n0te")
    lines: list[object] = []

    def read_all() -> None:
        lines.extend(read_raw(broken))

    checked = arguments_of(read_all, journal_reader._parse_record, lambda arguments: len(arguments["line"]))

    assert (len(lines), sum(checked) < 3 * len(broken)) == (1, True)


def test_a_damaged_line_with_many_ends_of_records_is_passed_over_in_time() -> None:
    """After 1,000 pairs of a beginning and an end that are not a record, no further pair of the line is checked."""
    broken = line(1, "note", {})[:60] + b',"crc":"00000000"}' * 3000
    lines: list[object] = []

    def read_all() -> None:
        lines.extend(read_raw(broken))

    checked = arguments_of(read_all, journal_reader._parse_record, lambda arguments: len(arguments["line"]))

    assert (len(lines), len(checked)) == (1, 1 + 1000)


@given(
    st.lists(st.sampled_from([b"\n", b"\0", b'{"seq":', b'"crc":"00000000"}', b"\xff", WHOLE[:90], WHOLE]), max_size=9)
)
def test_a_reader_reads_every_byte_sequence(parts: list[bytes]) -> None:
    """For any bytes, the records and bad lines are at their stated places, in order, and do not overlap."""
    data = b"".join(parts)
    found = list(read_raw(data))

    ends = [0, *(one.offset + one.length for one in found)]
    assert all(end <= one.offset for end, one in zip(ends, found, strict=False))
    assert [one for one in found if isinstance(one, RawRecord) and read_again(data, one) != one] == []


def read_again(data: bytes, one: RawRecord) -> RawRecord:
    [alone] = records(data[one.offset : one.offset + one.length])
    return RawRecord(alone.seq, alone.time, alone.kind, alone.data, one.offset, one.length)


def test_the_lock_distinguishes_a_living_writer_from_a_dead_one(tmp_path: Path) -> None:
    """A journal is locked while its writer runs, and free as soon as the writer is killed."""
    path = tmp_path / "run.jsonl"
    code = "import sys; from pathlib import Path; from trace_recorder.storage.journal import Journal\n"
    code += "journal = Journal.create(Path(sys.argv[1])); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        alive = is_locked(path)
        writer.send_signal(signal.SIGKILL)
        writer.wait()

        assert (alive, is_locked(path)) == (True, False)


def test_whether_a_writer_on_a_second_host_is_alive_is_unknown(tmp_path: Path) -> None:
    """For a writer on another host, neither a free lock nor a missing file shows that the writer has ended.

    If no host is stated, a lock shows that the writer is alive, and a free lock shows nothing.
    """
    journal = Journal.create(tmp_path / "run.jsonl")

    answers = (
        writer_is_alive(journal.path, "elsewhere"),
        writer_is_alive(journal.path, None),
        is_locked(tmp_path / "none"),
    )

    journal.close()
    assert answers == (None, True, None)
    assert writer_is_alive(journal.path, None) is None


def test_only_one_of_many_processes_creates_a_journal(tmp_path: Path) -> None:
    """If many processes create a journal of the same name, one of them gets the name, and no other file is left."""
    code = "import sys, time; from pathlib import Path; from trace_recorder.storage.journal import Journal\n"
    code += "time.sleep(max(0, float(sys.argv[2]) - time.time()))\n"
    code += "try: Journal.create(Path(sys.argv[1])).append('start', '{}', 't'); print('mine')\n"
    code += "except FileExistsError: print('taken')"
    at = time.time() + 0.5
    arguments = [sys.executable, "-c", code, tmp_path / "run.jsonl", str(at)]
    writers = [subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    answers = sorted(writer.communicate()[0].strip() for writer in writers)

    assert answers == ["mine", "taken", "taken", "taken"]
    assert [one.name for one in tmp_path.iterdir()] == ["run.jsonl"]


def test_only_the_owner_can_read_a_journal(tmp_path: Path) -> None:
    """Only the owner can read a journal, whatever the umask."""
    before = os.umask(0)
    journal = Journal.create(tmp_path / "run.jsonl", sync=True)
    os.umask(before)
    journal.close()

    assert journal.path.stat().st_mode & 0o777 == 0o600


def test_only_an_empty_journal_is_discarded(tmp_path: Path) -> None:
    """A journal without a record is removed, and a journal with a record never is."""
    unused, used = Journal.create(tmp_path / "unused.jsonl"), Journal.create(tmp_path / "used.jsonl")
    used.append("start", "{}", TIME)

    unused.discard_if_empty()
    used.discard_if_empty()

    used.close()
    used.close()
    assert [one.name for one in tmp_path.iterdir()] == ["used.jsonl"]
