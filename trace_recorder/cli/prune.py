"""The command `prune`: prints the runs that a query or a size selects for deletion, and deletes them with --yes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.text import Text

from trace_recorder.cli.arguments import (
    AsJson,
    DefaultRuns,
    IndexPath,
    TablePaths,
    check_index,
    local_paths,
    no_runs_message,
)
from trace_recorder.cli.output import console, fail, print_json, print_lines, table_width, warn
from trace_recorder.cli.planned_runs import naming_in
from trace_recorder.cli.read_files import failure_message
from trace_recorder.cli.text_layout import in_one_line, local_time, parse_size, pluralize, shown_text, size_text
from trace_recorder.errors import MissingExtraError, QueryError
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    from trace_recorder.retention.pruning import Pruning
    from trace_recorder.retention.stored_runs import StoredRun

Where = Annotated[
    str | None,
    typer.Option("--where", metavar="QUERY", help="The runs to delete, such as 'older:90d -is:failed'."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="QUERY", help="Runs that stay nevertheless. May be repeated."),
]
MaxSize = Annotated[
    str | None,
    typer.Option("--max-size", metavar="SIZE", help="Only the oldest, until all runs fit into SIZE: 50G, 500M, bytes."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Delete the runs. Without this option, no file is changed.")]


def prune_(  # noqa: PLR0913, PLR0917 - one argument for each option
    paths: DefaultRuns = None,
    where: Where = None,
    keep: Keep = None,
    max_size: MaxSize = None,
    yes: Yes = False,
    tables: TablePaths = None,
    index: IndexPath = None,
    as_json: AsJson = False,
) -> None:
    """Delete the runs that a query or a size selects.

    Without --yes, the command only prints which runs would go, and why others stay. A run goes as a whole: its .json,
    its .jsonl, its entry in the index, and its rows in tables below the paths. A run that is being written, that a
    retention.toml keeps, or that another run refers to stays, and is named. docs/after.md has the rules. If a run
    cannot be read or deleted, it is named, and the exit code is 1.
    """
    from trace_recorder.retention import pruning  # noqa: PLC0415 - commands start without it

    if where is None and max_size is None:
        raise typer.BadParameter("say which runs: --where QUERY, --max-size SIZE, or both", param_hint="--where")
    targets = local_paths(paths, "prune")
    check_index(index, targets)
    try:
        result = pruning.prune(
            *targets, where=where, keep=keep or (), max_size=_size(max_size), index=index, tables=tables or (), yes=yes
        )
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint="--where or --keep") from None
    except (OSError, MissingExtraError) as error:
        fail(f"{_why(targets[0], error).removesuffix('.')}. Nothing was deleted")
    if not (result.runs or result.staying or result.failures or result.unmatched or result.unneeded):
        fail(no_runs_message(targets))
    name_of = naming_in(targets)
    if as_json:
        print_json(_as_json(result, name_of))
    else:
        _print(result, name_of)
    for path, failure in result.failures.items():
        warn(_why(path, failure))
    if result.failures:
        raise typer.Exit(1)


def _why(path: Path, error: Exception) -> str:
    """Return why a run, or what belongs to it, cannot be read or deleted. The file that the error names is named."""
    if not isinstance(error, OSError):
        return failure_message(path, error)
    if error.strerror is None:
        return str(error)
    return failure_message(Path(error.filename or path), error)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    size = parse_size(text)
    if size is None:
        raise typer.BadParameter(f"{text!r} is not a size such as 50G, 500M, 1T or 1000000", param_hint="--max-size")
    return size


def _as_json(result: Pruning, name_of: Callable[[str], str]) -> Payload:
    return {
        "deleted": result.is_done,
        "runs": [
            {
                "file": name_of(str(run.path)),
                "path": str(run.path),
                "trajectory_id": run.trajectory_id,
                "task": run.task,
                "status": run.status,
                "start_time": run.start_time,
                "end_time": run.end_time,
                "bytes": run.size,
            }
            for run in result.runs
        ],
        "bytes": result.size,
        "bytes_before": result.size_before,
        "staying": [
            {"file": name_of(str(run.path)), "path": str(run.path), "reason": run.reason, "why": run.why}
            for run in result.staying
        ],
        "unmatched": result.unmatched,
        "unneeded": result.unneeded,
        "failures": [
            {"path": str(path), "why": failure_message(path, error)} for path, error in result.failures.items()
        ],
        "tables": [*map(str, result.tables)],
    }


def _print(result: Pruning, name_of: Callable[[str], str]) -> None:
    out = console()
    width = table_width(out)
    for line in _table(result.runs, name_of):
        if width is not None:
            line.truncate(width, overflow="ellipsis")
        print_lines(out, [line])
    print_lines(out, _summary(result))
    if result.staying:
        out.print()
        print_lines(out, ["These stay:"], "bold")
        print_lines(out, (f"  {name_of(str(run.path))}: {run.why}" for run in result.staying))


def _table(runs: list[StoredRun], name_of: Callable[[str], str]) -> Iterator[Text]:
    """Yield a line for each run, and one with the titles, if there are runs."""
    rows = [
        (
            size_text(run.size),
            in_one_line(name_of(str(run.path))),
            local_time(run.end_time or run.start_time, "%Y-%m-%d %H:%M"),
            run.status,
            in_one_line(" ".join(shown_text(run.task).split())),
        )
        for run in runs
    ]
    if not rows:
        return
    titles = ("size", "file", "ended", "status", "task")
    widths = [max(cell_len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    for number, (size, *cells) in enumerate((titles, *rows)):
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths[1:], strict=True))
        line = Text("  ".join((size.rjust(widths[0]), *padded)).rstrip())
        if number == 0:
            line.stylize("bold")
        yield line


def _summary(result: Pruning) -> Iterator[str]:
    count, size = pluralize(len(result.runs), "run"), size_text(result.size)
    if result.is_done:
        yield f"{count} deleted, {size}. {size_text(result.size_before - result.size)} of runs stay."
    else:
        yield f"{count} would go, {size} of {size_text(result.size_before)}."
    if result.unmatched:
        yield f"{pluralize(result.unmatched, 'other run')} not selected."
    if result.unneeded:
        yield f"{pluralize(result.unneeded, 'more run')} selected, and not needed to reach the size."
    searched = "; ".join(map(str, result.tables))
    if result.runs and searched:
        yield f"Rows of these runs in tables: {searched}. Tables elsewhere are not touched: --tables names them."
    elif result.runs:
        yield "No tables are below the paths. Tables elsewhere are not touched: --tables names them."
    if result.runs and not result.is_done:
        yield "Nothing was deleted. With --yes, these runs are."
