"""Records whose data was encoded before they had a number have the same lines as other records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journals import TIME, RawRecord, read_raw
from tests.processes import python
from trace_recorder.facts import Fact, JsonText, LLMResponseFact
from trace_recorder.storage.fact_writer import FactWriter, fact_text
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_lines import LARGE_DATA, body_member, encode_lines, encode_record
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.structs import replace

LARGE = '{"s":0,"value":"' + "é" * LARGE_DATA * 9 + '"}'
LIKE_A_LINE = '{"n":1,"value":{"seq":1,"a":"' + "x" * LARGE_DATA + '"}}'


@pytest.mark.parametrize("data", [LARGE, LIKE_A_LINE, "{}"])
def test_encoded_data_gives_the_same_line(data: str) -> None:
    """A line has the same bytes whether or not its data was encoded beforehand."""
    record = ("item", data)
    encoded = encode_record(record)

    lines = [list(encode_lines([one], 7, TIME)) for one in (record, encoded)]

    assert isinstance(encoded[1], tuple) is (len(data) > LARGE_DATA)
    assert lines[0] == lines[1]


SECRET = "sk-ant-api03-" + "Ab1_" * 23 + "x-abcdAA"
CONTENTS = ["plain", 'quoted " and \\ \n é 😀', f"key {SECRET} here", '{"seq":1,"time":"']
REDACTION = Redaction(default_redactor, {})


def large_text(content: str) -> str:
    """Return a text of 320,000 characters."""
    return (content * LARGE_DATA)[: 10 * LARGE_DATA]


def lines_of(fact: Fact) -> list[bytes]:
    """Return the line of a fact that a run writes, in both ways in which it may be masked."""
    writer = FactWriter(REDACTION)
    alone, together = writer.record(fact), writer.records([fact_text(fact)])
    assert [*encode_lines([alone], 7, TIME)] == [*encode_lines(together, 7, TIME)]
    return [*encode_lines(together, 7, TIME)]


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("around", [lambda text: text, lambda text: {"seq": 1, "n": [{"seq": text}]}])
def test_a_large_body_gives_the_same_line(content: str, indent: int | None, around: Callable[[str], object]) -> None:
    """The bytes of a body are written as they came, in the line that the body's text would have."""
    body = json.dumps(around(large_text(content)), ensure_ascii=False, indent=indent, separators=(",", ":")).encode()
    headers = {"x-key": SECRET}
    member = body_member(body, REDACTION.mask_bytes)
    fact = LLMResponseFact(interaction_id="a", attempt=0, status=200, complete=True, headers=headers, **member)

    assert (fact_text(fact).large is None) is (b"\n" in body)
    assert lines_of(fact) == lines_of(replace(fact, body=JsonText(fact.body.text)))


@pytest.mark.parametrize("content", CONTENTS)
def test_a_large_string_gives_the_same_line(content: str) -> None:
    """The bytes of a large string in a request are written as they came, unless a secret in it is masked."""
    text = json.dumps(large_text(content), ensure_ascii=False)
    body = f'{{"messages":[{{"role":"user","content":{text}}}]}}'.encode()
    encoder = ItemEncoder()

    large, _ = encoder.encode(body, encoder.prepare(body)).new

    assert large.value.data == text.encode()
    assert lines_of(large) == lines_of(replace(large, value=JsonText(text)))


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
