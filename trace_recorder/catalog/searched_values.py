"""The classes for the values of a run.

All their values can be stored in SQLite. `run_values.py` reads the values from a run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

SearchPlace = Literal["prompts", "answers", "tools"]
PLACES: tuple[SearchPlace, ...] = get_args(SearchPlace)

MAX_INTEGER = 2**62
"""Integers with this absolute value or more are not stored. SQLite's integers have 64 bits."""


class TextInRun(NamedTuple):
    """A text of a run. `kind` is for people, such as "result" or "thought"."""

    step: int | None
    place: SearchPlace
    kind: str
    text: str


class TextSearch(NamedTuple):
    """A search for the runs that have a text with certain words, or a text for which a function returns True.

    `phrase` are the words, as FTS5 reads them. If it is None, `is_wanted` is called for the texts in `places`. It
    returns True only for texts that contain `part`, so the other texts need not be taken apart.
    """

    phrase: str | None = None
    part: str = ""
    is_wanted: Callable[[str], bool] = bool
    places: Collection[SearchPlace] = PLACES


NUMBERS = (
    *("steps", "calls", "failed_calls", "tool_calls", "failed_tool_calls"),
    *("tokens", "input_tokens", "output_tokens", "cost", "seconds"),
)
"""The names of a run's figures: counts, tokens, the cost in US dollars, and the duration in seconds."""
SINGLE = (
    *("trajectory_id", "parent", "session", "task", "status", "success", "began", "ended", "error", *NUMBERS),
    *("model", "provider", "rewards", "forked_from", "replay_of", "origin_file"),
)
"""The names of the values that have one value for each run.

`began` and `ended` are seconds since 1970, and `success` is 1, 0 or None. `rewards` is the sum of the rewards of the
run as a whole. `forked_from` and `replay_of` are the trajectory ids of the run that this run continues or repeats, and
`origin_file` is the name of its file.
"""
Single = str | int | float | None


@dataclass(frozen=True, slots=True)
class Named:
    """A fact with a name.

    Its kind is "model", "provider", "agent", "tool", "reward", "meta", "annotation", "tag" or "error".

    `text` is the value of an annotation or of a member of the metadata. `number` is how often a tool was used, or the
    value of a reward. `failed` is how often a tool failed.
    """

    kind: str
    name: str
    text: str | None = None
    number: float | None = None
    failed: int | None = None


COUNTED = ("status", "success", "model", "tool", "reward")
"""The kinds of values by which a search counts runs."""
Counted = tuple[tuple[str, str], ...]
"""Pairs of a kind in `COUNTED` and a value of the run, such as ("tool", "bash")."""


def counted_values(status: Single, success: Single, named: Iterable[tuple[str, str]]) -> Counted:
    """Return the values by which a search counts a run. `named` has the kinds and names of the run's facts."""
    of_run = [("status", str(status))]
    if success is not None:
        of_run.append(("success", "yes" if success else "no"))
    return (*of_run, *(pair for pair in named if pair[0] in COUNTED))


@dataclass(frozen=True, slots=True)
class RunValues:
    """The values of one run.

    `single` has the values of the names in `SINGLE`, in that order. `is_exact` is False if a text had to be changed to
    be stored, or if the start time has no time zone.
    """

    single: tuple[Single, ...]
    named: tuple[Named, ...]
    texts: tuple[TextInRun, ...]
    is_exact: bool

    @property
    def counted(self) -> Counted:
        """The values by which a search counts the run."""
        by_name = dict(zip(SINGLE, self.single, strict=True))
        named = ((value.kind, value.name) for value in self.named)
        return counted_values(by_name["status"], by_name["success"], named)


def storable(text: str) -> str:
    """Return a text that SQLite can store, with a question mark in place of each lone surrogate."""
    if is_storable(text):
        return text
    return text.encode("utf-8", "replace").decode()


def is_storable(text: str) -> bool:
    """Return whether SQLite can store a text. It cannot store a lone surrogate."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in set(text))
