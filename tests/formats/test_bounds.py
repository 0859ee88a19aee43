"""The cost of a hostile file: memory and time are bounded, and omitted parts are named as gaps."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.formats.files import facts_in, runs_of
from tests.formats.memory import measured
from tests.formats.zip_files import DEFLATED, STORED, ZSTD, zip_of
from trace_recorder import TrajectoryFormatError, TrajectoryRecorder, load
from trace_recorder.facts import GapFact
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory
from trace_recorder.formats.foreign_runs.run import ForeignRun, TimedFact
from trace_recorder.formats.foreign_runs.source import MAX_VALUES, Source
from trace_recorder.formats.foreign_runs.sqlite_file import open_database
from trace_recorder.formats.foreign_runs.zip_archive import Archive, MemberError
from trace_recorder.formats.recognition import read_foreign_runs
from trace_recorder.formats.spans.otlp_files import read_console
from trace_recorder.values.json_text import NotJsonError, check_depth
from trace_recorder.values.messages import Message

MB = 1024 * 1024
HEADER = {"eval": {"task": "t", "model": "m"}, "status": "success"}


def session(turns: int = 2) -> Iterator[bytes]:
    """Yield the lines of a session of Claude Code."""
    for turn in range(turns):
        for role, content in (("user", "q"), ("assistant", [{"type": "text", "text": "a"}])):
            message = {"role": role, "content": content, "id": f"m{turn}"}
            line = {"type": role, "uuid": f"{role}{turn}", "sessionId": "s", "message": message}
            yield json.dumps(line).encode() + b"\n"


def whys(run: ForeignRun) -> list[tuple[str, str]]:
    return [(event.what, event.why) for event in facts_in(run, GapFact)]


def test_a_line_of_400_megabytes_costs_no_memory_and_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = [*session()]
    with path.open("wb") as file:
        file.writelines(lines[:2])
        file.truncate(file.tell() + 400 * MB)  # a hole in the file, which reads as NULs
        file.seek(0, 2)
        file.writelines([b"\n", *lines[2:]])

    found = measured(path)

    assert found["gaps"] == ["line 3: it is longer than 67108864 bytes"]
    assert found["calls"] == 2
    assert found["peak"] < 200 * MB


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (b"[" * MB, "it has more than 5000000 values"),
        (b'[{},{},{},"', "it has more than 5000000 values"),
        (b'{"a":', "it has more than 5000000 values"),
        (b'"\\"', "it is not JSON"),
    ],
)
def test_a_line_of_very_many_values_is_a_gap(tmp_path: Path, piece: bytes, why: str) -> None:
    path = tmp_path / "session.jsonl"
    with path.open("wb") as file:
        file.writelines([*session(), piece * (40 * MB // len(piece)), b"\n"])

    found = measured(path)

    assert [gap[: len("line 5: ") + len(why)] for gap in found["gaps"]] == [f"line 5: {why}"]
    assert found["peak"] < 250 * MB


def test_a_document_of_very_many_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    path.write_bytes(b'{"resourceSpans":[' + b"{}," * (10 * MB) + b"{}]}")

    found = measured(path)

    assert "it has more than 5000000 values" in found["error"]
    assert found["peak"] < 150 * MB


def test_a_document_beyond_the_limit_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    with path.open("wb") as file:
        file.write(b'{"resourceSpans":[')
        file.truncate(300 * MB)

    found = measured(path)

    assert "it is longer than 268435456 bytes, the most that is read of a document" in found["error"]
    assert found["peak"] < 200 * MB


def test_a_file_of_lines_is_not_read_as_a_document(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with path.open("wb") as file:
        file.writelines([*session(), b'{"type":"progress","data":"' + b"x" * 30 * MB + b'"}\n'])
        file.writelines(b'{"type":"progress","data":1}\n' for _ in range(3))
    source = Source(path, max_document_bytes=1)
    assert source.document is None
    assert source.why_no_document == "it is not JSON (Extra data: a second line)"
    assert len(list(read_foreign_runs(source))) == 1


def test_lines_beyond_the_limit_of_a_run_are_one_gap(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(session(100)))

    (run,) = read_foreign_runs(Source(path, max_run_bytes=50_000))

    ((what, why),) = whys(run)
    assert what.startswith("line ")
    assert "this line and all later lines are left out: the earlier lines take 50000 bytes in memory" in why
    assert not whys(*read_foreign_runs(Source(path)))


def test_a_file_with_a_run_in_each_line_has_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    path.write_text(f"{json.dumps(row)}\n" * 100)

    assert len(list(read_foreign_runs(Source(path, max_run_bytes=1000)))) == 100


@pytest.mark.parametrize("text", ['"' + '\\"' * 1_000_000, "[" * 2_000_000, "[]" * 1_000_000, '"[' * 1_000_000])
def test_the_depth_of_any_text_is_found_in_linear_time(text: str) -> None:
    """A text of any content is checked for nesting in linear time. A repeated search would take hours."""
    try:
        check_depth(text + "[" * 600, 250)
    except NotJsonError as error:
        assert "nested more than 250 levels" in str(error)  # noqa: PT017 - a text that ends in a string has no depth


def test_concatenated_objects_are_read_in_linear_time(tmp_path: Path) -> None:
    """A search through the rest of the file for each object would take hours."""
    span = {"name": "s", "context": {"trace_id": "0x1", "span_id": "0x2"}, "kind": "SpanKind.CLIENT", "status": {}}
    path = tmp_path / "spans.txt"
    path.write_text(json.dumps(span, indent=1) + "{}" * 300_000)

    assert len(list(read_console(Source(path)))) == 1


def test_unanswered_prompts_are_read_in_linear_time() -> None:
    """A search through all prompts for each prompt would take minutes."""
    history = AgentHistory([])
    for number in range(100_000):
        history.add(Message("user", f"{number}"), "")
    history.finish()

    [annotation] = history.events
    assert isinstance(annotation, TimedFact)
    assert len(annotation.fact.value) == 100_000


@pytest.mark.parametrize("method", [DEFLATED, ZSTD])
def test_a_decompression_bomb_is_refused_without_reading_it(tmp_path: Path, method: int) -> None:
    path = tmp_path / "log.eval"
    bomb = b'{"messages":"' + b"x" * 160 * MB + b'"}'
    path.write_bytes(zip_of({"header.json": json.dumps(HEADER).encode(), "samples/1_epoch_1.json": bomb}, method))
    assert path.stat().st_size < 1 * MB

    found = measured(path)

    (gap,) = found["gaps"]
    assert "it decompresses to" in gap
    assert found["peak"] < 100 * MB


@pytest.mark.parametrize("method", [DEFLATED, ZSTD])
def test_a_decompression_bomb_that_lies_about_its_size_is_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "log.eval"
    members = {"header.json": json.dumps(HEADER).encode(), "samples/1_epoch_1.json": b" " * 160 * MB}
    path.write_bytes(zip_of(members, method, {"samples/1_epoch_1.json": 1000}))

    found = measured(path)

    assert "it is damaged" in found["gaps"][0]
    assert found["peak"] < 100 * MB


def test_members_that_share_their_bytes_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(zip_of({"header.json": json.dumps(HEADER).encode(), "a": b"x" * MB}, STORED))
    archive = Archive(path, 100 * MB)
    archive.read("a")
    archive.read("a")

    with pytest.raises(MemberError, match="they share their data"):
        archive.read("a")


def database(path: Path, column: str) -> None:
    with closing(sqlite3.connect(path)) as made, made:
        made.execute(f"create table responses (id, model, prompt, response, conversation_id, {column})")
        made.executemany(
            "insert into responses (id, model, response) values (?, 'm', 'a')", [[f"{n}"] for n in range(200)]
        )


def test_a_computed_column_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    database(path, "options_json text generated always as (hex(zeroblob(15000000)))")

    found = measured(path)

    assert (found["calls"], found["error"]) == (200, None)
    assert found["peak"] < 100 * MB


def test_rows_with_more_bytes_than_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    database(path, "options_json")
    with open_database(Source(path)) as found:
        found.bytes_left = 100
        with pytest.raises(TrajectoryFormatError, match="more bytes than its file"):
            list(found.rows("responses"))


@pytest.mark.parametrize("data", [b"", b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 9000, b"x" * 2 * MB])
def test_nonsense_is_refused_with_a_reason(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file.db"
    path.write_bytes(data)

    with pytest.raises(TrajectoryFormatError, match=r"file\.db"):
        load(path)
    with pytest.raises(TrajectoryFormatError, match=r"has an unknown format|cannot be read as a database"):
        runs_of(path)


def test_a_document_of_ours_has_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, task="t", metadata={"large": "?"}) as recorder:
        recorder.record_agent_step(1, "done")
    path.with_suffix(".jsonl").unlink()
    values = MAX_VALUES + 1
    path.write_bytes(path.read_bytes().replace(b'"?"', b"[" + b"1," * values + b"1]"))

    assert len(load(path).metadata["large"]) == values + 1
