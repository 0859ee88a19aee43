"""A journal is written again with other texts: numbers, times, kinds and structure stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import rich_run
from tests.journals import RawRecord, journal_of, line, read_raw
from tests.poison.hostile_journals import journals
from tests.processes import ROOT
from tests.retention.planting import MASK, Planting
from trace_recorder.facts import KINDS, hints_of
from trace_recorder.retention.removed_texts import RemovedTexts
from trace_recorder.sharing.tier_masker import TierMasker
from trace_recorder.storage.redaction.identities import Identities
from trace_recorder.storage.rewritten_journal import STRUCTURE, RewrittenJournal
from trace_recorder.values.messages import Payload

GAP = line(2, "gap", {"time": None, "what": "a", "why": "b"})
FROZEN = sorted((ROOT / "tests/data/frozen/journals").glob("*.jsonl"))


def rewritten(data: bytes, path: Path, *texts: str) -> bytes:
    """Return a journal without texts."""
    path.write_bytes(data)
    return b"".join(RewrittenJournal(path, RemovedTexts(texts)).lines())


@pytest.mark.parametrize("journal", FROZEN, ids=lambda path: path.stem)
def test_a_journal_without_the_text_stays_byte_for_byte(journal: Path, tmp_path: Path) -> None:
    """If nothing is removed, no byte changes."""
    data = journal.read_bytes()

    assert rewritten(data, tmp_path / "run.jsonl", "not there at all") == data


@pytest.mark.parametrize("journal", FROZEN, ids=lambda path: path.stem)
def test_each_record_keeps_its_number_time_and_kind(journal: Path, tmp_path: Path) -> None:
    """Whatever is changed, the records are the same, and so are the members and the numbers of their data."""
    before = read_raw(journal.read_bytes())
    lines = b"".join(RewrittenJournal(journal, Planting("planted", ["plain"])).lines())
    after = read_raw(lines)

    assert [shape(one) for one in after] == [shape(one) for one in before]


def test_only_the_data_of_a_record_is_searched(tmp_path: Path) -> None:
    """The time in the head of each line may look like a part of an address, and is no text."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(GAP)
    searched: list[str] = []

    class Searched(TierMasker):
        def may_change(self, json_text: str) -> bool:
            searched.append(json_text)
            return False

    assert b"".join(RewrittenJournal(path, Searched(Identities(()))).lines()) == GAP
    assert [json.loads(text) for text in searched] == [{"time": None, "what": "a", "why": "b"}]


@pytest.mark.parametrize("name", ["jdoe7", "jörg", "李小龙", 'j"x', "corp\\jo"])
@pytest.mark.parametrize("around", ["{}", "a\n{}", "\t{}\t", "'{}'", "é{}"])
def test_a_name_is_found_however_json_writes_it(name: str, around: str) -> None:
    """A name may be behind the letter of an escape, and its own letters may be escaped."""
    for text in (json.dumps(around.format(name)), json.dumps(around.format(name), ensure_ascii=False)):
        assert Identities([name]).positions(text)


def shape(record: object) -> Payload:
    """Return the head of a record, with the own members and the numbers of its data."""
    assert isinstance(record, RawRecord)
    own = {name: value for name, value in record.data.items() if name in STRUCTURE - {"zlib", "chunk_ends"}}
    return record.seq, record.time, record.kind, [*record.data], own


