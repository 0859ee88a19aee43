"""Compares documents with their journals during a schedule and at its end.

`scripts/schedules` runs one schedule after another until its time is up. The first failing schedule is shortened.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FrameType

from tests.chat_calls import is_running
from tests.journals import folded
from tests.limits import limited
from tests.processes import ROOT
from tests.schedules.acting import Act, Agents, Schedule, parts_of, schedule_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.document import expand_deltas
from trace_recorder.reading.document_agreement import first_difference
from trace_recorder.reading.live_document.document_thread import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.reading.validate import validate
from trace_recorder.storage.journal import Journal

PAUSE = 4000
"""At most this many moments within the package pass between two interruptions,"""
INTERRUPTIONS = 30
"""of which there are this many, because a document that is being written is begun again after each."""
PACKAGE = str(ROOT / "trace_recorder")

Way = Callable[[TrajectoryRecorder, Agents, Schedule], str | None]
"""A way to run a schedule. It returns the faults during the run."""


def one_by_one(recorder: TrajectoryRecorder, agents: Agents, schedule: Schedule) -> str | None:
    """Run all acts in order in this thread, and check the document whenever it is saved."""
    for number, act in enumerate(schedule.acts):
        agents.act(act)
        if act.name == "save" and (wrong := disagreement_so_far(recorder)):
            return f"after act {number}: {wrong}"
    return None


def in_threads(recorder: TrajectoryRecorder, _: Agents, schedule: Schedule) -> None:
    """Run each actor in its own thread, with its own client."""
    actors = {act.actor: Agents(recorder, schedule) for act in schedule.acts}
    with ThreadPoolExecutor(len(actors) or 1) as pool:
        own = ((agents, [act for act in schedule.acts if act.actor == actor]) for actor, agents in actors.items())
        for done in [pool.submit(deque, map(agents.act, acts), 0) for agents, acts in own]:
            done.result()
    recorder.finalize()
    for agents in actors.values():
        agents.end()


def interrupted(recorder: TrajectoryRecorder, agents: Agents, schedule: Schedule) -> str | None:
    """Run the acts in order, while a signal handler interrupts the package's code again and again, and records too."""
    busy = Agents(recorder, schedule)
    random = Random(len(schedule.acts))
    left, more = random.randrange(PAUSE), INTERRUPTIONS

    def handle(_: int, __: FrameType | None) -> None:
        name = random.choice(("by_hand", "tool_function", "annotate", "call", "tell_step"))
        busy.act(Act(name, 0, random.randrange(10**6)))

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left, more
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(PACKAGE):
            left -= 1
            if left <= 0 and more:
                left, more = random.randrange(PAUSE), more - 1
                signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    sys.setprofile(profile)
    try:
        return one_by_one(recorder, agents, schedule)
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
        busy.end()


WAYS: dict[str, Way] = {"one by one": one_by_one, "in threads": in_threads, "interrupted": interrupted}


def problems(
    schedule: Schedule, directory: Path, way: Way = one_by_one, limits: DocumentLimits = DEFAULT_LIMITS
) -> list[str]:
    """Run a schedule. Return the first fault of the recording."""
    path = directory / "run.json"
    recorder = limited(document=limits)(path, history=schedule.history, strict=True)
    recorder.start(task="t")
    agents = Agents(recorder, schedule)
    try:
        if wrong := way(recorder, agents, schedule):
            return [wrong]
        if is_running(recorder):
            recorder.finalize()
        wrong = disagreement(path)
        return [
            *([wrong] if wrong else []),
            *(f"{finding.where}: {finding.what}" for finding in validate(path).findings),
        ]
    finally:
        if is_running(recorder):
            recorder.finalize()
        agents.end()


