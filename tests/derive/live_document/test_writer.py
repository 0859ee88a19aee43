"""Snapshots: whenever anybody looks, the document is whole, and it is what the journal says."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.run_fixtures import CHAT, Payload, asked, call, interrupted, records_of, said, streamed
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.derive.document import expanded
from trace_recorder.derive.live_document import writer as snapshot
from trace_recorder.derive.live_document.writer import DocumentWriter
from trace_recorder.storage.journal import Journal
from trace_recorder.values.jsonable import to_json

TEXT = "x" * 400


def document(recorder: TrajectoryRecorder) -> Payload:
    """The document as any tool reads it."""
    return json.loads(recorder.trajectory_path.read_bytes())


def agrees(recorder: TrajectoryRecorder) -> bool:
    """Whether the document says what the journal says."""
    written = document(recorder)
    said_by_journal = load(recorder.trajectory_path).to_document("inline")
    return expanded(written) == {**said_by_journal, "history": written["history"]}


def steps(recorder: TrajectoryRecorder) -> list[Payload]:
    """The numbers of the steps that the document shows."""
    return [step["step_number"] for step in document(recorder)["agent_steps"]]


ACTIONS: tuple[Callable[[TrajectoryRecorder], object], ...] = (
    lambda recorder: recorder.start(task="t"),
    lambda recorder: call(recorder, asked("a"), said("b")),
    lambda recorder: call(recorder, asked("a", stream=True), streamed("b", "c")),
    lambda recorder: call(recorder, asked("a" * 5000), said(None, calls=[("c", "n", "{")])),
    lambda recorder: recorder.record_llm_interaction(asked("x")["messages"], {"content": "y"}, "p", "m"),
    lambda recorder: recorder.record_agent_step(1, "completed", asked("x")["messages"]),
    lambda recorder: recorder.update_lakeview(1, "s"),
    lambda recorder: recorder.reward("r", 1.0),
    lambda recorder: recorder.annotate("k", [1]),
    lambda recorder: recorder.finalize(success=True),
)


@pytest.mark.parametrize("history", ["auto", "inline", "delta"])
@pytest.mark.parametrize("durability", ["process", "disk"])
def test_after_every_record_the_document_says_what_the_journal_says(
    tmp_path: Path, history: str, durability: str
) -> None:
    """When a recording call returns, json.load finds what it recorded, and nothing else lies in the directory."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history, durability=durability, strict=True)  # type: ignore[arg-type]

    agreeing = []
    for action in ACTIONS:
        action(recorder)
        running = "running" if action is not ACTIONS[-1] else "completed"
        agreeing.append((agrees(recorder), document(recorder)["status"] == running))

    assert agreeing == [(True, True)] * len(ACTIONS)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.json", "run.jsonl"]


class Looking(httpx.BaseTransport):
    """A wire that answers when the document shows the call; a document that never does ends the test all the same."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self._recorder = recorder
        self.seen: Payload = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        end = time.monotonic() + 120
        while not self.seen and time.monotonic() < end:
            self.seen = [one["complete"] for one in document(self._recorder)["llm_interactions"]]
            time.sleep(0.01)
        return httpx.Response(200, json={})


def test_what_is_under_way_is_shown_soon(tmp_path: Path) -> None:
    """A request that waits for its answer is in the document while it waits."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    wire = Looking(recorder)

    with httpx.Client(transport=wire, trust_env=False) as client:
        recorder.wrap(client).post(CHAT, json=asked("a"))

    recorder.finalize()
    assert wire.seen == [False]


@pytest.mark.parametrize(("length", "waits"), [(100, True), (snapshot.SMALL_DOCUMENT_BYTES, False)])
def test_what_is_long_is_not_shown_while_the_caller_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, waits: bool
) -> None:
    """The first call of a run is in the document when it returns, unless what it says has to be read for long."""
    writers: list[threading.Thread] = []
    write = snapshot.DocumentWriter.write

    def told(self: snapshot.DocumentWriter, *arguments: Payload) -> None:
        writers.append(threading.current_thread())
        write(self, *arguments)

    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    monkeypatch.setattr(snapshot.DocumentWriter, "write", told)

    call(recorder, asked("x" * length), said("fine"))

    assert (threading.current_thread() in writers) == waits
    recorder.finalize()


READER = """
import json, sys, time
reads = torn = 0
last = -1
print("ready", flush=True)
while True:
    document = None
    try:
        with open(sys.argv[1], "rb") as file:
            document = json.load(file)
    except FileNotFoundError:
        continue
    except ValueError:
        torn += 1
    if document is not None:
        reads += 1
        if len(document["agent_steps"]) < last:
            torn += 1
        last = len(document["agent_steps"])
        if document["status"] != "running":
            break
print(json.dumps([torn, last, reads > 1]))
"""


