"""Snapshots: at every moment the document is complete JSON and equals the journal."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import httpx
import pytest

from tests.agreement import agrees, document, step_numbers
from tests.chat_calls import CHAT, asked, call, run_of, said, streamed
from tests.counting import watch
from tests.limits import limited
from tests.waiting import wait_until
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.live_document.document_thread import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.reading.live_document.writer import DocumentWriter
from trace_recorder.values.messages import Payload

TEXT = "x" * 400


Action = Callable[[TrajectoryRecorder], object]

CAPTURED: tuple[Action, ...] = (
    lambda recorder: call(recorder, asked("a"), said("b")),
    lambda recorder: call(recorder, asked("a", stream=True), streamed("b", "c")),
    lambda recorder: call(recorder, asked("a" * 5000), said(None, calls=[("c", "n", "{")])),
)
"""Records that the document has as soon as the agent waits. On a busy machine a thread writes them."""
ACTIONS: tuple[Action, ...] = (
    lambda recorder: recorder.start(task="t"),
    *CAPTURED,
    lambda recorder: recorder.record_llm_interaction(asked("x")["messages"], {"content": "y"}, "p", "m"),
    lambda recorder: recorder.record_agent_step(1, "completed", asked("x")["messages"]),
    lambda recorder: recorder.update_lakeview(1, "s"),
    lambda recorder: recorder.reward("r", 1.0),
    lambda recorder: recorder.annotate("k", [1]),
    lambda recorder: recorder.finalize(success=True),
)


@pytest.mark.parametrize("history", ["auto", "inline", "delta"])
@pytest.mark.parametrize("durability", ["process", "disk"])
def test_every_record_is_in_the_document_soon(tmp_path: Path, history: str, durability: str) -> None:
    """`json.load` finds a record when its call returns.

    It finds a captured call while the agent waits.
    """
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history, durability=durability, strict=True)  # type: ignore[arg-type]

    agreeing = []
    for action in ACTIONS:
        action(recorder)
        if action in CAPTURED:
            wait_until(lambda: agrees(recorder))
        running = "running" if action is not ACTIONS[-1] else "completed"
        agreeing.append((agrees(recorder), document(recorder)["status"] == running))

    assert agreeing == [(True, True)] * len(ACTIONS)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.json", "run.jsonl"]


class Looking(httpx.BaseTransport):
    """A transport that answers as soon as the document shows the call. It stops waiting after a while."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self._recorder = recorder
        self.seen: Payload = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        wait_until(self._is_shown)
        return httpx.Response(200, json={})

    def _is_shown(self) -> bool:
        self.seen = [call["complete"] for call in document(self._recorder)["llm_interactions"]]
        return bool(self.seen)


def test_a_call_in_flight_is_shown_soon(tmp_path: Path) -> None:
    """A request that waits for its answer is in the document during the wait."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    wire = Looking(recorder)

    with httpx.Client(transport=wire, trust_env=False) as client:
        recorder.wrap(client).post(CHAT, json=asked("a"))

    recorder.finalize()
    assert wire.seen == [False]


def _writes(act: Callable[[], object]) -> bool:
    """Return whether this thread writes a document during a call of the function."""
    called: list[CodeType] = []
    watch(act, lambda frame: called.append(frame.f_code))
    assert called
    return WholeDocument.write.__code__ in called


def test_records_are_shown_at_once_in_a_small_run(tmp_path: Path) -> None:
    """Up to 64 KB of journal, the recording call writes the document itself. Beyond, the thread writes it."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    at_once = []

    for size in (10, 100, DEFAULT_LIMITS.at_once_bytes, 10):
        at_once.append(_writes(lambda size=size: recorder.annotate("k", "x" * size)))  # type: ignore[misc]
        if at_once[-1]:
            assert agrees(recorder)

    assert at_once == [True, True, False, False]
    wait_until(lambda: agrees(recorder))
    recorder.finalize()


def test_no_captured_call_waits_for_its_document(tmp_path: Path) -> None:
    """Neither in a short run nor with a slow model does the caller write the document."""
    recorder = limited(document=DocumentLimits(cost_multiple=0, min_pause_seconds=0))(
        tmp_path / "run.json", strict=True
    )
    recorder.start()

    assert [_writes(lambda: call(recorder, asked("x"), said("fine"))) for _ in range(3)] == [False] * 3
    recorder.finalize()


@pytest.mark.parametrize("end", ["save_trajectory", "finalize"])
def test_a_saved_document_is_complete(tmp_path: Path, end: str) -> None:
    """Neither a large journal nor a long pause of the thread delays a document that the caller saves."""
    recorder = limited(document=DocumentLimits(cost_multiple=1e9))(tmp_path / "run.json", strict=True)
    recorder.start()
    for number in range(3):
        call(recorder, asked("x" * DEFAULT_LIMITS.at_once_bytes, str(number)), said("fine"))

    getattr(recorder, end)()

    assert agrees(recorder)
    recorder.save_trajectory() if end == "finalize" else recorder.finalize()


