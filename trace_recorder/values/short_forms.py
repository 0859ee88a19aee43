"""Makes short forms of values that may be large: a `repr`, and HTML for a notebook.

A `repr` is one line of bounded length, with counts in place of lists. The HTML is one small table without scripts,
links and images. Every recorded text in it is escaped, shortened, and isolated from the writing direction of the text
around it (`<bdi>`).
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

MAX_CHARACTERS = 300
"""At most this many characters of a text are shown. If the text is longer, its length follows in parentheses."""
MAX_ROWS = 20
"""The last elements of a list are shown, at most this many."""


def table(name: str, members: Mapping[str, object], *, details: Iterable[str] = ()) -> str:
    """Return an HTML table with a row for each member that is not None or empty.

    `details` are texts of HTML that follow the table.
    """
    rows = "".join(
        f"<tr><th style='text-align:left'>{_cell(member)}</th><td style='text-align:left'>{_cell(value)}</td></tr>"
        for member, value in members.items()
        if value not in (None, "", (), [], {})
    )
    return f"<table><caption style='text-align:left'><b>{_cell(name)}</b></caption>{rows}</table>{''.join(details)}"


def folded_rows(title: str, rows: Sequence[Sequence[object]]) -> str:
    """Return an HTML table of the last rows of a list.

    The table is closed at first, and opens by a click on the title. Return an empty text for an empty list.
    """
    if not rows:
        return ""
    hidden = len(rows) - MAX_ROWS
    more = ""
    if hidden > 0:
        more = f"<tr><td>… {hidden} before</td></tr>"
    cells = ([f"<td style='text-align:left'>{_cell(value)}</td>" for value in row] for row in rows[-MAX_ROWS:])
    shown = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<details><summary>{_cell(title)}</summary><table>{more}{shown}</table></details>"


def _cell(value: object) -> str:
    if value is None:
        text = ""
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}… ({len(text)} characters)"
    encodable = text.encode("utf-8", "replace").decode()
    escaped = import_module("html").escape(encodable)  # two modules that only a notebook needs
    return f"<bdi>{escaped}</bdi>"


_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 80, 80


def call_repr(name: str, members: Mapping[str, object], counts: Iterable[tuple[int, str]] = ()) -> str:
    """Return a repr such as `Name(member=value, …, 2 steps)`.

    A long value is cut in the middle. Each element of `counts` is a count and a noun.
    """
    shown = [f"{member}={_short.repr(value)}" for member, value in members.items()]
    for count, noun in counts:
        plural = "" if count == 1 else "s"
        shown.append(f"{count} {noun}{plural}")
    return f"{name}({', '.join(shown)})"
