"""An exception of a signal's handler during recording reaches the agent, whatever its type.

The exception may be an OSError, as TimeoutError is. No except clause of ours may take it for the system's error. A
profile function raises a signal at each place at which Python runs handlers: at the start of a function, and after the
return of a built-in.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.chat_calls import Answer, asked, call, said, streamed
from tests.faults.late_errors import LateError, Place, handling, places_of, profiled, raise_late
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate
from trace_recorder.signal_handlers import ours, suppress


def reaches_the_agent(act: Callable[[], object], place: Place) -> bool:
    """Whether an exception that a signal handler raises at a place comes out of a call of `act`.

    Python drops an exception in a destructor, so no function of the package may run in one. Two destructors are no
    faults. The run of an abandoned recorder is ended in one, and an earlier interrupt may have abandoned a recorder.
    Python enters a suspended generator that is released for the profile function only, and runs no signal handler.
    """
    dropped: list[str] = []
    pending = [place]

    def interrupt(current: Place) -> None:
        if pending == [current]:
            pending.clear()
            signal.raise_signal(signal.SIGUSR1)

    def note(unraisable: sys.UnraisableHookArgs) -> None:  # Python 3.14 names the object in the message alone
        dropped.append(f"{unraisable.err_msg} {unraisable.object!r}")

    hook, sys.unraisablehook = sys.unraisablehook, note
    try:
        with handling(raise_late), profiled(interrupt):
            act()
    except LateError:
        return True
    finally:
        sys.unraisablehook = hook
    if dropped:
        return "<generator object " in dropped[0] or "<finalize object " in dropped[0]
    return bool(pending)  # a place that only a first call passes is not reached again


@pytest.mark.parametrize("answer", [said("x"), streamed("a", "b")], ids=["plain", "stream"])
def test_no_exception_of_a_handler_is_swallowed_in_a_call(answer: Answer, tmp_path: Path) -> None:
    """The exception may come anywhere in a recorded call. The journal is valid, and has the calls before and after."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:

        def act() -> None:
            call(recorder, asked("during"), answer)

        act()
        swallowed = [place for place in sorted(places_of(act)) if not reaches_the_agent(act, place)]
        act()

    assert swallowed == []
    assert [finding.what for finding in validate(path).findings if finding.severity == "error"] == []
    last = load(path).llm_interactions[-1]
    assert (last.complete, last.error) == (True, None)


def test_no_exception_of_a_handler_is_swallowed_when_a_run_begins_and_ends(tmp_path: Path) -> None:
    """The exception may come while files are created, a step and a tool are recorded, and the document is written."""
    paths = (tmp_path / f"{number}.json" for number in count())

    def act() -> None:
        with TrajectoryRecorder(next(paths), task="try") as recorder, recorder.step(1):
            recorder.tool(len, name="look")("x")

    act()
    swallowed = [place for place in sorted(places_of(act)) if not reaches_the_agent(act, place)]

    assert swallowed == []


def test_a_clause_catches_only_the_system_s_errors() -> None:
    """`ours` catches errors of the named classes unless a handler raised them."""
    caught = []
    for error in (OSError("full"), TimeoutError("slow"), ValueError("odd")):
        try:
            raise error
        except ours(OSError, KeyError) as one:
            caught.append(str(one))
        except ValueError as other:
            caught.append(f"not ours: {other}")

    with suppress(OSError):
        raise TimeoutError("slow")
    with pytest.raises(ValueError, match="odd"), suppress(OSError):
        raise ValueError("odd")

    assert caught == ["full", "slow", "not ours: odd"]
