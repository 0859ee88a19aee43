"""Views, and `FormatWriter`, which says how `export` writes runs in a format.

A view is a function that converts a trajectory to a format, and can report which contents the format left out. The
decorator `@view` makes a view from a function whose first parameter is the report. Callers do not pass the report.
`with_report` takes the same arguments, and returns the converted run and the report:

    document = to_atif(trajectory)
    document, left_out = to_atif.with_report(trajectory)

The module of each format has a view, and the record of the format (`format.py`) has its `FormatWriter`.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from os import PathLike
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast

from trace_recorder import registry
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

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
    """A function that returns a run in the format of another tool."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Return the run in the format."""

    def with_report(self, *args: P.args, **kwargs: P.kwargs) -> tuple[T_co, LeftOut]:
        """Return the run in the format, and the report: how often the view left out each kind of content.

        If the view returns an iterator, the report is complete when the iterator ends.
        """


def view(write: Callable[Concatenate[LeftOut, P], T]) -> View[P, T]:
    """Make a view from a function that gets the report as its first argument and fills it."""

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


OutputKind = Literal["rows", "documents", "sessions", "tables"]
Option = Literal["include_incomplete", "content", "new_messages"]
Piece = tuple[str, Payload]
"""One output of an export: a file's name and its content, an empty name and a row, or a table's name and its rows."""
ReportingView = Callable[..., tuple[Payload, Counter[str]]]
"""A view that also returns the count of the contents that it left out.

If the view returns an iterator, the count is complete when the iterator ends.
"""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where an exported run is written: the name of its file without a suffix, and the directory for its images."""

    name: str
    directory: Path = Path()


def conversation_file(name: str, number: int) -> str:
    """Return the name of the file for the run's conversation with this number, counted from 0."""
    if number == 0:
        return f"{name}.jsonl"
    return f"{name}.conversation-{number + 1}.jsonl"


def documents(document: Payload, place: OutputPlace) -> Iterator[Piece]:
    """Yield the document of a run, with the name of its file."""
    yield f"{place.name}.json", document


def sessions(all_sessions: Iterable[Payload], place: OutputPlace) -> Iterator[Piece]:
    """Yield each session of a run, with the name of its file."""
    for number, session in enumerate(all_sessions):
        yield conversation_file(place.name, number), session


def rows(all_rows: Iterable[Payload], _: OutputPlace) -> Iterator[Piece]:
    """Yield each row of a run as a piece. The name of the piece is empty."""
    for row in all_rows:
        yield "", row


def tables(rows_by_table: Mapping[str, Payload], _: OutputPlace) -> Iterator[Piece]:
    """Yield the name of each table, with the rows of a run."""
    yield from rows_by_table.items()


_PIECES: Mapping[OutputKind, Callable[[Any, OutputPlace], Iterator[Piece]]] = {
    "documents": documents,
    "rows": rows,
    "sessions": sessions,
    "tables": tables,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatWriter:
    """How `export` writes runs in a format."""

    kind: OutputKind
    """How runs are written: as rows of one file, as documents, as sessions, or as tables.

    Documents are a JSON file for each run. Sessions are a file of JSON lines for each conversation.
    """
    view: View[..., Any]
    """Converts a run."""
    arguments: Callable[[Trajectory, OutputPlace], tuple[Any, ...]] = lambda trajectory, _: (trajectory,)
    """Returns the arguments with which the view is called for a run."""
    pieces: Callable[[Any, OutputPlace], Iterator[Piece]] | None = None
    """Yields the outputs of a converted run. If `pieces` is None, the function for `kind` is used."""
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The values of `--form`, each with the arguments of the view that produce this form."""
    options: frozenset[Option] = frozenset()
    """The options of the command `export` that the view accepts as arguments."""
    begins_with_metadata: bool = False
    """Whether the metadata of a dataset are its first row. Otherwise the metadata are a separate file."""
    numbers_runs: bool = False
    """Whether each row has a member `index`, the number of its run."""

    @property
    def suffix(self) -> str:
        """The suffix of a run's file."""
        if self.kind == "documents":
            return ".json"
        return ".jsonl"

    def with_options(self, form: str | None = None, **options: bool) -> ReportingView:
        """Return the view with the arguments for `form`, and with the `options` that the view accepts.

        Raises ValueError if the format has no such form, or if the view does not accept `include_incomplete`.
        """
        if options.get("include_incomplete") and "include_incomplete" not in self.options:
            raise ValueError("this format keeps all answers: --include-incomplete is for openai and trl")
        arguments: Mapping[str, Any] = {}
        if form is not None:
            arguments = self._arguments_of(form)
        chosen = {name: value for name, value in options.items() if name in self.options}
        return partial(self.view.with_report, **arguments, **chosen)

    def _arguments_of(self, form: str) -> Mapping[str, Any]:
        if form in self.forms:
            return self.forms[form]
        hint = "it has only one form"
        if self.forms:
            hint = f"its forms are {', '.join(self.forms)}"
        raise ValueError(f"this format has no form {form!r}: {hint}")

    def outputs(
        self, view: ReportingView, trajectory: Trajectory, place: OutputPlace
    ) -> tuple[Iterator[Piece], Counter[str]]:
        """Convert a run. Return its outputs, and the count of the contents that were left out.

        The count is complete when all outputs have been read.
        """
        converted, left_out = view(*self.arguments(trajectory, place))
        return (self.pieces or _PIECES[self.kind])(converted, place), left_out


EXPORT_FORMATS: registry.Records[FormatWriter] = registry.EXPORT_FORMATS
