"""Uses Ray Data to do the work of commands, and to read runs, on more than one machine.

`in_order_by_ray` does the tasks of a command with `--engine ray`. A process of Ray does each task, and the results come
in the order of the tasks. So a command prints and writes the same with Ray as without it. If a process or a machine is
lost, Ray does the task again, so a task must be repeatable. `read_runs` returns the rows of runs as a dataset.

All machines need this package in the same version. A path must name the same file on each machine, such as a path of a
shared file system, or an address of a store. Ray decides on which machine a task is done.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trace_recorder.errors import MissingExtraError
from trace_recorder.formats.any_file import load_only
from trace_recorder.guard import logger, try_call
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.remote_files import remote_runs
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.tables.columns import Of
from trace_recorder.tables.frames import batch_of, check_table, load_pyarrow
from trace_recorder.tables.rows import Cells, cells_of, joined_cells

if TYPE_CHECKING:
    import ray.data

T = TypeVar("T")
R = TypeVar("R")

_TASKS_IN_BLOCK = 16
"""A process gets this many short tasks together. It gets more if there would be more than `_MAX_BLOCKS` groups."""
_MAX_BLOCKS = 5000


def read_runs(paths: str | Path | Iterable[str | Path], of: Of = "runs", *, strict: bool = True) -> ray.data.Dataset:
    """Return a dataset of Ray with the rows of runs in the table that `of` names.

    `paths` are files, directories with runs in or below them, or addresses of fsspec, such as `s3://bucket/runs`. This
    function lists the runs, and processes of Ray read them when the dataset is used. docs/tables.md describes the
    columns. The column `file` has the path from which `load` reads the run. If a file cannot be read, the dataset
    raises an error. If `strict` is False, the file is skipped, and the process that tried to read it logs the error.
    Ray is started if it is not running. Raises MissingExtraError if Ray is not installed, OSError if a path cannot be
    listed, and ValueError if there is no table `of`.

    Examples:
        >>> runs = read_runs("trajectories")
        >>> failed = runs.filter(lambda row: row["status"] == "failed").take(10)
    """
    check_table((), of, "read_runs")
    if isinstance(paths, str | Path):
        paths = [paths]
    runs = [{"file": str(run)} for path in paths for run in _runs_at(Path(path))]
    with _connected(None) as data:
        blocks = _dataset(data, runs, _TASKS_IN_BLOCK)
        rows: ray.data.Dataset = blocks.map_batches(
            _rows,
            batch_format="pyarrow",
            batch_size=None,
            fn_args=(of, str(Path.cwd())),
            fn_kwargs={"strict": strict},
        )
        return rows


def in_order_by_ray(
    work: Callable[[T], R], tasks: Sequence[T], address: str | None = None, batch: int | None = None
) -> Iterator[R]:
    """Yield the result of `work` for each task, in the order of the tasks. Processes of Ray do the tasks.

    A process gets `batch` tasks together. The default is for short tasks. `address` is the address of a Ray cluster. By
    default, Ray uses the cluster that the environment names, or else starts a cluster on this machine. If `work` raises
    an exception for a task, the iterator raises the exception. Raises MissingExtraError if Ray is not installed, and
    ConnectionError if there is no cluster at the address.
    """
    with _connected(address) as data:
        rows = [{"task": pickle.dumps(task)} for task in tasks]
        dataset = _dataset(data, rows, batch or _TASKS_IN_BLOCK)
        done = dataset.map(_do_task, fn_args=(pickle.dumps(work), str(Path.cwd())))
        for row in done.iter_rows():
            result, error = _unpickled(row["result"])
            if error is not None:
                raise error
            yield result


def _do_task(row: dict[str, bytes], work: bytes, directory: str) -> dict[str, bytes]:
    """Do a task in a process of Ray. Return the result of `work`, or the exception that `work` raised."""
    _change_directory(directory)

    def do() -> tuple[Any, Exception | None]:
        return _unpickled(work)(_unpickled(row["task"])), None

    def failed(error: Exception) -> tuple[Any, Exception | None]:
        return None, error

    return {"result": pickle.dumps(try_call(do, failed))}


def _unpickled(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 - a process of this program made it


def _rows(paths: Any, of: Of, directory: str, *, strict: bool) -> Any:
    _change_directory(directory)
    cells: list[Cells] = []
    for name in paths["file"].to_pylist():
        if strict:
            cells.append(_cells(name, of))
            continue
        of_run = try_call(partial(_cells, name, of), partial(logger.warning, "%s"))
        if of_run is not None:
            cells.append(of_run)
    return load_pyarrow().Table.from_batches([batch_of(joined_cells(cells, of), of)])


def _cells(name: str, of: Of) -> Cells:
    return cells_of(load_only(Path(name)), of)


def _runs_at(path: Path) -> list[Path]:
    url = remote_address(path)
    if url is not None:
        return remote_runs(url)
    if path.is_dir():
        return [*runs_in_directory(path)]
    return [path]


def _change_directory(directory: str) -> None:
    """Change to the working directory of the process that created the task, because its paths may be relative."""
    with suppress(OSError):  # on a machine without this directory, only addresses and absolute paths can be used
        os.chdir(directory)


def _dataset(data: Any, rows: list[dict[str, Any]], batch: int) -> Any:
    blocks = max(1, min(_MAX_BLOCKS, -(-len(rows) // batch)))
    return data.from_items(rows, override_num_blocks=blocks)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Connect to Ray, or start it, and yield `ray.data`. Inside the block, `ray.data` keeps the order of rows."""
    ray = load_ray()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, include_dashboard=None)
    data = import_module("ray.data")
    context = data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    try:
        yield data
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before


def load_ray() -> Any:
    """Import and return Ray, and turn off its usage statistics. Raises MissingExtraError if Ray is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return import_module("ray")
    except ImportError as error:
        raise MissingExtraError("The engine ray needs Ray: pip install 'trace-recorder[ray]'") from error
