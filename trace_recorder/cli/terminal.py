"""Putting texts of a run before people: literally, with control characters made visible, and not too long.

`Sheet` writes labelled texts, wrapped where a terminal shows them and as they are where they are piped. Nothing is
ever taken for markup. Our own words are ASCII, so that they can be read in any locale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.text import Text

from trace_recorder.conversation import Payload

LINES = 12
CHARACTERS = 1000
"""A longer text is shortened, unless everything is asked for."""
STRING = 200
"""The longest string that is shown whole inside a JSON value."""

_LABEL = 11
_NARROWEST = 20
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Write what a terminal would obey or hide as an escape: ESC as \\x1b; line breaks and tabs stay."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shortened(text: str, *, lines: int = LINES, characters: int = CHARACTERS) -> str:
    """Cut a long text, and say how much of it is not shown."""
    kept = "\n".join(text.split("\n", lines)[:lines])[:characters]
    left = len(text) - len(kept)
    return f"{kept}... ({left:,} more characters)" if left else text


def compact(value: Payload, *, full: bool) -> str:
    """Write a JSON value on one line, long strings in it shortened."""
    return json.dumps(value if full else _with_short_strings(value), ensure_ascii=False)


def _with_short_strings(value: Payload) -> Payload:
    if isinstance(value, str):
        return shortened(value, lines=value.count("\n") + 1, characters=STRING)
    if isinstance(value, list):
        return [_with_short_strings(element) for element in value]
    if isinstance(value, dict):
        return {name: _with_short_strings(element) for name, element in value.items()}
    return value


def text_of(content: Payload, *, full: bool = True) -> str:
    """Write the content of a message, or the result of a tool: its texts, and what else it has as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(text_of(part, full=full) for part in content)
    if isinstance(content, dict) and content.keys() == {"type", "text"} and isinstance(content["text"], str):
        return content["text"]
    return compact(content, full=full)


def seconds(value: float | None) -> str:
    """Write a duration: 0.25 s, 12.3 s, 2 min 05 s, 1 h 02 min."""
    if value is None:
        return ""
    if value < 59.95:
        return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def moment(timestamp: str | None, form: str = "%Y-%m-%d %H:%M:%S %z") -> str:
    """Write a time in the local time zone; one that is no ISO 8601 as it stands."""
    try:
        return datetime.fromisoformat(timestamp or "").astimezone().strftime(form)
    except ValueError:
        return timestamp or ""


def counted(number: Payload, noun: str) -> str:
    """Write a number with its noun: 1 step, 1,200 steps."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True, slots=True)
class Entry:
    """A text with its label; without one, a heading. Where there is no text, nothing is written."""

    label: str
    text: str
    indent: int = 2
    style: str = ""


def heading(text: str) -> Entry:
    """Make an entry with which a new part begins."""
    return Entry("", text, indent=0, style="bold")


class Sheet:
    """Writes entries to a console: wrapped where that is a terminal, shortened unless `full`."""

    def __init__(self, console: Console, *, full: bool) -> None:
        self._full = full
        self._console = console
        self._begun = False

    def write(self, entries: Iterable[Entry]) -> None:
        """Write entries, with a free line between them and those before."""
        if self._begun:
            self._console.print()
        self._begun = True
        for entry in entries:
            if entry.text:
                self._write(entry)

    def _write(self, entry: Entry) -> None:
        beside = " " * entry.indent + (entry.label.ljust(_LABEL - 1) + " " if entry.label else "")
        below = " " * len(beside)
        for line in visible(entry.text if self._full else shortened(entry.text)).split("\n"):
            for piece in self._wrapped(Text(line, entry.style), len(beside)):
                self._console.print(Text.assemble((beside, "dim"), piece), soft_wrap=True)
                beside = below

    def _wrapped(self, line: Text, indent: int) -> list[Text]:
        if not self._console.is_terminal or not line.plain:
            return [line]
        return list(line.wrap(self._console, max(_NARROWEST, self._console.width - indent)))
