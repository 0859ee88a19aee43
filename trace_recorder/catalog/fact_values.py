"""The facts of a run, as values that SQLite can store. `facts.py` makes them from a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Place = Literal["prompts", "answers", "tools"]
PLACES: tuple[Place, ...] = get_args(Place)

MAX_INTEGER = 2**62
"""SQLite can store integers below this limit."""
TextInRun = tuple[int | None, Place, str, str]
"""The number of the step, the place, the kind of text in that place, and the text."""
NUMBERS = (
    *("steps", "calls", "failed_calls", "tool_calls", "failed_tool_calls"),
    *("tokens", "input_tokens", "output_tokens", "cost", "seconds"),
)
"""The numbers of a run: counts, tokens, US dollars, and the seconds that it took."""
SINGLE = ("trajectory_id", "task", "status", "success", "began", "ended", "error", *NUMBERS)
"""Facts with one value for each run. `began` and `ended` are seconds since 1970; `success` is 1, 0 or None."""
Single = str | int | float | None


@dataclass(frozen=True, slots=True)
class Named:
    """A name that a run has, such as a model, a tool or a key of its metadata.

    `number` is the count of a tool's uses, or the value of a reward. `failed` is the count of a tool's failures.
    """

    kind: str
    name: str
    text: str | None = None
    number: float | None = None
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one run.

    `single` has the values of `SINGLE`, in that order. `is_exact` is True if no text was changed to be stored, and the
    times are the same in every time zone.
    """

    single: tuple[Single, ...]
    named: tuple[Named, ...]
    texts: tuple[TextInRun, ...]
    is_exact: bool


def storable(text: str) -> str:
    """Return a text that SQLite can store: a lone surrogate becomes a question mark."""
    return text if is_storable(text) else text.encode("utf-8", "replace").decode()


def is_storable(text: str) -> bool:
    """Return whether a text has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in set(text))
