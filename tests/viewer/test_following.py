"""Journals that grow, and directories that change: the viewer reads only the new parts again."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.journals import line
from tests.viewer.recorded import growing, record
from trace_recorder import TrajectoryFormatError, TrajectoryRecorder, load
from trace_recorder.cli.list_runs import listing
from trace_recorder.reading.growing_journal import GrowingJournal, ReplacedError
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.open_runs import OpenRun, OpenRuns
from trace_recorder.viewer.parameters import ListRequest
from trace_recorder.viewer.runs import RunList


def test_a_journal_read_in_pieces_gives_the_same_run(tmp_path: Path) -> None:
    """A run read while its journal grows equals the run that `load` reads, and each byte is read once."""
    data = record(tmp_path / "whole.json", growing(3)).with_suffix(".jsonl").read_bytes()
    path = tmp_path / "grown.jsonl"
    path.touch()
    journal = GrowingJournal(path)
    for at in range(0, len(data), 997):
        with path.open("ab") as file:
            file.write(data[at : at + 997])
            file.flush()
            os_lock(file.fileno())
            journal.read_more()

    assert RunAnswers(journal.trajectory()).outline() == RunAnswers(load(path)).outline()
    assert journal.read_more() is False


def test_tools_before_the_first_step_are_shown_as_in_the_whole_run(tmp_path: Path) -> None:
    """Tools before the agent's first step have the same place whether the run was read at once or while it grew."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        journal = GrowingJournal(tmp_path / "run.jsonl")
        for name in ("search", "read"):
            with recorder.tool_call(name, {}, name):
                pass
            recorder.record_llm_interaction([{"role": "user", "content": name}], {"content": "a"}, "p", "m")
        journal.read_more()
        assert [step.derived for step in journal.trajectory().agent_steps] == [True, True, True]
        with recorder.step(), recorder.tool_call("write", {}, "write"):
            pass
        journal.read_more()

        steps = journal.trajectory().agent_steps
        assert [step.to_document() for step in steps] == [
            step.to_document() for step in load(tmp_path / "run.json").agent_steps
        ]


def os_lock(fd: int) -> None:
    """Lock the file as a writer does, so that the reader waits for the rest of a half-written line."""
    from trace_recorder.storage.file_system import lock

    assert lock(fd) is not False


def test_an_incomplete_line_waits_while_there_is_a_writer(tmp_path: Path) -> None:
    """While a writer has the file, half a line is ignored until it is complete. Without a writer, the line is torn."""
    data = record(tmp_path / "whole.json", growing(1)).with_suffix(".jsonl").read_bytes()
    path = tmp_path / "run.jsonl"
    path.write_bytes(data[:-20])
    journal = GrowingJournal(path)
    with path.open("ab") as file:
        os_lock(file.fileno())
        journal.read_more()
        assert journal.fold.run.torn is None
        file.write(data[-20:])
        file.flush()
        assert journal.read_more() is True

    assert journal.status == "completed"
    path.write_bytes(data[:-20])
    torn = GrowingJournal(path)
    torn.read_more()
    assert torn.trajectory().gaps == load(path).gaps


@pytest.mark.parametrize("reads", [1, 2])
def test_a_line_after_a_torn_line_causes_a_new_reading(reads: int, tmp_path: Path) -> None:
    """If a record is appended after a torn line, the whole run is read again, and has the same gaps as in `load`."""
    data = record(tmp_path / "whole.json", growing(1)).with_suffix(".jsonl").read_bytes()
    path = tmp_path / "run.jsonl"
    path.write_bytes(data[:-20])
    run = OpenRun(path, "run.jsonl")
    for _ in range(reads):
        run.refresh()
    with path.open("ab") as file:
        file.write(b"\n" + line(99, "annotation", {"key": "k", "value": 1}))
    before = run.version
    run.refresh()

    assert run.version.partition(".")[0] != before.partition(".")[0]
    assert run.answers.trajectory.gaps == load(path).gaps


@pytest.mark.parametrize("how", ["shorter", "another"])
def test_a_replaced_journal_is_noticed(tmp_path: Path, how: str) -> None:
    """A journal that became shorter, or that was replaced by another file, is read from its beginning."""
    path = record(tmp_path / "run.json", growing(2)).with_suffix(".jsonl")
    journal = GrowingJournal(path)
    journal.read_more()
    data = path.read_bytes()
    if how == "shorter":
        os.truncate(path, 100)
    else:
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").replace(path)

    with pytest.raises(ReplacedError):
        journal.read_more()


