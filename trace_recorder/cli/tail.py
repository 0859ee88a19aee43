"""The command `tail`: shows runs step by step, while their agents record them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from trace_recorder.cli.arguments import DEFAULT, Full, local_paths
from trace_recorder.cli.output import console, fail, print_lines
from trace_recorder.cli.read_files import UnreadableError, failure_message, find_runs, is_directory
from trace_recorder.cli.run_header import status_of, text_of_error
from trace_recorder.cli.show import Show
from trace_recorder.cli.text_layout import (
    Entry,
    EntryWriter,
    compact,
    in_one_line,
    pluralize,
    seconds,
)
from trace_recorder.clocks import now, seconds_between
from trace_recorder.dialects.dialect import is_in_progress
from trace_recorder.reading.growing_journal import GrowingJournal, ReplacedError
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.control_characters import escape_control_characters
from trace_recorder.values.origins import run_origin_of
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import Trajectory

MAX_TEXT_LINES = 8
"""Only the last lines of a text are shown, at most this many."""


def waiting_for(part: StepOrCall, now: str) -> Iterator[Text]:
    """Yield lines about a step or a call that has not ended: what it waits for, for how long, and the answer so far."""
    call = part.call
    if call is None or (call.answered and call.complete):
        names = [
            f"{tool.name} {compact(tool.arguments, full=False)}"
            for _, tool, result in tool_uses(part.tool_calls, part.tool_results)
            if tool is not None and result is None
        ]
        spent = 0.0
        if call is not None and call.duration_seconds is not None:
            spent = call.duration_seconds
        if names:
            yield _line(", ".join(names), part.timestamp, now, spent)
        return
    response = call.response
    style = "italic"
    text = response.content
    if text:
        style = "green"
    elif response.reasoning:
        text = response.reasoning
    else:
        text = "\n".join(f"{tool.name} {compact(tool.arguments, full=True)}" for tool in response.tool_calls)
    progress = "no answer yet"
    if text:
        progress = f"{pluralize(len(text), 'character')} so far"
    served = " ".join(filter(None, (call.provider, call.model)))
    yield _line(", ".join(filter(None, (call.interaction_id, served, progress))), part.timestamp, now)
    if text:
        yield Text(escape_control_characters(text.rstrip("\n")), style)


def _line(what: str, since: str | None, now: str, spent: float = 0.0) -> Text:
    """Return a line that says what the run waits for, and how long it has waited.

    The wait began `spent` seconds after `since`.
    """
    elapsed = seconds_between(since, now)
    whole = max(0, round((elapsed or 0.0) - spent))
    duration = f"{whole} s" if whole < 60 else seconds(whole)
    return Text(in_one_line(f"waiting {duration}: {what}"), "cyan")


class WaitingArea:
    """The last lines on a terminal, which are drawn again and again while runs wait.

    In a pipe, these lines are not written.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def draw(self, texts: Iterable[Text]) -> None:
        """Draw the last lines of each text in place of the lines that were drawn before.

        In a pipe, the texts are not read.
        """
        if not self._console.is_terminal:
            return
        if not self._live.is_started:
            self._live.start()
        width = self._console.width
        lines: list[Text] = []
        for text in texts:
            end = Text(text.plain[-MAX_TEXT_LINES * width :], text.style)
            lines += end.wrap(self._console, width)[-MAX_TEXT_LINES:]
        self._live.update(Text("\n").join(lines), refresh=True)

    def clear(self) -> None:
        """Remove the lines that were drawn last."""
        self._live.stop()


INTERVAL_SECONDS = 0.5

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH...]",
        help=f"Runs. A directory stands for the run that was written last. {DEFAULT}",
        show_default=False,
    ),
]
Last = Annotated[
    int,
    typer.Option(
        "-n", "--last", metavar="NUMBER", min=0, help="Show at most this many of the steps that are already recorded."
    ),
]


