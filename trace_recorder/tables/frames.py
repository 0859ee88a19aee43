"""Makes tables of runs in memory: Apache Arrow tables, and data frames of polars or pandas.

`columns.py` declares the columns. The names and types of columns are the same for every run, and an unknown value is
null. In Arrow tables, lists and objects with a fixed form have Arrow's list and struct types. In data frames, they are
JSON texts. All other lists and objects are JSON texts in Arrow tables and in data frames. The libraries are not
dependencies of the package, so each is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from trace_recorder.errors import MissingExtraError
from trace_recorder.tables.columns import TABLES, CellType, Of, TableName, cell, json_text
from trace_recorder.tables.rows import Cells, RunOrRuns, cells_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.version import __version__

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]  # its stubs are a package of their own
    import polars
    import pyarrow


def check_table(runs: RunOrRuns, of: str, function: str) -> None:
    """Raise ValueError if there is no table named `of`, and TypeError if `runs` is a path."""
    if of not in get_args(Of):
        raise ValueError(f"of={of!r}: one of {', '.join(get_args(Of))}")
    if isinstance(runs, str | PathLike):
        raise TypeError(f"{function}() takes trajectories, but got a path: {function}(load({str(runs)!r})).")


# ── tables of Arrow ──────────────────────────────────────────────────────────────────────────────────────────────────

_BATCH_RUNS = 256
"""The rows of this many runs become one batch. The conversion of a column takes some time besides that of its cells."""


def to_arrow(runs: RunOrRuns, of: Of = "calls") -> pyarrow.Table:
    """Return an Arrow table of one run or several, with a row for each run, call, step, tool call, message or reward.

    `of` chooses what the rows are. Every row has its run's file, id, task, status and success. The table of messages
    has each distinct message once, with the calls whose prompts have the message. docs/tables.md describes the columns.
    Raises MissingExtraError if pyarrow is not installed, and ValueError if there is no table `of`.

    Examples:
        >>> to_arrow(load_all("trajectories"), of="calls").num_rows
        2
    """
    check_table(runs, of, "to_arrow")
    if isinstance(runs, Trajectory):
        runs = [runs]
    remaining = iter(runs)
    groups = iter(lambda: [*islice(remaining, _BATCH_RUNS)], [])
    return load_pyarrow().Table.from_batches((batch_of(cells_of(group, of), of) for group in groups), schema_of(of))


def batch_of(cells: Cells, table: TableName) -> pyarrow.RecordBatch:
    """Return the rows of a table with these cells."""
    schema = schema_of(table)
    arrays = [
        load_pyarrow().array([*_arrow_cells(cells[column.name], column.type)], field.type)
        for column, field in zip(TABLES[table], schema, strict=True)
    ]
    return load_pyarrow().RecordBatch.from_arrays(arrays, schema=schema)


@cache
def schema_of(table: TableName) -> pyarrow.Schema:
    """Return the schema of a table. Its metadata have the meaning of each column, and the version of this package."""
    types = _types()
    fields = [
        load_pyarrow().field(column.name, types[column.type], metadata={"description": column.meaning})
        for column in TABLES[table]
    ]
    about = {"trace_recorder.table": table, "trace_recorder.version": __version__}
    return load_pyarrow().schema(fields, metadata=about)


def load_pyarrow() -> Any:
    """Import and return pyarrow. Raises MissingExtraError if it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError("Tables need pyarrow: pip install 'trace-recorder[parquet]'") from error


@cache
def _types() -> Mapping[CellType, Any]:
    """Return the Arrow type of each column type.

    Texts are `large_string`, because the texts of one column may together have more than 2 GB.
    """
    arrow = load_pyarrow()
    text = arrow.large_string()
    call = arrow.struct({"call_id": text, "name": text, "arguments": text})
    origin = arrow.struct({"trajectory_id": text, "interaction_id": text, "by_hand": arrow.bool_()})
    return {
        "text": text,
        "json": text,
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "boolean": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "rewards": arrow.list_(arrow.struct({"name": text, "value": arrow.float64()})),
        "tool_calls": arrow.list_(call),
        "ranges": arrow.list_(arrow.struct({"first": arrow.int64(), "last": arrow.int64()})),
        "origin": origin,
    }


def _arrow_cells(values: Iterable[Payload], type_: CellType) -> Iterator[Payload]:
    if type_ == "rewards":
        return (
            [{"name": json_text(name), "value": cell("number", reward)} for name, reward in value.items()]
            for value in values
        )
    if type_ == "origin":
        return map(_origin, values)
    return iter(values)


def _origin(value: Payload) -> Payload:
    if not value:
        return value
    ids = {name: cell("text", value.get(name)) for name in ("trajectory_id", "interaction_id")}
    return {**ids, "by_hand": value.get("by_hand", False)}


# ── data frames ──────────────────────────────────────────────────────────────────────────────────────────────────────

FrameLibrary = Literal["polars", "pandas"]
_TYPES: dict[CellType, tuple[str, str]] = {
    "integer": ("Int64", "Int64"),
    "number": ("Float64", "float64"),
    "boolean": ("Boolean", "boolean"),
    "time": ("Datetime", "datetime64[us, UTC]"),
}
"""The types of polars and of pandas for columns of these cell types. All other columns are texts."""
_TEXT = ("String", "string")


@overload
def to_dataframe(runs: RunOrRuns, of: Of = "calls", *, library: Literal["polars"]) -> polars.DataFrame: ...
@overload
def to_dataframe(runs: RunOrRuns, of: Of = "calls", *, library: Literal["pandas"]) -> pandas.DataFrame: ...
@overload
def to_dataframe(runs: RunOrRuns, of: Of = "calls", library: FrameLibrary | None = None) -> Any: ...
def to_dataframe(runs: RunOrRuns, of: Of = "calls", library: FrameLibrary | None = None) -> Any:
    """Return a data frame of one run or several, with a row for each run, call, step, tool call, message or reward.

    `of` chooses what the rows are. Every row has its run's file, id, task, status and success. A column has the same
    type in every frame: text, a nullable integer, a float, a boolean, or a time in UTC. docs/tables.md describes the
    columns. `library` is "polars" or "pandas". By default, polars is used if it is installed, and pandas otherwise.
    Raises MissingExtraError if the library is not installed, and ValueError if there is no table `of`.

    Examples:
        >>> frame = to_dataframe(load_all("trajectories"), of="calls")
        >>> tokens = frame["input_tokens"].sum()
    """
    check_table(runs, of, "to_dataframe")
    module = _library(library)
    cells = {name: [*map(_flat, values)] for name, values in cells_of(runs, of).items()}
    frame_types = {column.name: _TYPES.get(column.type, _TEXT) for column in TABLES[of]}
    if module.__name__ == "pandas":
        series = {name: module.Series(cells[name], dtype=types[1]) for name, types in frame_types.items()}
        return module.DataFrame(series)
    schema = {}
    for name, types in frame_types.items():
        schema[name] = getattr(module, types[0])
        if schema[name] is module.Datetime:
            schema[name] = module.Datetime("us", "UTC")
    return module.DataFrame(cells, schema=schema)


def _flat(value: Payload) -> Payload:
    if isinstance(value, dict | list):
        return json_text(value)
    return value


def _library(name: FrameLibrary | None) -> Any:
    libraries = ["polars", "pandas"]
    if name:
        libraries = [name]
    for library in libraries:
        try:
            return import_module(library)
        except ImportError:
            continue
    needed = " or ".join(libraries)
    raise MissingExtraError(f"to_dataframe needs {needed}, which is not installed: pip install {libraries[0]}")
