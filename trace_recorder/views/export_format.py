"""The record of an export format, `ExportFormat`: all that the package knows of one format.

Each format's module has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trace_recorder import registry
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.view import View

Kind = Literal["rows", "documents", "sessions", "tables"]
Option = Literal["include_incomplete", "content", "new_messages"]
Piece = tuple[str, Payload]
"""The name of a file with its content, a row without a name, or the name of a table with the rows of a run."""
ReportingView = Callable[..., tuple[Payload, Counter[str]]]
"""A view that also returns a count of what it left out.

For an iterator, the count is complete when the iterator ends.
"""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """The place of an exported run: the name of its file without a suffix, and the directory for its images."""

    name: str
    directory: Path = Path()


def conversation_file(name: str, number: int) -> str:
    """Return the name of the file of the run's conversation with this number, counted from 0."""
    return f"{name}.conversation-{number + 1}.jsonl" if number else f"{name}.jsonl"


def documents(made: Payload, place: OutputPlace) -> Iterator[Piece]:
    """Yield the one document of a run."""
    yield f"{place.name}.json", made


def sessions(made: Iterable[Payload], place: OutputPlace) -> Iterator[Piece]:
    """Yield the sessions of a run, each a file of lines."""
    for number, session in enumerate(made):
        yield conversation_file(place.name, number), session


def rows(made: Iterable[Payload], _: OutputPlace) -> Iterator[Piece]:
    """Yield the rows of a run."""
    for row in made:
        yield "", row


def tables(made: Mapping[str, Payload], _: OutputPlace) -> Iterator[Piece]:
    """Yield the rows of a run in each table."""
    yield from made.items()


_PIECES: Mapping[Kind, Callable[[Any, OutputPlace], Iterator[Piece]]] = {
    "documents": documents,
    "rows": rows,
    "sessions": sessions,
    "tables": tables,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """All that the package knows of one export format."""

    name: str
    """The name for `export --format`."""
    kind: Kind
    """The form of an exported run: rows in one file for all runs, a document, sessions (files of lines), or tables."""
    view: View[..., Any]
    """Converts a run."""
    arguments: Callable[[Trajectory, OutputPlace], tuple[Any, ...]] = lambda trajectory, _: (trajectory,)
    """Returns the arguments of the view."""
    pieces: Callable[[Any, OutputPlace], Iterator[Piece]] | None = None
    """Yields the files or rows of a converted run, or None for the usual ones of its kind."""
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The forms that `--form` chooses from, each with the arguments of the view that make it."""
    options: frozenset[Option] = frozenset()
    """The options of the command that are arguments of the view."""
    begins_with_metadata: bool = False
    """Whether the metadata of a dataset are the first row. Otherwise they are a separate file."""
    numbers_runs: bool = False
    """Whether each row has the number of its run, as `index`."""

    @property
    def suffix(self) -> str:
        """The suffix of a run's file."""
        return ".json" if self.kind == "documents" else ".jsonl"

    def with_options(self, form: str | None = None, **options: bool) -> ReportingView:
        """Return the view in one of its forms. Raises ValueError if the format has no such form or option."""
        if options.get("include_incomplete") and "include_incomplete" not in self.options:
            raise ValueError("this format keeps all answers: --include-incomplete is for openai and trl")
        if form is not None and form not in self.forms:
            said = f"its forms are {', '.join(self.forms)}" if self.forms else "it has only one form"
            raise ValueError(f"this format has no form {form!r}: {said}")
        arguments = self.forms[form] if form is not None else {}
        given = {name: value for name, value in options.items() if name in self.options}
        return partial(self.view.with_report, **arguments, **given)

    def outputs(
        self, view: ReportingView, trajectory: Trajectory, place: OutputPlace
    ) -> tuple[Iterator[Piece], Counter[str]]:
        """Return the pieces of a converted run, and the count of what was left out.

        The count is complete when all pieces have been read.
        """
        made, left_out = view(*self.arguments(trajectory, place))
        return (self.pieces or _PIECES[self.kind])(made, place), left_out


EXPORT_FORMATS: registry.Records[ExportFormat] = registry.EXPORT_FORMATS
