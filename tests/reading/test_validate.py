"""Validation: complete files have no findings, and each change, loss or contradiction is found at its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.recorded import ASK, by_hand, captured, chunks, client_of, in_deltas, in_flight, poisoned, streamed
from tests.data.written import Writing, asked, change, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.reading.document import from_document
from trace_recorder.reading.validate import Finding, Report, validate
from trace_recorder.values.messages import Payload

DIFFERS = "differs from the response that its stream gives"
UNPACKED = "its stream is missing, or cannot be unpacked"
GOES_ON = Finding("note", "journal", "the run has no end on file: it is still running, or it was killed")


def errors(report: Report) -> list[tuple[str, str]]:
    """Return the place and the text of each error."""
    return [(finding.where, finding.what) for finding in report.findings if finding.severity == "error"]


def small(path: Path) -> Path:
    """Return a finished run of two calls, one of them streamed, without a document."""
    writing = Writing(path)
    writing.request(1, asked(ASK))
    writing.response(1, body=said("hi"))
    writing.request(
        2, asked(ASK, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "so"}, stream=True)
    )
    writing.stream(2, b"".join(chunks("o", "k")).decode())
    assembled = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "ok"}}]}
    writing.response(2, stream=True, chunks=3, assembled={"id": "c", "model": "m", **assembled})
    writing.add("finalize", status="completed", success=True, final_result=None, execution_time=9.0)
    writing.journal.close()
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the journal of such a run."""
    return small(tmp_path / "run.jsonl")


@pytest.mark.parametrize("run", [captured, in_deltas, by_hand])
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_recorded_run_has_no_findings(run: Callable[[Path], Path], suffix: str, tmp_path: Path) -> None:
    """Captured runs and runs recorded by hand are valid, whichever of their files is named."""
    path = run(tmp_path).with_suffix(suffix)

    report = validate(path)

    lines = path.with_suffix(".jsonl").read_bytes().count(b"\n")
    assert report == Report(path, (), records=lines, interactions=report.interactions)


def test_a_retry_that_is_open_when_the_run_ends_is_valid(tmp_path: Path) -> None:
    """The open call and its newest attempt have no duration."""
    writing = Writing(tmp_path / "run.jsonl")
    for call, attempt in ((1, 0), (1, 1), (2, 0)):
        writing.request(call, asked(ASK), attempt=attempt)
        writing.response(call, attempt, body=said("hi"), status=200 if attempt else 500)
    writing.request(2, asked(ASK), attempt=1)
    writing.add("finalize", status="completed", success=True, final_result=None, execution_time=9.0)
    writing.journal.close()
    (tmp_path / "run.json").write_text(json.dumps(load(tmp_path / "run.jsonl").to_document()))

    assert validate(tmp_path / "run.json").findings == ()


def test_a_recorded_gap_is_a_note(tmp_path: Path) -> None:
    """A gap that the recorder wrote is reported, and is not an error."""
    [note] = validate(poisoned(tmp_path)).findings

    assert (note.severity, note.where.split()[-1]) == ("note", "(gap)")


def test_a_run_without_an_end_has_only_notes(tmp_path: Path) -> None:
    """The notes on a killed run are that it has no end, and how many records its document covers."""
    behind = Finding("note", "document", "it covers 1 of 4 records; `recover` completes it")
    assert validate(in_flight(tmp_path)).findings == (GOES_ON, behind)


@pytest.mark.parametrize("kind", ["openai-key", "intra42-secret", "mem0-key"])
def test_a_secret_that_a_stream_spells_over_several_events_is_no_difference(kind: str, tmp_path: Path) -> None:
    """Such a secret is masked in the assembled response only."""

    def masked(fields: dict[str, Payload]) -> None:
        if fields["kind"] == "llm_response" and fields["data"].get("assembled"):
            fields["data"]["assembled"]["choices"][0]["message"]["content"] = f"[REDACTED:{kind}]k"

    change(small(tmp_path / "run.jsonl"), masked)

    assert errors(validate(tmp_path / "run.jsonl")) == []


@pytest.mark.parametrize("covered", [-1, 1.0, "1", None, True, {"__type__": "int", "repr": "1"}])
def test_a_number_of_records_that_is_no_count_is_an_error(covered: Payload, tmp_path: Path) -> None:
    path = captured(tmp_path).with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "journal_records": covered}))

    assert [(where, what.split(".")[0].split(":")[0]) for where, what in errors(validate(path))] == [
        ("document", "journal_records")
    ]


