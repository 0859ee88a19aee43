"""What a handler of the user's raises while something is recorded is the user's: it passes, and the run is in order."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from tests.faults.unlucky import limit as system_limit
from tests.recording import TIME, asked, call, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.guard import Guard, attempt
from trace_recorder.journal import Journal, Record, read
from trace_recorder.validation import validate


class TooLateError(Exception):
    """What a time limit of the user's raises."""


def limit(_: int, __: FrameType | None) -> None:
    """Raise it, two frames deep."""
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


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a handler for a signal for a while."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def signalled() -> None:
    """Be interrupted here."""
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_handler_raises_passes_the_guard(handler: str) -> None:
    """Whatever a handler is, what it raises in a guarded block reaches the agent, and is no failure."""
    guard = Guard()

    with handling(HANDLERS[handler]), pytest.raises(TooLateError), guard("record"):
        signalled()

    assert (guard.count, list(guard.failures)) == (0, [])


def test_what_a_handler_raises_passes_where_a_value_is_asked() -> None:
    """So it is where the user's own code is called, whose exceptions are not."""
    with handling(limit), pytest.raises(TooLateError):
        attempt(signalled, lambda _: None)

    with handling(limit):
        assert attempt(_raise, type) is TooLateError


def test_a_time_limit_in_the_middle_of_recording(tmp_path: Path) -> None:
    """It ends the call that was made; the calls before and after it are on file, and the files agree."""
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

    asked_for = [one.input_messages[-1].content for one in load(tmp_path / "run.json").llm_interactions]
    assert [one for one in asked_for if one != "during"] == ["before", "after"]
    assert [one for one in validate(tmp_path / "run.json").findings if one.severity == "error"] == []


def handled(act: Callable[[], object], at: int, handler: Callable[[], object]) -> bool:
    """Do something; at the nth moment at which the journal hears of signals, a handler acts. Returns whether it did."""
    left = at

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in {"call", "c_return"} and frame.f_code.co_filename == sys.modules[Journal.__module__].__file__:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                handler()

    sys.setprofile(profile)
    try:
        act()
    except OSError:
        pass
    finally:
        sys.setprofile(None)
    return left <= 0


def appended(journal: Journal, *texts: str) -> None:
    """Append a record of each text, all at once."""
    journal.append_all([("note", f'{{"text":"{text}"}}') for text in texts], TIME)


def refused(journal: Journal, *texts: str) -> None:
    """Have the system take a part of the records, and no more."""
    with system_limit(resource.RLIMIT_FSIZE, journal.path.stat().st_size + 20):
        appended(journal, *texts)


def interrupted_after_writing(journal: Journal) -> None:
    """Append a record, with Ctrl-C as soon as it is on file."""

    def profile(_: FrameType, event: str, function: object) -> None:
        if event == "c_return" and function is os.write:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)
    with suppress(KeyboardInterrupt):
        appended(journal, "interrupted")
    sys.setprofile(None)


def seqs_and_texts(path: Path) -> list[tuple[int, str]]:
    """The records of a journal."""
    return [(one.seq, one.data["text"]) for one in read(path.read_bytes()) if isinstance(one, Record)]


def test_what_a_handler_records_is_not_cut_off_with_a_later_record(tmp_path: Path) -> None:
    """Whenever in an append it comes, a later record for which there is no room takes no record with it."""
    for at in count(1):
        journal = Journal.create(tmp_path / f"{at}.jsonl")
        came = handled(partial(appended, journal, "one", "two"), at, partial(appended, journal, "handler"))
        with pytest.raises(OSError, match="of a record"):
            refused(journal, "x" * 1000)
        appended(journal, "last")
        journal.close()
        found = seqs_and_texts(journal.path)
        expected = {"one", "two", "last"} | ({"handler"} if came else set())
        assert ([seq for seq, _ in found], {text for _, text in found}) == ([*range(1, len(expected) + 1)], expected), (
            at
        )
        if not came:
            break


def test_what_a_handler_records_while_an_interrupted_write_is_asked_after(tmp_path: Path) -> None:
    """Behind a record that Ctrl-C came with, no number is given twice, whenever a handler records something."""
    for at in count(1):
        journal = Journal.create(tmp_path / f"{at}.jsonl")
        interrupted_after_writing(journal)
        came = handled(partial(appended, journal, "one", "two"), at, partial(appended, journal, "handler"))
        journal.close()
        found = seqs_and_texts(journal.path)
        expected = {"interrupted", "one", "two"} | ({"handler"} if came else set())
        assert ([seq for seq, _ in found], {text for _, text in found}) == ([*range(1, len(expected) + 1)], expected), (
            at
        )
        if not came:
            break


def test_what_a_handler_records_while_a_record_is_refused(tmp_path: Path) -> None:
    """It is on file, whenever it comes, and what is refused is taken back only where nothing stands behind it."""
    for at in count(1):
        journal = Journal.create(tmp_path / f"{at}.jsonl")
        appended(journal, "first")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

        def record(journal: Journal = journal, limits: tuple[int, int] = (soft, hard)) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            appended(journal, "handler")

        came = handled(partial(refused, journal, "x" * 1000), at, record)
        appended(journal, "last")
        journal.close()
        found = seqs_and_texts(journal.path)
        texts = [text for _, text in found if not text.startswith("x")]
        assert [seq for seq, _ in found] == [*range(1, len(found) + 1)], at
        assert texts == (["first", "handler", "last"] if came else ["first", "last"]), at
        if not came:
            break
