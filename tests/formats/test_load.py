"""Reading any file of a run, finished or not, complete or not. Other files are refused with a reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import rich_run
from tests.counting import arguments_of
from tests.journals import journal_of, line, records_of
from tests.json_strategies import json_values
from tests.processes import ROOT
from tests.searching import part_of
from trace_recorder import Trajectory, TrajectoryFormatError, TrajectoryRecorder, load
from trace_recorder.reading.interactions import interaction_of
from trace_recorder.storage.journal_reader import read_records
from trace_recorder.values.messages import Payload


def started(**about: Payload) -> bytes:
    return journal_of(("start", {"schema": "trace-recorder/journal", "version": 1, "task": "x"} | about))


def test_a_journal_cut_at_any_byte_is_a_trajectory(tmp_path: Path) -> None:
    """A journal that is cut at any byte loads with its first interactions. The ended ones are complete.

    CI cuts at each end of a line, and between them at every ninth byte.
    """
    path = rich_run(tmp_path / "run.json").with_suffix(".jsonl")
    data = path.read_bytes()
    line_ends = [place for place, byte in enumerate(data, 1) if byte == ord("\n")]
    full = load(path).to_document()["llm_interactions"]
    ends = [one.offset + one.length for one in read_records(data) if one.kind in ("llm_response", "llm_interaction")]  # type: ignore[union-attr]

    boundaries = {end + more for end in line_ends for more in (-1, 0, 1) if end + more <= len(data)}
    for length in sorted({*part_of(range(len(data) + 1), 9), *boundaries}, reverse=True):
        os.truncate(path, length)
        document = load(path).to_document()
        seen = document["llm_interactions"]
        ended = sum(end <= length for end in ends)
        assert [one["interaction_id"] for one in seen] == [one["interaction_id"] for one in full[: len(seen)]], length
        assert seen[:ended] == full[:ended], length
        told = [gap["what"] for gap in document["gaps"]]
        assert told.count("lines of the journal") == (length < len(data) - 1), length
        assert len(told) <= 2, length


def test_any_line_of_a_journal_may_be_damaged(tmp_path: Path) -> None:
    """A flipped bit in any line, even the first, never makes the file unreadable. The gaps name a damaged line."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="t", strict=True)
    recorder.record_agent_step(1, "thinking")
    recorder.annotate("k", 1)
    recorder.finalize(success=True)
    path = recorder.trajectory_path.with_suffix(".jsonl")
    data = path.read_bytes()

    outcomes = set()
    for one in records_of(recorder.trajectory_path):
        for at in (one.offset, one.offset + one.length // 2, one.offset + one.length - 1):
            path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            outcomes.add(tuple(gap.what for gap in load(path).gaps))

    assert outcomes == {("a damaged line of the journal",)}


# ── the status ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unfinished_run_is_running(tmp_path: Path) -> None:
    """While a recorder has the journal's lock, a run without an end is running, read from either of its files."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()

    statuses = [
        load(path).status for path in (recorder.trajectory_path, recorder.trajectory_path.with_suffix(".jsonl"))
    ]

    recorder.finalize()
    assert statuses == ["running", "running"]


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path: Path) -> None:
    """After kill -9 the document still says "running", but `load` says "interrupted"."""
    code = "import sys, os, signal; from trace_recorder import TrajectoryRecorder\n"
    code += "TrajectoryRecorder(sys.argv[1], task='t').start(); os.kill(os.getpid(), signal.SIGKILL)"
    ended = subprocess.run([sys.executable, "-c", code, tmp_path / "run.json"], cwd=ROOT, check=False)

    document = json.loads((tmp_path / "run.json").read_text())
    assert (ended.returncode, document["status"], load(tmp_path / "run.json").status) == (
        *(-signal.SIGKILL, "running", "interrupted"),
    )


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ({"status": "completed", "success": True}, "completed"),
        ({"status": "failed", "success": False, "error": {"type": "E", "message": "m"}}, "failed"),
        ({"status": "interrupted"}, "interrupted"),
    ],
)
def test_a_run_with_an_end_has_the_recorded_status(tmp_path: Path, ending: Payload, expected: str) -> None:
    """The last record decides, whatever lock and writer there are."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(started(host="elsewhere") + line(2, "finalize", ending))

    assert load(path).status == expected


def test_a_run_of_another_host_without_an_end_is_unknown(tmp_path: Path) -> None:
    """A free lock on this host says nothing about a process on another host."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(started(host="elsewhere"))

    assert load(path).status == "unknown"


def test_a_document_without_its_journal_is_never_running(tmp_path: Path) -> None:
    """Without the journal it is unknown whether the run is still being recorded."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    (tmp_path / "copy.json").write_bytes(recorder.trajectory_path.read_bytes())

    status = load(tmp_path / "copy.json").status

    recorder.finalize()
    assert status == "unknown"


# ── which file ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_read_from_its_journal(tmp_path: Path) -> None:
    """A document with its journal next to it is read from the journal, by either path, also if the path is a string."""
    path = rich_run(tmp_path / "run.json")
    path.write_text('{"task": "something else", "llm_interactions": []}')

    tasks = [load(one).task for one in (path, str(path), path.with_suffix(".jsonl"))]

    assert tasks == ["mend it"] * 3


def test_a_document_without_its_journal_has_all_but_raw_requests(tmp_path: Path) -> None:
    """A document alone loads to a trajectory that gives the same document, without raw requests."""
    path = rich_run(tmp_path / "run.json")
    from_journal = load(path).to_document()
    path.with_suffix(".jsonl").unlink()

    trajectory = load(path)

    assert trajectory.to_document() == from_journal
    assert {(call.raw_request, call.raw_response, call.raw_stream) for call in trajectory.llm_interactions} == {
        (None,) * 3
    }


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    """A path without a file raises Python's FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "run.json")


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.jsonl", journal_of(("start", {"version": 2, "schema": "trace-recorder/journal"}), ("new", {}))),
        ("run.json", b'{"llm_interactions": [], "schema_version": 2}'),
    ],
)
def test_a_newer_version_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """A file that only a later version can read is refused, with a message that says what to do."""
    (tmp_path / name).write_bytes(content)

    with pytest.raises(TrajectoryFormatError, match=rf"{name} .*version 2.*up to 1. Install a newer trace_recorder"):
        load(tmp_path / name)


NONE = (
    *(
        b"",
        b"{",
        b"[]",
        b"5",
        b"null",
        b"hello",
        b"<html>",
        b"\xff\xfe\x00",
        b'{"a": 1}',
        b"[" * 100_000,
        b'{"llm_interactions": 5}',
    ),
    *(
        b'{"llm_interactions": [5]}',
        b'{"llm_interactions": [{"a": 1}]}',
        b'{"llm_interactions": {}}',
        b"\x89PNG\r\n\x1a\n",
    ),
)


@pytest.mark.parametrize("content", NONE, ids=lambda content: str(content[:30]))
def test_a_json_file_that_is_not_a_trajectory_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error names the file and the expected format."""
    (tmp_path / "run.json").write_bytes(content)

    with pytest.raises(TrajectoryFormatError, match=r"run\.json is (not a trajectory|a damaged trajectory document)"):
        load(tmp_path / "run.json")


FOREIGN = (
    *(b"hello\n", b'{"messages": []}\n', b'{"type":"session","version":3}\n{"a":1}\n', b"\x89PNG\r\n\x1a\n" * 20),
    *(b'{"seq":1,"a":2}\n{"seq":2,"a":3}\n', b'{"seq": 1}\n'),
)


@pytest.mark.parametrize("content", FOREIGN, ids=lambda content: str(content[:30]))
def test_a_jsonl_file_that_is_not_a_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file of another tool's lines, even numbered lines, is refused with its name."""
    (tmp_path / "run.jsonl").write_bytes(content)

    with pytest.raises(TrajectoryFormatError, match=r"run\.jsonl is not a journal"):
        load(tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    "content", [b"", bytes(4096), b'{"se', started()[:-20], started()[:-1], bytes(100) + started()], ids=range(6)
)
def test_a_journal_without_a_complete_record_is_a_trajectory(tmp_path: Path, content: bytes) -> None:
    """A process that was killed before its first record was complete leaves a run without facts."""
    (tmp_path / "run.jsonl").write_bytes(content)

    assert load(tmp_path / "run.jsonl").llm_interactions == []


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """The error says that a file in the directory is needed."""
    with pytest.raises(TrajectoryFormatError, match=r"is a directory\. One of the"):
        load(tmp_path)


@given(
    st.sampled_from([".json", ".jsonl"]),
    st.binary(max_size=60) | st.lists(st.sampled_from([*FOREIGN, started(), b"\0"])).map(b"".join),
)
def test_any_bytes_are_a_trajectory_or_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    """For any bytes, `load` returns a trajectory that can be written, or raises its error."""
    path = tmp_path / f"run{suffix}"
    path.write_bytes(content)

    outcome = loaded(path)
    path.unlink()
    assert outcome in {"refused by its name", "usable"}


@given(st.integers(0, 10**9), json_values)
def test_a_document_with_a_wrong_value_is_a_trajectory_or_refused(tmp_path: Path, seed: int, value: Payload) -> None:
    """Whichever value of a document is replaced, the document loads and can be written again, or is refused as
    damaged.
    """
    path = tmp_path / "damaged.json"
    if not (tmp_path / "run.json").exists():
        rich_run(tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_bytes())
    replace_one(document, value, Random(seed))
    path.write_text(json.dumps(document))

    assert loaded(path) in {"refused by its name", "usable"}


def replace_one(inside: Payload, value: Payload, random: Random) -> None:
    key = random.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
    if isinstance(inside[key], dict | list) and inside[key] and random.random() < 0.8:
        replace_one(inside[key], value, random)
    else:
        inside[key] = value


def loaded(path: Path) -> str:
    """Load a file, and read everything of it that a caller might read."""
    try:
        trajectory = load(path)
    except TrajectoryFormatError as error:
        return "refused by its name" if path.name in str(error) else str(error)
    for one in trajectory.llm_interactions:
        repr((one, one.input_messages, one.tools, one.parameters, one.response))
    for step in trajectory.agent_steps:
        repr((step, step.llm_messages))
    json.dumps([trajectory.to_document(), trajectory.to_document("delta")])
    return "usable"


def test_loading_a_run_reads_calls_only_on_demand(tmp_path: Path) -> None:
    """Reading the task and the status reads no call. The calls are read once, at the first use."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, task="t") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "Hi"}], {"content": "Ho"}, "p", "m")
    loaded: list[Trajectory] = []

    acts = (
        lambda: loaded.append(load(path)),
        lambda: (loaded[0].task, loaded[0].status),
        lambda: loaded[0].metrics,
        lambda: (loaded[0].llm_interactions, loaded[0].agent_steps, loaded[0].gaps),
    )
    read = [sum(arguments_of(act, interaction_of, lambda _: 1)) for act in acts]

    assert (read, loaded[0].llm_interactions[0].response.content) == ([0, 0, 1, 0], "Ho")