@given(data=journals(), more=st.binary(max_size=20))
def test_any_journal_can_be_rewritten(data: bytes, more: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hostile records, and bytes that are none, are written again. A second time changes nothing."""
    path = tmp_path_factory.mktemp("any") / "run.jsonl"
    once = rewritten(data + more, path, "abc", "rol")

    assert rewritten(once, path, "abc", "rol") == once


def test_kinds_and_members_of_a_later_version_are_kept(tmp_path: Path) -> None:
    """Records and members that this version does not know lose the text, and nothing else."""
    data: Payload = {"new_member": "by Ann Lee", "deep": [{"Ann Lee": 1.50}], "n": 2, "interaction_id": "Ann Lee"}
    before = journal_of(("later_kind", data), ("annotation", {"key": "k", "value": 1, "later": "Ann Lee"}))

    after = rewritten(before, tmp_path / "run.jsonl", "Ann Lee")

    assert [one.data for one in read_raw(after) if isinstance(one, RawRecord)] == [
        {"new_member": f"by {MASK}", "deep": [{MASK: 1.50}], "n": 2, "interaction_id": "Ann Lee"},
        {"key": "k", "value": 1, "later": MASK},
    ]


def test_damaged_lines_are_kept_without_the_text(tmp_path: Path) -> None:
    """A line with a wrong CRC, bytes before a record, and the line that was cut off are edited as texts."""
    whole = line(1, "annotation", {"key": "k", "value": "Ann Lee"})
    damaged = whole.replace(b'"k"', b'"j"')
    cut = line(3, "annotation", {"key": "k", "value": "by Ann Lee"})[:-40]
    before = damaged + b"\0\0Ann Lee\0" + GAP + cut

    after = rewritten(before, tmp_path / "run.jsonl", "Ann Lee")

    mask = MASK.encode()
    assert b"Ann" not in after
    assert after.startswith(
        damaged.replace(b"Ann Lee", mask)
        + b"\0\0"
        + mask
        + b"\0"
        + line(2, "gap", {"time": None, "what": "a", "why": "b"})
    )
    assert after.endswith(b"\n")


def test_a_placeholder_of_a_large_string_stays(tmp_path: Path) -> None:
    """A text that is a part of a placeholder is removed from the string, and not from the placeholder."""
    items: list[tuple[str, Payload]] = [
        ("item", {"s": 3, "value": "a long string:3 text"}),
        ("item", {"n": 8, "strings": {"@string:3": 3}, "value": {"role": "user", "content": "@string:3"}}),
    ]

    after = rewritten(journal_of(*items), tmp_path / "run.jsonl", "string:3")

    assert [one.data for one in read_raw(after) if isinstance(one, RawRecord)] == [
        {"s": 3, "value": f"a long {MASK} text"},
        items[1][1],
    ]


def test_agents_stay_apart(tmp_path: Path) -> None:
    """Two agents whose ids become equal keep different ids, in all of their records."""
    members = [
        {"step_id": f"s{number}", "step_number": 1, "agent_id": name}
        for number, name in enumerate(["Ann Lee", "Ann Lee", "Ann%20Lee"])
    ]
    before = journal_of(*(("step_start", one) for one in members))

    after = rewritten(before, tmp_path / "run.jsonl", "Ann Lee")

    assert [one.data["agent_id"] for one in read_raw(after) if isinstance(one, RawRecord)] == [MASK, MASK, f"{MASK} 2"]


def test_a_line_of_another_writer_is_read(tmp_path: Path) -> None:
    """A record whose members are in another form is written in ours."""
    from zlib import crc32  # noqa: PLC0415

    head = b'{"seq":1, "time":"2025-06-12T22:05:46+00:00","kind":"annotation","data": {"key":"k","value":"Ann Lee"}'
    after = rewritten(head + b',"crc":"%08x"}\n' % crc32(head), tmp_path / "run.jsonl", "Ann Lee")

    assert [one.data for one in read_raw(after) if isinstance(one, RawRecord)] == [{"key": "k", "value": MASK}]


def test_every_own_text_of_a_fact_is_structure_or_a_text() -> None:
    """A new own member of a fact must be looked at: either it is in STRUCTURE, or changing it harms no reader."""
    texts = {name for kind in KINDS.values() for name, hint in hints_of(kind).items() if "str" in str(hint)}
    texts &= {name for kind in KINDS.values() for name in kind.__struct_fields__}

    assert texts - STRUCTURE == {
        *("agent", "agent_id", "parent_agent_id", "call_id", "name", "key", "model", "provider", "rules", "state"),
        *(
            "session",
            "host",
            "recorder",
            "python",
            "platform",
            "server",
            "items",
            "strings",
            "ended_by",
            "error",
            "metadata",
            "task",
        ),
        *("type", "message", "what", "why", "url", "headers", "text", "base64", "explanation", "reflection"),
        *("response_headers", "subprotocol", "reason"),
    }


def test_a_recorded_run_is_counted(tmp_path: Path) -> None:
    """The counts have the records, the damaged lines, and what the first and the last records say."""
    journal = rich_run(tmp_path / "run.json").with_suffix(".jsonl")
    rewriting = RewrittenJournal(journal, RemovedTexts(["hello"]))
    assert json.loads([*rewriting.lines()][-1])["kind"] == "finalize"

    counts = rewriting.counts
    records = len(journal.read_bytes().splitlines())
    assert (counts.records, counts.last_seq, counts.damaged, counts.has_end, counts.removals) == (
        records,
        records,
        0,
        True,
        0,
    )
    assert dict(+counts.places) == {"item": 1}
