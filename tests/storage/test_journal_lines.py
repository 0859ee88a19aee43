"""Records whose data was encoded before they had a number have the same lines as other records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journals import TIME, RawRecord, read_raw
from tests.processes import python
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_lines import LARGE_DATA, encode_lines, encode_record

LARGE = '{"s":0,"value":"' + "é" * LARGE_DATA * 9 + '"}'
LIKE_A_LINE = '{"n":1,"value":{"seq":1,"a":"' + "x" * LARGE_DATA + '"}}'


@pytest.mark.parametrize("data", [LARGE, LIKE_A_LINE, "{}"])
def test_encoded_data_gives_the_same_line(data: str) -> None:
    """A line has the same bytes whether or not its data was encoded beforehand."""
    record = ("item", data)
    encoded = encode_record(record)

    lines = [list(encode_lines([one], 7, TIME)) for one in (record, encoded)]

    assert isinstance(encoded[1], bytes) is (len(data) > LARGE_DATA)
    assert lines[0] == lines[1]


def test_large_and_small_records_of_one_write_are_written(tmp_path: Path) -> None:
    """Records of any sizes that are appended in one write can be read, also after a torn line."""
    path = tmp_path / "run.jsonl"
    journal = Journal.create(path)
    journal.append("note", "{}", TIME)
    with path.open("ab") as other:
        other.write(b'{"seq":2,"ti')
    written = [LARGE, "{}", LIKE_A_LINE, *["{}"] * 1500, LARGE]
    journal._torn = True

    journal.append_all([encode_record(("item", one)) for one in written], TIME)
    journal.append("note", "{}", TIME)
    journal.close()

    found = list(read_raw(path.read_bytes()))
    assert [one.seq for one in found if isinstance(one, RawRecord)] == [1, *range(2, len(written) + 3)]
    assert len(found) == len(written) + 3  # and the torn line


REFUSED = """
import resource, sys
from pathlib import Path
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_lines import LARGE_DATA, encode_record

journal = Journal.create(Path(sys.argv[1]))
journal.append("note", "{}", "t")
size, large = journal.size, encode_record(("item", '"' + "x" * LARGE_DATA * 9 + '"'))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    journal.append_all([large, large], "t")
except OSError:
    print(journal.size == size, journal.next_seq)
"""


@pytest.mark.parametrize("room", [10, 400_000])
def test_a_refused_large_record_leaves_no_trace(tmp_path: Path, room: int) -> None:
    """If the disk has room for only a part of a large record, the file keeps its earlier end."""
    ended = python(REFUSED, tmp_path / "run.jsonl", str(room))

    assert (ended.stdout, ended.stderr) == ("True 2\n", "")
