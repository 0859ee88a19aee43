"""Views: functions that convert a trajectory to a format and can report which contents the format left out.

The decorator `@view` makes a view from a function whose first parameter is the report. Callers do not pass the report.
`with_report` takes the same arguments, and returns the value and the report:

    document = to_atif(trajectory)
    document, left_out = to_atif.with_report(trajectory)
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from functools import wraps
from os import PathLike
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class LeftOut(Counter[str]):
    """Counts how often a view left out each kind of content, by a description of the kind. No count is 0."""

    def add(self, what: str, times: int = 1) -> None:
        """Add `times` to the count of the contents that `what` describes."""
        if times:
            self[what] += times


class View(Protocol[P, T_co]):
    """A function that returns a run in another format."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Return the run in the format."""

    def with_report(self, *args: P.args, **kwargs: P.kwargs) -> tuple[T_co, LeftOut]:
        """Return the run in the format, and the report: how often the view left out each kind of content.

        If the view returns an iterator, the report is complete when the iterator ends.
        """


def view(write: Callable[Concatenate[LeftOut, P], T]) -> View[P, T]:
    """Make a view from a function whose first parameter is the report that it fills."""

    def with_report(*args: P.args, **kwargs: P.kwargs) -> tuple[T, LeftOut]:
        _refuse_path(write.__name__, args)
        left_out = LeftOut()
        return write(left_out, *args, **kwargs), left_out

    @wraps(write)
    def value_of(*args: P.args, **kwargs: P.kwargs) -> T:
        _refuse_path(write.__name__, args)
        return write(LeftOut(), *args, **kwargs)

    written = inspect.signature(write)
    signature = written.replace(parameters=[*written.parameters.values()][1:])
    value_of.__signature__ = signature  # type: ignore[attr-defined]  # help() and inspect show it
    value_of.with_report = with_report  # type: ignore[attr-defined]  # `View` declares it
    return cast("View[P, T]", value_of)


def _refuse_path(name: str, arguments: tuple[object, ...]) -> None:
    """Raise TypeError if a view gets the path of a run instead of the run."""
    if arguments and isinstance(arguments[0], str | PathLike):
        raise TypeError(f"{name}() takes a trajectory, but got a path: {name}(load({str(arguments[0])!r})).")