def test_a_document_says_how_many_records_it_covers(tmp_path: Path) -> None:
    recorder = limited(document=DocumentLimits(min_pause_seconds=1e9))(tmp_path / "run.json", strict=True)
    recorder.start()
    recorder.annotate("k", 1)
    call(recorder, asked("x"), said("fine"))
    covered = document(recorder)["journal_records"]

    recorder.finalize()

    lines = recorder.trajectory_path.with_suffix(".jsonl").read_bytes().count(b"\n")
    assert (covered, document(recorder)["journal_records"], lines) == (2, 6, 6)


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
    "limits",
    [DEFAULT_LIMITS, DocumentLimits(at_once_bytes=20_000, inline_bytes=60_000)],
    ids=["as it is", "soon large"],
)
def test_no_reader_sees_an_incomplete_document(tmp_path: Path, limits: DocumentLimits) -> None:
    """Every read is complete while a thousand records are written, across both sizes at which the way of writing
    changes.
    """
    path = tmp_path / "run.json"
    with subprocess.Popen([sys.executable, "-c", READER, path], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        recorder = limited(document=limits)(path, strict=True)
        recorder.start()
        for number in range(1000):
            recorder.record_agent_step(number, "thinking", reflection=TEXT)
        recorder.finalize()
        said_by_reader = json.loads(reader.stdout.read())

    assert said_by_reader == [0, 1000, True]
    assert agrees(recorder)


@pytest.mark.parametrize("limit", [0, 4_000])
def test_a_large_document_becomes_deltas(tmp_path: Path, limit: int) -> None:
    """With `history="auto"`, a document beyond the limit is written with deltas, and loads the same."""
    recorder = limited(document=DocumentLimits(inline_bytes=limit))(tmp_path / "run.json", strict=True)
    for length in range(1, 6):
        call(recorder, asked(*(f"{number} {TEXT}" for number in range(length))), said("x", identity=f"c{length}"))
    recorder.finalize()

    assert (document(recorder)["history"], recorder.trajectory_path.read_text().count(TEXT)) == ("delta", 5)
    (tmp_path / "alone.json").write_bytes(recorder.trajectory_path.read_bytes())
    assert [len(call.input_messages) for call in load(tmp_path / "alone.json").llm_interactions] == [1, 2, 3, 4, 5]


def test_the_limit_counts_bytes(tmp_path: Path) -> None:
    """Chinese characters count by their size on disk."""
    recorder = limited(document=DocumentLimits(inline_bytes=20_000))(tmp_path / "run.json", strict=True)
    call(recorder, asked("中" * 9_000), said("x"))
    recorder.finalize()

    assert document(recorder)["history"] == "delta"


def test_only_messages_of_prompts_count_towards_the_limit(tmp_path: Path) -> None:
    """Deltas shorten nothing else, so a document that is long without prompts stays inline."""
    recorder = limited(document=DocumentLimits(inline_bytes=20_000))(tmp_path / "run.json", strict=True)
    recorder.annotate("k", "x" * 30_000)
    call(recorder, asked("x"), said("y" * 30_000))
    recorder.finalize()

    assert document(recorder)["history"] == "inline"


def test_two_recorders_in_one_directory(tmp_path: Path) -> None:
    """Runs that are recorded at the same time into one directory, in threads, each show their own steps."""
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

    assert [step_numbers(recorder) for recorder in recorders] == [list(range(50)), list(range(100, 150))]


def test_records_of_many_threads_are_all_shown(tmp_path: Path) -> None:
    """Each recorded call is in the document when it returns, however the threads overlap."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    missing: list[int] = []

    def record(first: int) -> None:
        for number in range(first, first + 25):
            recorder.record_agent_step(number, "thinking")
            if number not in step_numbers(recorder):
                missing.append(number)

    threads = [threading.Thread(target=record, args=(100 * at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finalize()

    assert (missing, len(step_numbers(recorder)), agrees(recorder)) == ([], 100, True)


def test_a_run_that_ends_in_a_handler_waits_for_the_thread_s_write(tmp_path: Path) -> None:
    """A signal's handler ends the run there: its last document is written after that of the thread with the lock."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    run = run_of(recorder)
    is_held, may_end, seen = threading.Event(), threading.Event(), list[Payload]()

    def hold() -> None:
        with run._writer._lock:
            is_held.set()
            may_end.wait()
            seen.append(document(recorder)["status"])

    def end_once(frame: FrameType) -> None:
        if frame.f_code is DocumentWriter._write_requested.__code__ and not is_held.is_set():
            thread.start()
            is_held.wait()
            threading.Timer(0.3, may_end.set).start()
            recorder.finalize(success=True)

    thread = threading.Thread(target=hold)
    watch(recorder.save_trajectory, end_once)

    thread.join()
    assert (seen, document(recorder)["status"], agrees(recorder)) == (["running"], "completed", True)