@given(cut=st.integers(min_value=1, max_value=6000))
def test_no_prefix_of_a_journal_has_errors(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A journal that is cut after its first record has only notes: of its torn line, and of the missing end."""
    path = small(tmp_path_factory.mktemp("cut") / "run.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])

    nothing = [("journal", "it has no complete record")]
    assert errors(validate(path)) == ([] if cut > whole.index(b"\n") else nothing)


@given(place=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_every_changed_bit_is_found(place: int, bit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A changed bit anywhere before the end of the last line is an error."""
    path = small(tmp_path_factory.mktemp("bit") / "run.jsonl")
    content = bytearray(path.read_bytes())
    content[place % (len(content) - 1)] ^= 1 << bit
    path.write_bytes(content)

    assert not validate(path).ok


def test_a_damaged_line_is_reported_with_the_calls_that_need_it(journal: Path) -> None:
    """A damaged item record affects the calls that use it, which are named."""
    lines = journal.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"hello", b"jello")
    journal.write_bytes(b"\n".join(lines))

    unusable = "it cannot be put together: a record that it needs is damaged or missing"
    assert errors(validate(journal)) == [
        (f"journal, byte {len(lines[0]) + 1}", f"{len(lines[1])} bytes: not a record, or its CRC does not match"),
        ("journal, record 3 (llm_request)", "missing before it: record 2"),
        ("journal, record 3 (llm_request)", unusable),
        ("journal, record 7 (llm_request)", unusable),
    ]


def test_a_torn_last_line_is_a_note(journal: Path) -> None:
    """The line that a killed process was writing is reported, and is not an error."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:-1], b'{"seq":10,"ti']))

    torn = Finding(
        "note", f"journal, byte {sum(map(len, lines[:-1]))}", "13 bytes: the file ends in the middle of a record"
    )
    no_document = Finding("note", "document", "there is no run.json next to the journal")
    assert validate(journal).findings == (torn, GOES_ON, no_document)


def without(*numbers: int) -> Callable[[dict[str, Payload]], object]:
    """Remove records."""
    return lambda record: record["seq"] not in numbers


def renumbered(record: dict[str, Payload]) -> None:
    """Give the seventh record the number of the sixth."""
    record["seq"] -= record["seq"] == 7


def retold(record: dict[str, Payload]) -> None:
    """Change the assembled response."""
    if "assembled" in record["data"]:
        record["data"]["assembled"]["choices"][0]["message"]["content"] = "no"


def garbled(record: dict[str, Payload]) -> None:
    """Make the stream undecodable."""
    if record["kind"] == "llm_stream":
        record["data"]["zlib"] = "AAAA"


def misshaped(record: dict[str, Payload]) -> None:
    """Give the first response an invalid status."""
    if record["seq"] == 4:
        record["data"]["status"] = "200"


def of_another_kind(record: dict[str, Payload]) -> None:
    """Give the end of the run a kind that the fold cannot use."""
    if record["kind"] == "finalize":
        record.update(kind="reward", data={"reward": 1})


def dreamt(record: dict[str, Payload]) -> None:
    """Give the end of the run an unknown kind."""
    if record["kind"] == "finalize":
        record["kind"] = "dream"


def newer(record: dict[str, Payload]) -> None:
    """Give the journal the next version."""
    if record["kind"] == "start":
        record["data"]["version"] = 2


def cut_elsewhere(record: dict[str, Payload]) -> None:
    """End a stream's last chunk before its end."""
    if record["kind"] == "llm_stream":
        record["data"]["chunk_ends"] = "1"
        record["data"]["chunk_times"] = "A"


CHANGES = [
    (without(5, 6), "record 7 (llm_request)", "missing before it: records 5 to 6"),
    (without(3), "record 4 (llm_response)", "missing before it: record 3"),
    (renumbered, "record 6 (llm_request)", "its number is not greater than 6, the number of the record before it"),
    (retold, "record 9 (llm_response)", f"the assembled response {DIFFERS}"),
    (garbled, "record 9 (llm_response)", UNPACKED),
    (cut_elsewhere, "record 9 (llm_response)", "the sizes and times of its stream's chunks do not fit the stream"),
    (misshaped, "record 4 (llm_response)", "data.status: an integer is expected"),
    (of_another_kind, "record 10 (reward)", "data.name: it is missing"),
]


@pytest.mark.parametrize(("edit", "where", "what"), CHANGES)
def test_a_carefully_changed_journal_is_detected(
    edit: Callable[[dict[str, Payload]], object], where: str, what: str, journal: Path
) -> None:
    """If every CRC is right, a missing, doubled, misdirected or contradictory record is still reported."""
    change(journal, edit)

    assert errors(validate(journal))[0] == (f"journal, {where}", what)


def test_a_lost_stream_or_request_is_reported(journal: Path) -> None:
    """A lost stream or request leaves only a gap in the numbers. The call that lacks it is named."""
    change(journal, without(3, 8))

    assert errors(validate(journal)) == [
        ("journal, record 4 (llm_response)", "missing before it: record 3"),
        ("journal, record 9 (llm_response)", "missing before it: record 8"),
        ("journal, record 4 (llm_response)", "the request of llm_1 is missing"),
        ("journal, record 9 (llm_response)", UNPACKED),
    ]


def test_a_record_of_a_later_version_is_a_note(journal: Path) -> None:
    """A record of an unknown kind is skipped and reported."""
    change(journal, dreamt)

    dream = Finding("note", "journal, record 10 (dream)", "a record of a kind that this version does not know")
    assert validate(journal).findings[0] == dream