def test_a_file_that_is_not_a_journal_is_refused(tmp_path: Path) -> None:
    """Opening a file that is not a journal raises the same error as `load`."""
    path = tmp_path / "run.jsonl"
    path.write_text('{"hello": 1}\n')

    with pytest.raises(TrajectoryFormatError):
        GrowingJournal(path).read_more()


def test_a_document_without_a_journal_is_read_again_if_it_changed(tmp_path: Path) -> None:
    """A document without a journal is loaded again if the document has changed."""
    path = record(tmp_path / "run.json", growing(1))
    path.with_suffix(".jsonl").unlink()
    run = OpenRun(path, "run.json")
    run.refresh()
    before = run.version
    run.refresh()
    assert run.version == before

    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "task": "another one"}))
    run.refresh()
    assert run.outline()["run"]["task"] == "another one"


def test_only_the_newest_runs_stay_open(tmp_path: Path) -> None:
    """A run that was closed to make room for other runs is read again when it is opened."""
    names = [f"run{number}.json" for number in range(3)]
    for name in names:
        record(tmp_path / name, growing(1))
    runs = OpenRuns(most=2)
    first = runs.open(tmp_path / names[0], names[0])
    assert runs.open(tmp_path / names[0], names[0]) is first
    for name in names[1:]:
        runs.open(tmp_path / name, name)

    assert runs.open(tmp_path / names[0], names[0]) is not first


def test_an_incomplete_call_states_its_reason(tmp_path: Path) -> None:
    """An unanswered call is in flight while the writer runs.

    When the writer is gone, only the entry of this call changes.
    """
    lines = record(tmp_path / "whole.json", growing(2)).with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
    last = max(at for at, one in enumerate(lines) if b'"kind":"llm_request"' in one)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines[: last + 1]))
    with path.open("rb") as file:
        os_lock(file.fileno())
        run = OpenRuns().open(path, path.name)
        before, version = run.outline(), run.version
    run.refresh()

    assert [call["incomplete"] for call in before["interactions"]] == [None, "in flight, no answer yet"]
    assert [call["incomplete"] for call in run.since(version)["interactions"]] == ["no answer is on file"]


