"""The `repr` of values that may be large: one line of bounded length, with counts in place of lists."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping

_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 80, 80


def call_repr(name: str, members: Mapping[str, object], counts: Iterable[tuple[int, str]]) -> str:
    """Return `Name(member=value, …, 2 things)`, with long values cut in the middle."""
    shown = [f"{member}={_short.repr(value)}" for member, value in members.items()]
    shown += [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts]
    return f"{name}({', '.join(shown)})"
