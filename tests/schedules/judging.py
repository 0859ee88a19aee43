"""The judge of a schedule: whether the document says what its journal says, in mid-run and at the end.

`scripts/schedules` runs one schedule after another until its time is up; the first that fails is cut down.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.schedules.acting import Act, Agents, Schedule, parts_of, schedule_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.document import expanded
from trace_recorder.validation import _difference, validate


def problems(schedule: Schedule, directory: Path) -> list[str]:
    """Do what a schedule says; return what is wrong with what was recorded, the first time that something is."""
    path = directory / "run.json"
    recorder = TrajectoryRecorder(path, history=schedule.history, strict=True)
    recorder.start(task="t")
    agents = Agents(recorder, schedule)
    try:
        for number, act in enumerate(schedule.acts):
            agents.act(act)
            if act.name == "save" and (wrong := disagreement_so_far(recorder)):
                return [f"after act {number}: {wrong}"]
        recorder.finalize()
        wrong = disagreement(path)
        return [*([wrong] if wrong else []), *(f"{one.where}: {one.what}" for one in validate(path).findings)]
    finally:
        if recorder.is_running():
            recorder.finalize()
        agents.end()


def disagreement(path: Path) -> str | None:
    """Where the document that is there differs from what the whole journal says."""
    written = json.loads(path.read_bytes())
    whole = load(path).to_document("inline") | {"history": written["history"]}
    written = expanded(written)
    return None if json.dumps(written) == json.dumps(whole) else _difference(written, whole)


def disagreement_so_far(recorder: TrajectoryRecorder) -> str | None:
    """The same while the run is open: a stream that waits too long is flushed by a thread, also while this looks."""
    path = recorder.trajectory_path
    while True:
        size = path.with_suffix(".jsonl").stat().st_size
        recorder.save_trajectory()
        wrong = disagreement(path)
        if size == path.with_suffix(".jsonl").stat().st_size:
            return wrong


def tried(schedule: Schedule) -> list[str]:
    """The same, in a directory that is removed; what is raised is a problem too."""
    directory = Path(tempfile.mkdtemp(prefix="schedule-"))
    try:
        return problems(schedule, directory)
    except Exception as error:  # noqa: BLE001 - whatever is found
        return [f"{type(error).__name__}: {error}"]
    finally:
        shutil.rmtree(directory)


def shrunk(schedule: Schedule) -> Schedule:
    """A part of a schedule that fails as well, without any act that it does not need."""
    size = len(schedule.acts) // 2
    while size:
        smaller = next((one for acts in parts_of(schedule.acts, size) if tried(one := replace(schedule, acts=acts))), None)
        if smaller is None:
            size //= 2
        else:
            schedule = smaller
            size = min(size, max(1, len(schedule.acts) // 2))
    return schedule


def main() -> None:
    """Read the arguments; exit 1 where any schedule failed."""
    parser = argparse.ArgumentParser(prog="scripts/schedules")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="so many at most")
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args()
    until, seed, failed = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < until and seed < options.seed + options.count:
        schedule = schedule_of(seed)
        if found := tried(schedule):
            failed += 1
            print(f"{seed}: {len(schedule.acts)} acts", *(line[:300] for line in found[:3]), sep="\n    ", flush=True)
            if options.shrink:
                small = shrunk(schedule)
                print(*small.acts, tried(small), sep="\n    ", flush=True)
        seed += 1
    print(f"{seed - options.seed} schedules, {failed} with problems")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