@pytest.mark.parametrize(
    "limits", [{}, {"SMALL_DOCUMENT_BYTES": 20_000, "INLINE_LIMIT": 60_000}], ids=["as it is", "soon large"]
)
def test_no_reader_sees_half_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    """While a thousand records are written, across both sizes at which the writing changes, every read is whole."""
    for name, value in limits.items():
        monkeypatch.setattr(snapshot, name, value)
    path = tmp_path / "run.json"
    with subprocess.Popen([sys.executable, "-c", READER, path], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        recorder = TrajectoryRecorder(path, strict=True)
        recorder.start()
        for number in range(1000):
            recorder.record_agent_step(number, "thinking", reflection=TEXT)
        recorder.finalize()
        said_by_reader = json.loads(reader.stdout.read())

    assert said_by_reader == [0, 1000, True]
    assert agrees(recorder)


@pytest.mark.parametrize("limit", [0, 4_000])
def test_where_it_grows_large_the_history_becomes_deltas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """With history="auto" a document beyond the limit says each message once, from then on, and loads the same."""
    monkeypatch.setattr(snapshot, "INLINE_LIMIT", limit)
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for length in range(1, 6):
        call(recorder, asked(*(f"{number} {TEXT}" for number in range(length))), said("x", identity=f"c{length}"))
    recorder.finalize()

    assert (document(recorder)["history"], recorder.trajectory_path.read_text().count(TEXT)) == ("delta", 5)
    (tmp_path / "alone.json").write_bytes(recorder.trajectory_path.read_bytes())
    assert [len(one.input_messages) for one in load(tmp_path / "alone.json").llm_interactions] == [1, 2, 3, 4, 5]


def test_the_limit_is_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of Chinese text counts by what it takes on the disk."""
    monkeypatch.setattr(snapshot, "INLINE_LIMIT", 20_000)
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.annotate("k", "中" * 9_000)
    recorder.finalize()

    assert (document(recorder)["history"], recorder.trajectory_path.stat().st_size > 20_000) == ("delta", True)


def test_two_recorders_in_one_directory(tmp_path: Path) -> None:
    """Runs that go on at once in one directory, in threads, each show their own steps."""
    recorders = [TrajectoryRecorder(directory=tmp_path, strict=True) for _ in range(2)]

    def record(recorder: TrajectoryRecorder, first: int) -> None:
        recorder.start()
        for number in range(first, first + 50):
            recorder.record_agent_step(number, "thinking")
        recorder.finalize()

    threads = [threading.Thread(target=record, args=(one, 100 * at)) for at, one in enumerate(recorders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [steps(one) for one in recorders] == [list(range(50)), list(range(100, 150))]


def test_many_threads_on_one_recorder_lose_nothing(tmp_path: Path) -> None:
    """However recording calls overlap, each is in the document when it returns."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    missing: list[int] = []

    def record(first: int) -> None:
        for number in range(first, first + 25):
            recorder.record_agent_step(number, "thinking")
            if number not in steps(recorder):
                missing.append(number)

    threads = [threading.Thread(target=record, args=(100 * at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finalize()

    assert (missing, len(steps(recorder)), agrees(recorder)) == ([], 100, True)


# ── attacks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def step(recorder: TrajectoryRecorder, number: int) -> None:
    recorder.record_agent_step(number, "thinking", asked("x", str(number))["messages"])


def growing_call(recorder: TrajectoryRecorder, number: int) -> None:
    call(recorder, asked(*map(str, range(number + 1))), said("x", identity=f"c{number}"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that was opened at that moment
@pytest.mark.parametrize(("act", "every"), [(step, 5), (growing_call, 31)])
def test_ctrl_c_at_any_moment_leaves_the_files_in_agreement(
    tmp_path: Path, act: Callable[[TrajectoryRecorder, int], None], every: int
) -> None:
    """Interrupted at whichever line while recording, a run goes on: nothing twice, and both files say the same."""
    wrong: dict[str, list[int]] = {}
    for at in range(1, 100_000, every):
        recorder = TrajectoryRecorder(tmp_path / "run.json")
        recorder.start()
        act(recorder, 1)
        reached = interrupted(partial(act, recorder, 2), at)
        act(recorder, 3)
        recorder.finalize()
        for complaint in complaints(recorder):
            wrong.setdefault(complaint, []).append(at)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        if not reached:
            break

    assert wrong == {}


def complaints(recorder: TrajectoryRecorder) -> list[str]:
    """What is wrong with the files of a run of which the second of three acts was interrupted."""
    trajectory = load(recorder.trajectory_path)
    if trajectory.llm_interactions:
        seen = [[message.content for message in one.input_messages] for one in trajectory.llm_interactions]
        expected = [[str(one) for one in range(number + 1)] for number in (1, 2, 3)]
    else:
        seen = [[message.content for message in one.llm_messages or ()] for one in trajectory.agent_steps]
        expected = [["x", str(number)] for number in (1, 2, 3)]
    seqs = [one.seq for one in records_of(recorder.trajectory_path)]
    found = {
        "the journal does not have what was recorded": seen not in (expected, [expected[0], expected[2]]),
        "the document says something else than the journal": not agrees(recorder),
        "two records have one number": len(set(seqs)) < len(seqs),
    }
    return [complaint for complaint, is_so in found.items() if is_so]


def test_recording_from_deep_in_a_recursion_leaves_the_files_in_agreement(tmp_path: Path) -> None:
    """Where an agent calls with its stack nearly full, a step is on file or a gap says why not; the document agrees."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()

    def down(frames: int, number: int) -> None:
        if frames:
            down(frames - 1, number)
        else:
            recorder.record_agent_step(number, "thinking", asked("x")["messages"])

    returned = []
    for frames in range(500, 1000, 3):
        try:
            down(frames, frames)
        except RecursionError:
            continue
        returned.append(frames)
    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    described = [step for step in trajectory.agent_steps if isinstance(step.step_number, dict)]
    lost = set(returned) - {step.step_number for step in trajectory.agent_steps if step not in described}
    assert agrees(recorder)
    assert len(lost) <= len(described) + len([gap for gap in trajectory.gaps if "step" in gap.what])
    assert [gap.what for gap in trajectory.gaps if "damaged" in gap.what] == []


@pytest.mark.parametrize(
    "number", [float("nan"), [1], {"a": 1}, object(), "one", None, 2**70, True], ids=lambda one: type(one).__name__
)
def test_no_step_number_poisons_the_document(tmp_path: Path, number: object) -> None:
    """Whatever an agent numbers its steps with, the run is written and read to its end."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    for tell in (recorder.record_agent_step, recorder.update_lakeview):
        with suppress(TypeError):  # once it is on file
            tell(number, "thinking")  # type: ignore[operator]
    recorder.record_agent_step(2, "completed")
    recorder.finalize(success=True)

    assert (document(recorder)["status"], steps(recorder)[-1], agrees(recorder)) == ("completed", 2, True)


def test_a_directory_that_is_deleted_under_a_run_does_not_reach_the_agent(tmp_path: Path) -> None:
    """Where the files are gone, recording goes on, and all of it is in files that are made again."""
    recorder = TrajectoryRecorder(tmp_path / "runs" / "run.json")
    recorder.start()
    recorder.record_agent_step(1, "thinking")
    shutil.rmtree(tmp_path / "runs")

    recorder.record_agent_step(2, "thinking")
    recorder.finalize()

    assert (steps(recorder), agrees(recorder)) == ([1, 2], True)


def test_a_run_whose_files_were_moved_away_does_not_write_over_another(tmp_path: Path) -> None:
    """Where somebody moves the files of a run that goes on, another run that begins in their place stays whole."""
    moved = TrajectoryRecorder(tmp_path / "run.json", task="moved")
    moved.start()
    moved.annotate("a", 1)
    (tmp_path / "away").mkdir()
    for name in ("run.json", "run.jsonl"):
        (tmp_path / name).rename(tmp_path / "away" / name)
    other = TrajectoryRecorder(tmp_path / "run.json", task="other")
    other.start()

    moved.annotate("b", 2)
    other.finalize()
    moved.finalize()

    assert (document(other)["task"], agrees(other)) == ("other", True)


def test_a_snapshot_that_failed_is_made_up_for_by_the_next(tmp_path: Path) -> None:
    """Where one writing finds no room, the last good document stays, and the next has everything."""
    journal = Journal.create(tmp_path / "run.jsonl")
    journal.append("start", to_json({"version": 1}), "t")
    writing = DocumentWriter(journal.path, tmp_path / "run.json", "auto")
    writing.write()
    before = (tmp_path / "run.json").read_bytes()
    journal.append("annotation", to_json({"key": "k", "value": 1}), "t")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    with pytest.raises(OSError, match="too large"):
        writing.write()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    left = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one != journal.path}
    writing.write()
    journal.close()
    assert left == {"run.json": before}
    assert json.loads((tmp_path / "run.json").read_text())["annotations"] == {"k": 1}


def test_a_directory_that_took_the_document_s_name_stays_where_it_is(tmp_path: Path) -> None:
    """What is no document is not replaced, and not hidden under another name."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    recorder.trajectory_path.unlink()
    recorder.trajectory_path.mkdir()
    (recorder.trajectory_path / "precious").touch()

    recorder.annotate("k", 1)

    recorder.finalize()
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*")) == [
        "run.json",
        "run.json/precious",
        "run.jsonl",
    ]