def test_a_run_opens_while_a_second_run_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run can be opened while another run is read; a second request for a run that is being read waits."""
    slow, other = record(tmp_path / "slow.json", growing(1)), record(tmp_path / "other.json", growing(1))
    is_reading, may_read = threading.Event(), threading.Event()
    open_path = Path.open

    def open_slowly(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == slow.with_suffix(".jsonl"):
            is_reading.set()
            assert may_read.wait(60)
        return open_path(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_slowly)
    runs = OpenRuns()
    with ThreadPoolExecutor() as threads:
        try:
            first = threads.submit(runs.open, slow, slow.name)
            assert is_reading.wait(60)
            again = threads.submit(runs.open, slow, slow.name)
            assert threads.submit(runs.open, other, other.name).result(60).name == other.name
            assert not first.done()
            assert not again.done()
        finally:
            may_read.set()

        assert first.result(60) is again.result(60)


def test_an_unreadable_run_is_read_when_it_can_be(tmp_path: Path) -> None:
    """A damaged file is refused each time it is opened. After it is repaired, it is read from its beginning."""
    path = record(tmp_path / "run.json", growing(1))
    journal = path.with_suffix(".jsonl")
    whole = journal.read_bytes()
    journal.write_bytes(b"no journal\n")
    runs = OpenRuns()
    for _ in range(2):
        with pytest.raises(TrajectoryFormatError):
            runs.open(path, path.name)
    journal.write_bytes(whole)

    assert runs.open(path, path.name).outline()["run"]["task"] == "fix the failing test"


# ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_equals_that_of_the_command(tmp_path: Path) -> None:
    """The viewer reads the figures of a list from the ends of the files; they equal those of the `list` command."""
    record(tmp_path / "done.json", growing(3), provider="openai")
    record(tmp_path / "alone.json", growing(2)).with_suffix(".jsonl").unlink()
    (tmp_path / "other.json").write_text("[]")
    rows = {run["id"]: run for run in RunList(tmp_path).page(ListRequest())["runs"]}
    trajectories = {trajectory.file: trajectory for trajectory in listing([tmp_path]).rows()}

    assert rows.keys() == trajectories.keys()
    for name, facts in trajectories.items():
        row = rows[name]
        assert (row["task"], row["status"], row["success"]) == (facts.task, facts.status, facts.success)
        assert (row["llm_calls"], row["total_input_tokens"], row["model"]) == (
            facts.llm_calls,
            facts.input_tokens,
            facts.model,
        )
        assert (row["start_time"], row["execution_time_seconds"]) == (facts.start_time, facts.execution_time)


def test_an_unfinished_run_is_running_and_then_interrupted(tmp_path: Path) -> None:
    """A run without an end record is listed as running while its file is locked, and as interrupted afterwards."""
    path = record(tmp_path / "run.json", growing(1), ends=False)
    runs = RunList(tmp_path)
    with path.with_suffix(".jsonl").open("rb") as file:
        running = runs.page(ListRequest())
        file.read(1)
    copy = tmp_path / "copy"
    copy.mkdir()
    for suffix in (".json", ".jsonl"):
        (copy / f"run{suffix}").write_bytes(path.with_suffix(suffix).read_bytes())

    assert [run["status"] for run in running["runs"]] == ["running"]
    assert [run["status"] for run in RunList(copy).page(ListRequest())["runs"]] == ["interrupted"]


def test_a_journal_without_a_document_is_listed_by_its_ends(tmp_path: Path) -> None:
    """A journal without a document is listed with task and status, and its figures are null."""
    record(tmp_path / "run.json", growing(1)).unlink()
    [row] = RunList(tmp_path).page(ListRequest())["runs"]

    assert (row["id"], row["task"], row["status"]) == ("run.jsonl", "fix the failing test", "completed")
    assert (row["llm_calls"], row["steps"]) == (None, None)


def test_a_long_result_and_hostile_annotations_do_not_hide_the_figures(tmp_path: Path) -> None:
    """The list finds the figures at the end of a document, however long its result is and whatever texts it has."""
    path = record(tmp_path / "run.json", growing(1))
    document = json.loads(path.read_text())
    head, _, _ = path.read_text().partition('"success": ')
    tail = {name: document[name] for name in ("success", "status", "metadata", "metrics", "rewards")}
    annotations = {"status": "failed", "success": False, "text": '\n"success": true, "status": "failed"'}
    tail |= {"annotations": annotations, "final_result": "z" * 300_000}
    path.write_text(head + json.dumps(tail, indent=0).removeprefix("{\n"))
    assert json.loads(path.read_text())["annotations"] == annotations
    [row] = RunList(tmp_path).page(ListRequest())["runs"]

    assert (row["status"], row["success"], row["llm_calls"]) == ("completed", True, 1)


def test_an_unchanged_list_has_the_same_version(tmp_path: Path) -> None:
    """The list keeps its version if no file has changed."""
    record(tmp_path / "run.json", growing(1))
    runs = RunList(tmp_path)
    first = runs.page(ListRequest(since=""))

    assert first["changed"] is True
    assert runs.page(ListRequest())["version"] == first["version"]
    assert runs.page(ListRequest(since="dead.1"))["changed"] is True
    unchanged = runs.page(ListRequest(since=first["version"]))
    assert (unchanged["changed"], unchanged["runs"], unchanged["version"]) == (False, [], first["version"])


def test_some_files_of_a_directory_may_be_listed(tmp_path: Path) -> None:
    """A list made of some files of a directory gives no access to its other files.

    Files of several directories are refused.
    """
    for name in ("a", "b", "c"):
        record(tmp_path / f"{name}.json", growing(1))
    runs = RunList(tmp_path / "a.json", tmp_path / "c.jsonl")
    assert sorted(run["id"] for run in runs.page(ListRequest())["runs"]) == ["a.json", "c.json"]
    assert (runs.path_of("c.json"), runs.path_of("b.json"), runs.only_name()) == (tmp_path / "c.json", None, None)
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="one directory"):
        RunList(tmp_path / "a.json", record(tmp_path / "other" / "d.json", growing(1)))
