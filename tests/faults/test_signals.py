"""An exception of the user's signal handler reaches the user, and the run stays valid."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import httpx
import pytest

from tests.chat_calls import CHAT, Answer, Wire, asked, call, said, streamed
from tests.faults.late_errors import handling
from tests.faults.unlucky import limit as system_limit
from tests.journals import TIME, RawRecord, read_raw
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.guard import Guard, try_call
from trace_recorder.reading.validate import validate
from trace_recorder.storage.journal import Journal


class TooLateError(Exception):
    """The exception of a user's time limit."""


def limit(_: int, __: FrameType | None) -> None:
    """Raise the exception, two frames deep."""
    _raise()


def _raise() -> None:
    raise TooLateError


class Limit:
    def __call__(self, number: int, frame: FrameType | None) -> None:
        limit(number, frame)

    def method(self, number: int, frame: FrameType | None) -> None:
        limit(number, frame)


HANDLERS: dict[str, Callable[[int, FrameType | None], None]] = {
    "function": limit,
    "lambda": lambda *_: _raise(),
    "method": Limit().method,
    "object": Limit(),
    "partial": partial(limit),
}


def signalled() -> None:
    """Send the signal to this process at this line."""
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handler_s_exception_passes_the_guard(handler: str) -> None:
    """An exception of any handler in a guarded block reaches the agent, and is not counted as a failure."""
    guard = Guard()

    with handling(HANDLERS[handler]), pytest.raises(TooLateError), guard.protect("record"):
        signalled()

    assert (guard.count, list(guard.failures)) == (0, [])


def test_a_handler_s_exception_passes_where_the_user_s_code_is_called() -> None:
    """Recording calls the user's code at some places, and catches that code's own exceptions, but not a handler's."""
    with handling(limit), pytest.raises(TooLateError):
        try_call(signalled, lambda _: None)

    with handling(limit):
        assert try_call(_raise, type) is TooLateError


def once(number: int, frame: FrameType | None) -> None:
    """Raise the exception after resetting the signal's handler, as handlers do that must be called only once."""
    signal.signal(number, signal.SIG_DFL)
    limit(number, frame)


def once_of_any(*given: object) -> None:
    """Reset the handler and raise the exception, with any arguments."""
    once(signal.SIGUSR1, None)
    assert given


def replaced(_: int, __: FrameType | None) -> None:
    """Raise the exception after installing a different handler."""
    signal.signal(signal.SIGUSR1, limit)
    _raise()


ONCE: dict[str, Callable[..., None]] = {
    "function": once,
    "any arguments": once_of_any,
    "partial": partial(once),
    "keyword": partial(lambda _, frame, *, more: (more, once(frame=frame, number=_)), more=1),
    "replaced": replaced,
}


@pytest.mark.parametrize("handler", ONCE)
def test_a_handler_s_exception_passes_after_the_handler_was_reset(handler: str, tmp_path: Path) -> None:
    """A handler that resets itself before it raises is recognised by its frame."""
    guard = Guard()

    with handling(ONCE[handler]), pytest.raises(TooLateError), guard.protect("record"):
        signalled()
    with handling(ONCE[handler]), pytest.raises(TooLateError):
        try_call(signalled, lambda _: None)

    pending = [signalled]
    recorder = TrajectoryRecorder(
        tmp_path / "run.json", task="x", redact=lambda text: (pending and pending.pop()()) or text
    )
    with handling(ONCE[handler]), pytest.raises(TooLateError):
        recorder.start()
    assert (guard.count, list(guard.failures)) == (0, [])


def test_a_frame_passed_to_the_user_s_function_is_no_signal() -> None:
    """If a function of the user takes frames, such as a tracer, and fails, that is a failure of recording."""

    def look(_: int, frame: FrameType | None) -> None:
        assert frame is not None
        _raise()

    guard = Guard()
    with guard.protect("record"):
        look(1, sys._getframe(1))

    assert guard.count == 1


def calls_of_ours(act: Callable[[], object]) -> list[str]:
    """Return the functions of the package that run during an act."""
    names: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("trace_recorder."):
            names.append(frame.f_code.co_qualname)

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize("finished", [True, False])
def test_no_function_of_ours_runs_in_a_destructor(tmp_path: Path, finished: bool) -> None:  # noqa: FBT001
    """Python drops a handler's exception in a destructor.

    So none of our code runs in a destructor when a response is released.
    """
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        answer = streamed("a", "b")
        wire = Wire(Answer(answer.body, media=answer.media, size=8))
        with httpx.Client(transport=wire, trust_env=False) as client:
            request = client.build_request("POST", CHAT, json=asked("x", stream=True))
            held = [recorder.wrap(client).send(request, stream=True)]
            if finished:
                held[0].read()
            else:
                next(held[0].stream.__iter__())  # type: ignore[union-attr]
            del request
            gc.collect()  # garbage of earlier tests
            assert calls_of_ours(lambda: (held.clear(), gc.collect())) == []

    [one] = load(recorder.trajectory_path).llm_interactions
    assert one.ended_by == (None if finished else "it was abandoned")