def problems_at_every_record(schedule: Schedule, directory: Path) -> list[str]:
    """Run a schedule, and check the document after each record.

    Returns the faults. Each document must be valid, equal a prefix of the journal, and cover no fewer records than the
    one before. The thread has no delays, so it writes at any moment.
    """
    looked = EveryRecord(directory / "run.json")
    before = sys.getprofile()
    sys.setprofile(looked)
    try:
        found = problems(schedule, directory, limits=DocumentLimits(cost_multiple=0, min_pause_seconds=0.001))
    finally:
        sys.setprofile(before)
    return found + looked.problems()


class EveryRecord:
    """Reads the document each time after a record has been written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: list[bytes] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is Journal.append_all.__code__ and self._path.exists():
            document = self._path.read_bytes()
            if not self._seen or self._seen[-1] != document:
                self._seen.append(document)

    def problems(self) -> list[str]:
        """Return the faults of the documents that were read, in order."""
        lines = self._path.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
        complaints, last = [], 0
        for data in self._seen:
            document = json.loads(data)
            covered = document["journal_records"]
            whole = folded(b"".join(lines[:covered]), document["status"]).to_document("inline")
            if json.dumps(expand_deltas(document)) != json.dumps(whole | {"history": document["history"]}):
                complaints.append(f"the document of {covered} records is another one")
            if not last <= covered <= len(lines):
                complaints.append(f"it covered {last} records, and then {covered}")
            last = covered
        return complaints if self._seen else ["no document was seen"]


def disagreement(path: Path) -> str | None:
    """Return how the document on disk differs from the whole journal, or None."""
    written, run = json.loads(path.read_bytes()), load(path)
    whole = run.to_document("inline") | {"history": written["history"]}
    return None if json.dumps(expand_deltas(written)) == json.dumps(whole) else first_difference(written, run) or "it"


def disagreement_so_far(recorder: TrajectoryRecorder) -> str | None:
    """Return the difference while the run is open. A thread may flush a waiting stream during the comparison."""
    path = recorder.trajectory_path
    while True:
        size = path.with_suffix(".jsonl").stat().st_size
        recorder.save_trajectory()
        wrong = disagreement(path)
        if size == path.with_suffix(".jsonl").stat().st_size:
            return wrong


def tried(schedule: Schedule, way: Way | None = one_by_one) -> list[str]:
    """Run a schedule in a temporary directory, and return its faults. An exception is a fault too."""
    directory = Path(tempfile.mkdtemp(prefix="schedule-"))
    try:
        return problems(schedule, directory, way) if way else problems_at_every_record(schedule, directory)
    except Exception as error:  # noqa: BLE001 - any exception is a fault
        return [f"{type(error).__name__}: {error}"]
    finally:
        shutil.rmtree(directory)


def shrunk(schedule: Schedule, way: Way | None = one_by_one) -> Schedule:
    """Return a part of a failing schedule that still fails, and in which no further act can be left out."""
    size = len(schedule.acts) // 2
    while size:
        smaller = next(
            (one for acts in parts_of(schedule.acts, size) if tried(one := replace(schedule, acts=acts), way)), None
        )
        if smaller is None:
            size //= 2
        else:
            schedule = smaller
            size = min(size, max(1, len(schedule.acts) // 2))
    return schedule


def main() -> None:
    """Run the command line, and exit with 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="scripts/schedules")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="so many at most")
    parser.add_argument("--way", choices=sorted(WAYS), default="one by one")
    parser.add_argument("--every-record", action="store_true", help="look at the document after each record")
    parser.add_argument("--shrink", action="store_true", help="cut down what fails, and tell of it act by act")
    options = parser.parse_args()
    way = None if options.every_record else WAYS[options.way]
    until, seed, failed = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < until and seed < options.seed + options.count:
        schedule = schedule_of(seed)
        if found := tried(schedule, way):
            failed += 1
            print(f"{seed}: {len(schedule.acts)} acts", *(line[:300] for line in found[:3]), sep="\n    ", flush=True)
            if options.shrink:
                small = shrunk(schedule, way)
                print(f"{seed}, cut down:", *small.acts, *tried(small, way), sep="\n    ", flush=True)
        seed += 1
    print(f"{seed - options.seed} schedules, {failed} with problems")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