def tail(files: Files = None, last: Last = 3, full: Full = False) -> None:
    """Follow runs while their agents work.

    Each step is shown when its tools have returned. The command ends when all runs have ended or Ctrl-C is pressed. On
    a terminal, calls that wait for their answers are shown below the steps, with their waiting time and the text so
    far. Exits with 0 if all runs are completed, 1 if a run failed or was interrupted, 130 after Ctrl-C.
    """
    try:
        journals = dict.fromkeys(map(_journal, local_paths(files, "tail")))
        runs = _follow([*map(Follower, journals)], last, full=full, wait=lambda: time.sleep(INTERVAL_SECONDS))
    except OSError as error:
        fail(failure_message(Path(error.filename or "the run"), error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not all(run.status == "completed" for run in runs):
        raise typer.Exit(1)


def _journal(path: Path) -> Path:
    """Return the journal of a run. For a directory, return the newest journal in it or below it."""
    if not is_directory(path):
        journal = journal_path_for(path)
        if not journal.is_file():
            raise UnreadableError(f"{path} has no journal ({journal.name}), so it cannot be followed")
        return journal
    journals = [run for run in map(journal_path_for, find_runs([path])) if run.is_file()]
    if not journals:
        raise UnreadableError(f"there are no journals in {path}")
    return max(journals, key=lambda run: run.stat().st_mtime)


def _follow(followers: Sequence[Follower], last: int, *, full: bool, wait: Callable[[], None]) -> list[Trajectory]:
    """Show the steps of runs until all runs have ended, and return the runs.

    If there are several runs, the name of a run is printed before its steps.
    """
    printer = _Printer(full=full, names=len(followers) > 1)
    runs = [_FollowedRun(follower, printer, last) for follower in followers]
    try:
        while any(run.may_continue for run in runs):
            printer.draw(line for run in runs if run.may_continue for line in run.waiting(now()))
            wait()
            for run in runs:
                run.show_more()
    finally:
        printer.clear()
    return [run.trajectory for run in runs]


class _Printer:
    """Prints new steps of runs.

    If `names` is True, it prints the name of a run if the previous step was of another run.
    """

    def __init__(self, *, full: bool, names: bool) -> None:
        self.full = full
        self._out = console()
        self._writer = EntryWriter(self._out, full=full)
        self._names = names
        self._last: Path | None = None
        self._area = WaitingArea(self._out)
        self.draw, self.clear = self._area.draw, self._area.clear

    def line(self, path: Path, text: str) -> None:
        """Print a line about a run."""
        self._name(path)
        print_lines(self._out, [text], "bold")

    def step(self, path: Path, entries: Sequence[Entry]) -> None:
        """Print a step of a run, and flush the output, so that a pipe gets the step at once too."""
        self._name(path)
        self._writer.write(entries)
        self._out.file.flush()

    def _name(self, path: Path) -> None:
        """Remove the lines of the waiting area.

        If `names` is True and the last printed line was of another run, print the name of this run.
        """
        self.clear()
        if self._names and path != self._last:
            if self._last:
                print_lines(self._out, [""], "bold")
            print_lines(self._out, [f"==> {path} <=="], "bold")
        self._last = path


class _FollowedRun:
    """A run that is followed: which of its steps are printed, and whether it may continue."""

    def __init__(self, follower: Follower, printer: _Printer, last: int) -> None:
        self._follower = follower
        self._printer = printer
        self.trajectory = follower.read()
        self._shown = ShownSteps(self.trajectory, full=printer.full)
        entries = [*self._shown.settled(self.trajectory)]
        words = [f"{pluralize(len(entries), 'step')} so far"]
        origin = run_origin_of(self.trajectory.metadata)
        if origin:
            words.insert(0, str(origin))
        printer.line(follower.path, f"{follower.path}: {', '.join(words)}")
        self._print(entries[max(0, len(entries) - last) :])

    @property
    def may_continue(self) -> bool:
        """Whether the journal may still grow."""
        return self.trajectory.status in {"running", "unknown"}

    def show_more(self) -> None:
        """Print the steps that were settled since the steps were last printed."""
        if self.may_continue:
            self.trajectory = self._follower.read()
            self._print([*self._shown.settled(self.trajectory)])

    def waiting(self, timestamp: str) -> list[Text]:
        """Return the lines about the calls and tools that the run waits for."""
        return [line for part in self._shown.open_parts(self.trajectory) for line in waiting_for(part, timestamp)]

    def _print(self, steps: Sequence[list[Entry]]) -> None:
        for step in steps:
            self._printer.step(self._follower.path, step)
        if not self.may_continue:
            text = f"the run has ended: {status_of(self.trajectory)} {text_of_error(self.trajectory.error)}"
            self._printer.line(self._follower.path, text.rstrip())


class Follower:
    """A reader of a growing journal. Each `read` reads only the records that were added since the last `read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = GrowingJournal(path)

    def read(self) -> Trajectory:
        """Return the run as far as it is recorded.

        Raises OSError, and TrajectoryFormatError if the file is not a journal.
        """
        try:
            self._journal.read_more()
        except ReplacedError:
            self._journal = GrowingJournal(self.path)
            self._journal.read_more()
        return self._journal.trajectory()


class ShownSteps:
    """Makes the entries of each step of a growing run. A step is shown once, when it is settled (`_is_settled`)."""

    def __init__(self, trajectory: Trajectory, *, full: bool) -> None:
        self._show = Show(trajectory, full=full)
        self._shown: set[Hashable] = set()

    def settled(self, trajectory: Trajectory) -> Iterator[list[Entry]]:
        """Yield the entries of each step that is settled and was not yielded before."""
        self._show.update(trajectory)
        parts = steps_and_calls(trajectory)
        has_ended = trajectory.status not in {"running", "unknown"}
        for number, part in enumerate(parts, start=1):
            key = _key(part)
            if key not in self._shown and (has_ended or _is_settled(part, is_last=number == len(parts))):
                self._shown.add(key)
                yield [*self._show.part(part)]

    def open_parts(self, trajectory: Trajectory) -> list[StepOrCall]:
        """Return the steps and calls that are not settled."""
        return [part for part in steps_and_calls(trajectory) if _key(part) not in self._shown]


def _key(part: StepOrCall) -> Hashable:
    if part.call:
        return part.call.interaction_id
    if part.step:
        return part.step.step_number, part.step.timestamp, part.step.agent
    return None


def _is_settled(part: StepOrCall, *, is_last: bool) -> bool:
    """Return whether a step is settled: its call has ended, and its tools have returned or a later step has begun."""
    call = part.call
    has_answer = call is not None and call.answered and call.complete and not is_in_progress(call.response)
    if call is not None and not (has_answer or call.error or call.ended_by):
        return False
    return not is_last or (call is not None and len(part.tool_results) >= len(part.tool_calls))
