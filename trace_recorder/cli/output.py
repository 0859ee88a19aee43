"""Prints the output of all commands: text on the console, the message of a failure, JSON for machines, a progress bar.

JSON is indented and made in parts, so that a document is never in memory as a whole. The text equals `json.dumps(value,
indent=2)`. A message object that occurs in several lists of messages is encoded once. A lazy sequence is read element
by element, and so is an iterator, which becomes a list.

The progress bar appears on stderr if stderr is a terminal and the work takes more than a second. The bar shows only
numbers, and no contents of a run. No thread draws the bar: it is updated between two files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, starmap
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TextIO, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.cli.text_layout import in_one_line
from trace_recorder.values.control_characters import escape_json_text
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

T = TypeVar("T")
PART_CHARACTERS = 256 * 1024
"""A part of the JSON text has about this many characters."""
_INDENT = "  "
_SCALARS = (str, int, float, type(None))
_MAX_LEVEL = 3
"""In a document, the lists at this depth are lists of messages.

The same message object may be in several of these lists. Any other value at this depth is encoded as a whole.
"""


def console() -> Console:
    """Return a console that prints text literally, without markup."""
    return Console(highlight=False, markup=False, emoji=False)


def table_width(out: Console) -> int | None:
    """Return the largest width of a table, or None for no limit.

    The width in a pipe is limited only if $COLUMNS is set.
    """
    if out.is_terminal or "COLUMNS" in os.environ:
        return out.width
    return None


def print_lines(out: Console, lines: Iterable[str | Text], style: str = "") -> None:
    """Print each text on one line. A `Text` is printed with its own styles, and must not have control characters."""
    for line in lines:
        if isinstance(line, Text):
            out.print(line, soft_wrap=True)
        elif style:
            out.print(Text(in_one_line(line), style), soft_wrap=True)
        else:
            typer.echo(in_one_line(line), file=out.file)  # takes a tenth of the time of `Console.print`


StyledLine = Sequence[tuple[str, str]]
"""The texts of a line, each with its style. They have no control characters."""
_LINES_AT_ONCE = 500
"""This many lines of a table are printed together, because each call of `print` costs time."""


def print_table(out: Console, lines: Iterable[StyledLine]) -> None:
    """Print the lines of a table as they come, some at a time, without spaces at their ends."""
    remaining = iter(lines)
    while group := [*islice(remaining, _LINES_AT_ONCE)]:
        if out.color_system is None:
            plain = ("".join(text for text, _ in line).rstrip() for line in group)
            typer.echo("\n".join(plain), file=out.file)
            continue
        styled = [*starmap(Text.assemble, group)]
        for text in styled:
            text.rstrip()
        out.print(Text("\n").join(styled), soft_wrap=True)


def warn(message: str) -> None:
    """Print a sentence on stderr."""
    typer.echo(f"trace-recorder: {in_one_line(message)}", err=True)


def fail(message: str, code: int = 1) -> NoReturn:
    """Print a sentence on stderr, and exit."""
    warn(message)
    raise typer.Exit(code)


def print_json(value: Payload) -> None:
    """Print a value as JSON, in the terminal's encoding or in ASCII, with control characters escaped."""
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    for part in json_parts(value, ascii_only=ascii_only):
        sys.stdout.write(escape_json_text(part))
    sys.stdout.write("\n")


