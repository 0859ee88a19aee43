"""Runs as a data frame of pandas or polars: a row for each run, call, step, tool call, message or reward.

Neither library is a dependency. Polars is used if it is installed, or else pandas. `columns.py` has the columns. Their
names and types are the same for every run, and an unknown value is null. An object or a list is written as JSON;
`to_arrow` has Arrow structures instead.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from trace_recorder.errors import MissingExtraError
from trace_recorder.tables.columns import TABLES, CellType, Of, json_text
from trace_recorder.tables.rows import Cells, Runs, cells_of
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]  # its stubs are a package of their own
    import polars

Library = Literal["polars", "pandas"]
_TYPES: dict[CellType, tuple[str, str]] = {
    "integer": ("Int64", "Int64"),
    "number": ("Float64", "float64"),
    "boolean": ("Boolean", "boolean"),
    "time": ("Datetime", "datetime64[us, UTC]"),
}
"""The types of polars and of pandas. All other columns are text."""


@overload
def to_dataframe(runs: Runs, of: Of = "calls", *, library: Literal["polars"]) -> polars.DataFrame: ...
@overload
def to_dataframe(runs: Runs, of: Of = "calls", *, library: Literal["pandas"]) -> pandas.DataFrame: ...
@overload
def to_dataframe(runs: Runs, of: Of = "calls", library: Library | None = None) -> Any: ...
def to_dataframe(runs: Runs, of: Of = "calls", library: Library | None = None) -> Any:
    """Return a data frame of one run or of several, with a row for each run, call, step, tool call, message or reward.

    Every row has its run's file, id, task, status and success. A column has the same type in every frame: text, a
    nullable integer, a float, a boolean, or a time in UTC. docs/tables.md has the columns. `library` chooses between
    polars and pandas. By default it is polars if that is installed, or else pandas. Raises MissingExtraError if the
    library is not installed, ValueError if `of` is not a table.
    """
    check_table(runs, of, "to_dataframe")
    module = _library(library)
    cells = {name: [*map(_flat, values)] for name, values in cells_of(runs, of).items()}
    return _polars_frame(module, cells, of) if module.__name__ == "polars" else _pandas_frame(module, cells, of)


def check_table(runs: Runs, of: str, function: str) -> None:
    """Raise ValueError if there is no such table, and TypeError if the runs are a path."""
    if of not in get_args(Of):
        raise ValueError(f"of={of!r}: one of {', '.join(get_args(Of))}")
    if isinstance(runs, str | PathLike):
        raise TypeError(f"{function}() takes trajectories, but got a path: {function}(load({str(runs)!r})).")


def _polars_frame(polars: Any, cells: Cells, of: Of) -> Any:
    types = {column.name: getattr(polars, _TYPES.get(column.type, ("String", ""))[0]) for column in TABLES[of]}
    times = {name: type_("us", "UTC") for name, type_ in types.items() if type_ is polars.Datetime}
    return polars.DataFrame(cells, schema=types | times)


def _pandas_frame(pandas: Any, cells: Cells, of: Of) -> Any:
    types = {column.name: _TYPES.get(column.type, ("", "string"))[1] for column in TABLES[of]}
    return pandas.DataFrame({name: pandas.Series(cells[name], dtype=type_) for name, type_ in types.items()})


def _flat(value: Payload) -> Payload:
    return json_text(value) if isinstance(value, dict | list) else value


def _library(name: Library | None) -> Any:
    for library in (name,) if name else ("polars", "pandas"):
        try:
            return import_module(library)
        except ImportError:
            continue
    raise MissingExtraError(
        f"to_dataframe needs {name or 'polars or pandas'}, which is not installed: pip install {name or 'polars'}"
    )
