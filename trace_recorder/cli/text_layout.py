"""Formats the texts of a run for people: makes control characters visible, and shortens long texts.

`EntryWriter` writes labelled texts. On a terminal, it wraps long lines; in a pipe, it does not. No text is interpreted
as markup. The package's own words are ASCII, so that they can be read in any locale.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache, partial

from rich.console import Console
from rich.text import Text

from trace_recorder.dialects.json_access import map_inside
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.control_characters import escape_control_characters
from trace_recorder.values.json_text import write_json
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

MAX_LINES = 12
MAX_CHARACTERS = 1000
"""A text with more characters than this is shortened, unless the full text is requested."""
MAX_STRING = 200
"""A string inside a JSON value is cut to this many characters, unless the full text is requested."""

_LINES_AT_ONCE = 100
"""At most this many lines are printed together on a terminal, because each call of `print` costs time."""
_LABEL_WIDTH = 11
_MIN_WIDTH = 20
_MAX_MARGINS = 256
"""At most this many labels are remembered with their margins. A step may have labels of the agent's own."""


def in_one_line(text: str) -> str:
    """Escape control characters and line breaks."""
    return escape_control_characters(text).replace("\n", "\\n")


def shorten(text: str) -> str:
    """Shorten a long text, and append the number of characters that are not shown."""
    if len(text) <= MAX_CHARACTERS and text.count("\n") < MAX_LINES:
        return text
    kept = "\n".join(text.split("\n", MAX_LINES)[:MAX_LINES])[:MAX_CHARACTERS]
    if "\n" in kept:
        return _cut(text, len(kept), "\n")
    return _cut(text, len(kept))


def _cut(text: str, size: int, between: str = "") -> str:
    remaining = len(text) - size
    if remaining <= 0:
        return text
    return f"{text[:size]}{between}... ({remaining:,} more characters)"


def compact(value: Payload, *, full: bool) -> str:
    """Return a value as JSON on one line. If `full` is False, long strings are shortened."""
    if not full:
        value = _with_short_strings(value)
    return write_json(value)


def _with_short_strings(value: Payload) -> Payload:
    if isinstance(value, str):
        return _cut(value, MAX_STRING)
    return map_inside(_with_short_strings, value)


def shown_text(value: Payload, *, full: bool = True) -> str:
    """Return any value as text: a text unchanged, a list as the texts of its elements, anything else as JSON."""
    return plain_text(value, partial(compact, full=full))


def number(value: Payload) -> str:
    """Format a number with thousands separators. Anything but a number is formatted as text."""
    if isinstance(value, int | float):
        return f"{value:,}"
    return shown_text(value)


def rounded_number(value: Payload) -> str:
    """Format a count in at most six characters: 9,999, 12.3k, 1.25M. Anything but a number is formatted as text."""
    if not isinstance(value, int | float) or abs(value) < 10_000:
        return number(value)
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if abs(value) < 999.5 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


_SIZE_UNITS = "KMGT"


def size_text(count: int) -> str:
    """Format a number of bytes in powers of 1,024, as `du -h` does: 512, 1.5K, 23M."""
    size, unit = float(count), ""
    for name in _SIZE_UNITS:
        if size < 999.5:
            break
        size, unit = size / 1024, name
    if unit and size < 9.95:
        return f"{size:.1f}{unit}"
    return f"{size:.0f}{unit}"


def parse_size(text: str) -> int | None:
    """Parse a number of bytes, which may end in K, M, G or T: 500M is 500 * 1,024 * 1,024. None for another text."""
    match = re.fullmatch(rf"(\d{{1,15}}(?:\.\d+)?)([{_SIZE_UNITS}]?)", text.strip().upper())
    if match is None:
        return None
    return int(float(match[1]) * 1024 ** (_SIZE_UNITS.find(match[2] or " ") + 1))


def seconds(value: Payload) -> str:
    """Format a duration: 25 ms, 2.50 s, 12.3 s, 2 min 05 s, 1 h 02 min. Anything but a number is formatted as text."""
    if not isinstance(value, int | float):
        return shown_text(value)
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def local_time(timestamp: Payload, form: str = "%Y-%m-%d %H:%M:%S %z") -> str:
    """Format a time in the local time zone.

    A text that is not ISO 8601 is unchanged, and so is a time whose local year is not from 1 to 9999.
    """
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime(form)
    except (ValueError, TypeError, OverflowError):
        return shown_text(timestamp)


def pluralize(count: Payload, noun: str) -> str:
    """Format a number with its noun: 1 step, 1,200 steps, 2 retries."""
    if count == 1:
        return f"{number(count)} {noun}"
    if noun.endswith("ry"):
        return f"{number(count)} {noun[:-1]}ies"
    return f"{number(count)} {noun}s"


class Entry(Struct, frozen=True, gc=False):
    """A text with its label, or a heading, which has no label. An entry without text is not written."""

    label: str
    text: str
    indent: int = 2
    style: str = ""


def heading(text: str) -> Entry:
    """Return the heading of a section."""
    return Entry("", text, indent=0, style="bold")


@lru_cache(_MAX_MARGINS)
def _margin(label: str, indent: int) -> str:
    """Return the text before the first line of an entry."""
    if not label:
        return " " * indent
    return " " * indent + in_one_line(label).ljust(_LABEL_WIDTH - 1) + " "


class EntryWriter:
    """Writes entries to a console. Lines are wrapped on a terminal. If `full` is False, long texts are shortened."""

    def __init__(self, console: Console, *, full: bool) -> None:
        self._full = full
        self._console = console
        self._is_terminal = console.is_terminal
        self._begun = False

    def write(self, entries: Iterable[Entry]) -> None:
        """Write entries, after an empty line if entries were written before."""
        waiting: list[str] = []
        if self._begun and self._is_terminal:
            self._console.print()
        elif self._begun:
            waiting.append("")
        self._begun = True
        for entry in entries:
            if not entry.text:
                continue
            label, text = _margin(entry.label, entry.indent), entry.text
            if not self._full:
                text = shorten(text.rstrip("\n"))
            lines = escape_control_characters(text).split("\n")
            if not self._is_terminal and "\t" not in text:
                for line in lines:
                    waiting.append(label + line if line else "")  # an empty line has no margin
                    label = " " * len(label)
                continue
            self._write_lines(waiting)
            waiting = []
            for start in range(0, len(lines), _LINES_AT_ONCE):
                self._print_styled(label, lines[start : start + _LINES_AT_ONCE], entry.style, first=start == 0)
        self._write_lines(waiting)

    def _write_lines(self, lines: Sequence[str]) -> None:
        """Write lines without styles, all at once: to find the file of a console takes time."""
        if lines:
            self._console.file.write("\n".join([*lines, ""]))

    def _print_styled(self, label: str, lines: Iterable[str], style: str, *, first: bool) -> None:
        pieces = [piece for line in lines for piece in self._wrapped(Text(line, style), len(label))]
        margin = " " * len(label)
        if not first:
            label = margin
        rows = []
        for piece in pieces:
            if piece:
                rows.append(Text.assemble((label, "dim"), piece))
            else:
                rows.append(Text())
            label = margin
        self._console.print(Text("\n").join(rows), soft_wrap=True)

    def _wrapped(self, line: Text, indent: int) -> list[Text]:
        if not self._is_terminal or not line.plain:
            return [line]
        pieces = list(line.wrap(self._console, max(_MIN_WIDTH, self._console.width - indent)))
        for piece in pieces:
            piece.rstrip()
        return pieces