def json_parts(value: Payload, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield the JSON text of a value, in parts of about `PART_CHARACTERS`."""
    waiting: list[str] = []
    size = 0
    for piece in _JsonWriter(ascii_only=ascii_only).pieces(value, 0):
        waiting.append(piece)
        size += len(piece)
        if size >= PART_CHARACTERS:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)


class _JsonWriter:
    """Makes the JSON text of a value in small pieces.

    The text of a shared object is kept, and used again where the object occurs again. The object is kept too, so that
    no new object gets its `id`.
    """

    def __init__(self, *, ascii_only: bool) -> None:
        self._ascii_only = ascii_only
        self._write = make_json_writer(", ", ": ", ensure_ascii=ascii_only)
        self._write_name = lru_cache(self._write)
        self._texts: dict[int, tuple[Payload, str]] = {}

    def pieces(self, value: Payload, level: int) -> Iterator[str]:
        """Yield the JSON text of a value at this depth."""
        if isinstance(value, _SCALARS):
            yield self._write(value)
        elif isinstance(value, Mapping) and value and level < _MAX_LEVEL:
            yield from self._object(value, level)
        elif isinstance(value, Iterator):
            yield from self._whole_elements(value, level)
        elif isinstance(value, Sequence) and level <= _MAX_LEVEL:
            yield from self._array(value, level)
        else:
            yield self._whole(value, level)

    def _object(self, value: Mapping[Payload, Payload], level: int) -> Iterator[str]:
        before, between = "{\n" + _INDENT * (level + 1), ",\n" + _INDENT * (level + 1)
        for name, member in value.items():
            if isinstance(name, str):
                name_text = self._write_name(name)
            else:
                name_text = self._write({name: 0})[1:-4]
            if isinstance(member, _SCALARS):  # most members are
                yield f"{before}{name_text}: {self._write(member)}"
            else:
                yield f"{before}{name_text}: "
                yield from self.pieces(member, level + 1)
            before = between
        yield "\n" + _INDENT * level + "}"

    def _array(self, value: Sequence[Payload], level: int) -> Iterator[str]:
        before, between = "[\n" + _INDENT * (level + 1), ",\n" + _INDENT * (level + 1)
        is_empty = True
        for element in value:
            yield before
            if level == _MAX_LEVEL:
                if id(element) not in self._texts:
                    self._texts[id(element)] = element, self._whole(element, level + 1)
                yield self._texts[id(element)][1]
            else:
                yield from self.pieces(element, level + 1)
            before, is_empty = between, False
        if is_empty:
            yield "[]"
        else:
            yield "\n" + _INDENT * level + "]"

    def _whole_elements(self, elements: Iterator[Payload], level: int) -> Iterator[str]:
        before, between = "[\n" + _INDENT * (level + 1), ",\n" + _INDENT * (level + 1)
        is_empty = True
        for element in elements:
            yield before + self._whole(element, level + 1)
            before, is_empty = between, False
        if is_empty:
            yield "[]"
        else:
            yield "\n" + _INDENT * level + "]"

    def _whole(self, value: Payload, level: int) -> str:
        text = self._write(value)
        if isinstance(value, _SCALARS) or not isinstance(value, Mapping | Sequence):
            return text
        try:
            text = msgspec.json.format(text, indent=2)  # takes a tenth of the time of `json.dumps` with an indent
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):  # such as NaN, or a lone surrogate
            text = json.dumps(value, ensure_ascii=self._ascii_only, indent=2)
        return text.replace("\n", "\n" + _INDENT * level)


SECONDS_WITHOUT = 1.0
"""Work that takes fewer seconds than this has no progress bar."""
_SECONDS_BETWEEN = 0.1
"""The shortest time between two updates of the progress bar, in seconds."""


class Progress:
    """A progress bar that counts files that are done. As a context manager, it removes the bar at the end of the block.

    If `total` is None, the bar shows only how many files are done. `hide` must be called before anything is printed.
    """

    def __init__(
        self,
        total: int | None,
        file: TextIO | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds_without: float = SECONDS_WITHOUT,
    ) -> None:
        self._total = total
        self._file = file or sys.stderr
        self._clock = clock
        self._done = 0
        self._next = clock() + seconds_without
        self._is_shown = self._file is not None and self._file.isatty()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.hide()

    def over(self, results: Iterable[T]) -> Iterator[T]:
        """Yield the results, one for each file, and count the results that the caller has processed."""
        self._draw()
        for result in results:
            yield result
            self._done += 1
            self._draw()

    def hide(self) -> None:
        """Remove the bar, so that a line can be printed in its place."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self) -> None:
        now = self._clock()
        if not self._is_shown or now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN
        if self._bar is None:
            self._bar = _start_bar(self._file, self._done, self._total)
        else:
            self._bar.update(self._bar.task_ids[0], completed=self._done, refresh=True)


def _start_bar(file: TextIO, done: int, total: int | None) -> Bar:
    from rich.progress import (  # noqa: PLC0415 - only long work on a terminal needs it
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TimeElapsedColumn,
    )

    bar = Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(file=file),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=total, completed=done)
    bar.start()
    return bar


class RunLoop:
    """A loop over the results of runs, with a progress bar.

    It prints why a run has no result. `failed` counts the runs without a result.
    """

    def __init__(self, total: int) -> None:
        self.failed = 0
        self._console = console()
        self._progress = Progress(total)

    def over(self, results: Iterable[T | UnreadableError]) -> Iterator[T]:
        """Yield the results, and print the errors."""
        with self._progress as progress:
            for result in progress.over(results):
                if isinstance(result, UnreadableError):
                    self.failed += 1
                    progress.hide()
                    warn(str(result))
                else:
                    yield result

    def print(self, lines: Iterable[str | Text]) -> None:
        """Print lines above the progress bar."""
        self._progress.hide()
        print_lines(self._console, lines)