@pytest.mark.parametrize("content", [b"no journal\n\n1\n", b"\0" * 20 + b"\n"])
def test_a_file_without_a_record_is_not_a_journal(content: bytes, journal: Path) -> None:
    """The fault is reported once, and not for each line."""
    journal.write_bytes(content)

    assert validate(journal).findings == (Finding("error", "journal", "no line is a record of this package"),)


def test_a_journal_of_a_newer_version_is_not_checked(journal: Path) -> None:
    """The only finding is that the journal is newer."""
    change(journal, newer)

    told = Finding("error", "journal", "it has version 2, and 1 is the newest that this version knows")
    assert validate(journal) == Report(journal, (told,), records=10)


def test_an_empty_journal_is_incomplete(journal: Path) -> None:
    """A process may have been killed before its first record, so the file has no record of the run."""
    journal.write_bytes(b"")

    assert errors(validate(journal)) == [("journal", "it has no complete record")]


def test_a_secret_over_several_events_may_be_masked_only_in_the_assembly(tmp_path: Path) -> None:
    """The assembled response is masked, but no single event of the stream shows a secret. This is no contradiction."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        client = client_of(
            recorder, lambda _: streamed(*chunks("the key is sk-abcdefghij", "klmnopqrst0123456789", "."))
        )
        client.post("https://api.openai.com/v1/chat/completions", json=asked(ASK, stream=True))

    assert b"the key is [REDACTED:openai-key]." in path.read_bytes()
    assert validate(path).findings == ()


# ── the document ─────────────────────────────────────────────────────────────────────────────────────────────────────


def rewritten(path: Path, edit: Callable[[dict[str, Payload]], object]) -> None:
    """Change a document."""
    document = json.loads(path.read_bytes())
    edit(document)
    path.write_text(json.dumps(document))


DOCUMENTS = [
    (lambda one: one.update(success=False), "it differs from the journal: success"),
    (lambda one: one["metrics"].update(attempts=5.0), "it differs from the journal: metrics.attempts"),
    (
        lambda one: one["llm_interactions"][2]["response"].update(content="?"),
        "it differs from the journal: llm_interactions[2].response.content",
    ),
    (lambda one: one["agent_steps"].pop(), "it differs from the journal: agent_steps"),
    (
        lambda one: one["rewards"][0].update(name=7),
        "it is a damaged trajectory document: TypeError: name is int, and must be str",
    ),
]


@pytest.mark.parametrize(("edit", "what"), DOCUMENTS)
def test_a_document_that_differs_from_its_journal_is_found(
    edit: Callable[[dict[str, Payload]], object], what: str, tmp_path: Path
) -> None:
    """The first member that differs from the journal is named. An impossible value is named before it."""
    path = captured(tmp_path)
    rewritten(path, edit)

    assert errors(validate(path))[0] == ("document", what)


@pytest.mark.parametrize("changes", [{"schema_version": 2}, {"llm_interactions": None}, {"rewards": [{"sum": 1}]}])
def test_an_unreadable_document_is_an_error(changes: dict[str, Payload], tmp_path: Path) -> None:
    """A document that `load` refuses, for example of a newer version, is reported with the message of `load`."""
    path = captured(tmp_path)
    rewritten(path, lambda document: document.update(changes))
    with pytest.raises(TrajectoryFormatError) as refused:
        from_document(json.loads(path.read_bytes()), "it")

    assert errors(validate(path)) == [("document", str(refused.value))]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b'{"llm_interactions": [NaN]}', "NaN is not JSON"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_a_document_that_is_not_json_is_an_error(content: bytes, why: str, tmp_path: Path) -> None:
    """Half a document, a document in another encoding, and a document with NaN are not JSON."""
    path = captured(tmp_path)
    path.write_bytes(content)

    assert errors(validate(path)) == [("document", f"it is not JSON: {why}")]


def test_a_document_without_a_journal_is_checked_by_its_schema(tmp_path: Path) -> None:
    """A document is checked by its schema if it has no journal."""
    path = captured(tmp_path)
    path.with_suffix(".jsonl").unlink()

    assert validate(path) == Report(path, ())


def test_a_journal_without_a_document_gets_a_note(tmp_path: Path) -> None:
    """A missing document is not an error, because it can be derived from the journal."""
    path = captured(tmp_path)
    path.unlink()

    note = Finding("note", "document", "there is no captured.json next to the journal")
    assert validate(path).findings == (note,)


def test_a_document_of_another_writer_gets_a_note(tmp_path: Path) -> None:
    """A document with the members of the format, but without our additions, is read and not checked further."""
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"task": "t", "llm_interactions": [], "agent_steps": []}))

    note = Finding("note", "document", "it has no schema_version: it was not written by this package")
    assert validate(path).findings == (note,)


def test_a_missing_file_raises(tmp_path: Path) -> None:
    """`validate` raises the system's error for a missing file."""
    with pytest.raises(FileNotFoundError):
        validate(tmp_path / "none.json")