def test_a_time_limit_may_interrupt_recording(tmp_path: Path) -> None:
    """The interrupted call ends. The calls before and after it are recorded, and the files agree."""
    interrupting = False

    def interrupt(text: str) -> str:
        if interrupting:
            signalled()
        return text

    with TrajectoryRecorder(tmp_path / "run.json", redact=interrupt) as recorder:
        call(recorder, asked("before"), said("x"))
        interrupting = True
        with handling(limit), pytest.raises(TooLateError):
            call(recorder, asked("during"), said("x"))
        interrupting = False
        call(recorder, asked("after"), said("x"))

    asked_for = [call.input_messages[-1].content for call in load(tmp_path / "run.json").llm_interactions]
    assert [one for one in asked_for if one != "during"] == ["before", "after"]
    assert [finding for finding in validate(tmp_path / "run.json").findings if finding.severity == "error"] == []


def handled(act: Callable[[], object], moment: int, handler: Callable[[], object]) -> bool:
    """Run an act. At the nth moment at which signals reach the journal, the handler acts. Return whether the moment
    came.
    """
    remaining = moment

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal remaining
        if event in {"call", "c_return"} and frame.f_code.co_filename == sys.modules[Journal.__module__].__file__:
            remaining -= 1
            if remaining == 0:
                sys.setprofile(None)
                handler()

    sys.setprofile(profile)
    try:
        act()
    except OSError:
        pass
    finally:
        sys.setprofile(None)
    return remaining <= 0


def appended(journal: Journal, *texts: str) -> None:
    """Append a record for each text, all at once."""
    journal.append_all([("note", f'{{"text":"{text}"}}') for text in texts], TIME)


def refused(journal: Journal, *texts: str) -> None:
    """Let the system write only a part of the records."""
    with system_limit(resource.RLIMIT_FSIZE, journal.path.stat().st_size + 20):
        appended(journal, *texts)


def interrupted_after_writing(journal: Journal) -> None:
    """Append a record. Ctrl-C arrives as soon as it is written."""

    def profile(_: FrameType, event: str, function: object) -> None:
        if event == "c_return" and function is os.write:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)
    with suppress(KeyboardInterrupt):
        appended(journal, "interrupted")
    sys.setprofile(None)


def seqs_and_texts(path: Path) -> list[tuple[int, str]]:
    """Return the numbers and texts of a journal's records."""
    return [(one.seq, one.data["text"]) for one in read_raw(path.read_bytes()) if isinstance(one, RawRecord)]


def test_a_handler_s_record_is_not_cut_off_with_a_later_record(tmp_path: Path) -> None:
    """The handler records at any moment of an append. If there is no room for the later record, only that one is taken
    back.
    """
    for moment in count(1):
        journal = Journal.create(tmp_path / f"{moment}.jsonl")
        came = handled(partial(appended, journal, "one", "two"), moment, partial(appended, journal, "handler"))
        with pytest.raises(OSError, match="of a record"):
            refused(journal, "x" * 1000)
        appended(journal, "last")
        journal.close()
        found = seqs_and_texts(journal.path)
        expected = {"one", "two", "last"} | ({"handler"} if came else set())
        assert ([seq for seq, _ in found], {text for _, text in found}) == ([*range(1, len(expected) + 1)], expected), (
            moment
        )
        if not came:
            break


def test_a_handler_s_record_after_an_interrupted_write_has_its_own_number(tmp_path: Path) -> None:
    """After a record that Ctrl-C interrupted, no number is given twice, whenever a handler records."""
    for moment in count(1):
        journal = Journal.create(tmp_path / f"{moment}.jsonl")
        interrupted_after_writing(journal)
        came = handled(partial(appended, journal, "one", "two"), moment, partial(appended, journal, "handler"))
        journal.close()
        found = seqs_and_texts(journal.path)
        expected = {"interrupted", "one", "two"} | ({"handler"} if came else set())
        assert ([seq for seq, _ in found], {text for _, text in found}) == ([*range(1, len(expected) + 1)], expected), (
            moment
        )
        if not came:
            break


def test_a_handler_s_record_survives_a_refused_record(tmp_path: Path) -> None:
    """The handler's record is written at any moment. The refused record is taken back only if no record follows it."""
    for moment in count(1):
        journal = Journal.create(tmp_path / f"{moment}.jsonl")
        appended(journal, "first")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

        def record(journal: Journal = journal, limits: tuple[int, int] = (soft, hard)) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            appended(journal, "handler")

        came = handled(partial(refused, journal, "x" * 1000), moment, record)
        appended(journal, "last")
        journal.close()
        found = seqs_and_texts(journal.path)
        texts = [text for _, text in found if not text.startswith("x")]
        assert [seq for seq, _ in found] == [*range(1, len(found) + 1)], moment
        assert texts == (["first", "handler", "last"] if came else ["first", "last"]), moment
        if not came:
            break
