"""The command `import`: writes runs of other tools as runs of this package."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT, default_directory
from trace_recorder.cli.engines import DEFAULT_ENGINE, LOCAL, Address, Engine, EngineName
from trace_recorder.cli.output import Progress, console, print_lines, table_width, warn
from trace_recorder.cli.read_files import UnreadableError, failure_message
from trace_recorder.cli.text_layout import pluralize, size_text
from trace_recorder.cli.text_tables import table_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import log_of
from trace_recorder.formats.home_files import HomeFiles, files_at_home
from trace_recorder.formats.imported_runs import Imported, ReadRun, import_traces, read_file, write_run
from trace_recorder.formats.recognition import format_of
from trace_recorder.formats.shared_files import is_shared
from trace_recorder.formats.trace_services import TraceService
from trace_recorder.guard import ignore_failures, try_call
from trace_recorder.registry import IMPORT_FORMATS
from trace_recorder.storage.paths import ADDRESS

MIN_PAUSE_SECONDS = 1.0
MIN_PAUSE_SECONDS_OF_SERVICES = 10.0
"""`--watch` pauses at least this many seconds between two searches for changes. The second value is for services."""
PAUSE_MULTIPLE = 10
"""The pause of `--watch` is this many times as long as the search for changes before it."""

SERVICES = {
    "langfuse": "langfuse:Langfuse",
    "langsmith": "langsmith:LangSmith",
    "mlflow": "mlflow:MLflow",
    "phoenix": "phoenix:Phoenix",
}
"""The services from which runs can be fetched, each with its module and its class."""

ALL = "all"
"""The name with which `--home` imports the sessions of all programs."""
Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH|SERVICE|PROGRAM...",
        help=(
            f"Files of other tools, or directories of them. With --project, one of {', '.join(SERVICES)}. "
            f"With --home, names in its table, or '{ALL}'."
        ),
        show_default=False,
    ),
]
Home = Annotated[
    bool,
    typer.Option("--home", help="List the sessions in your home directory, or import those of the named programs."),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="The project whose traces are fetched from a service.")
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help=f"The directory to write the runs to. {DEFAULT}"),
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Follow the files as they grow, or fetch new traces, until Ctrl-C.")
]


def import_(  # noqa: PLR0913, PLR0917 - one argument for each option
    sources: Sources = None,
    output: Output = None,
    project: Project = None,
    home: Home = False,
    watch: Watch = False,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Convert runs of other tools into runs of this package.

    The format of a file is recognised by its content; docs/import.md lists the formats. In directories and their
    subdirectories, files in formats that are not in this list are skipped. A run that was imported before from the same
    file is replaced if the file has changed. A failure to read is reported; the exit code is then 1.

    With --project, the sources are services. The client library of a service fetches the traces that were not imported
    yet, and reads keys and addresses from the environment.

    With --home, the sources are names of formats, whose programs' files are looked for in your home directory. Without
    a name, the programs are listed, with the number and the size of their files.
    """
    names = [*map(str, sources or ())]
    _check_names(names, project, home=home)
    if not names:
        print_lines(console(), _home_table([*_at_home()]))
        return
    directory = output or default_directory()
    if ADDRESS.fullmatch(directory.as_posix()):
        reason = "runs are imported into a local directory: give one, and then copy it, as with `aws s3 sync`"
        raise typer.BadParameter(reason, param_hint="-o")
    workers, importing = Engine(engine, address), Importing(directory)
    services = _services([] if home else names, project)
    if services and workers != LOCAL:
        raise typer.BadParameter("it reads files, not services", param_hint="--engine")

    def import_once() -> bool:
        if project is None:
            importing.import_files(_files(names, home=home), workers)
        complete = [importing.fetch(service) for service in services]
        return all(complete)

    min_pause = MIN_PAUSE_SECONDS
    if services:
        min_pause = MIN_PAUSE_SECONDS_OF_SERVICES
    try:
        _repeat(import_once, min_pause, watch=watch)
    except KeyboardInterrupt:
        if not watch:
            raise
    importing.report()
    if importing.counts["failed"] or not importing.counts.total():
        raise typer.Exit(1)


def _repeat(import_once: Callable[[], bool], min_pause: float, *, watch: bool) -> None:
    """Call `import_once`. If the result and `watch` are True, call `import_once` again and again until Ctrl-C.

    The results of later calls are ignored.
    """
    began = time.monotonic()
    watch = import_once() and watch
    while watch:
        time.sleep(max(min_pause, PAUSE_MULTIPLE * (time.monotonic() - began)))
        began = time.monotonic()
        import_once()


def _at_home() -> Iterator[HomeFiles]:
    return files_at_home(Path.home(), os.environ)


def _check_names(names: list[str], project: str | None, *, home: bool) -> None:
    """Refuse sources that are missing, and names that are not formats whose places are known."""
    if not home:
        if not names:
            raise typer.BadParameter("name a file, a directory or a service, or use --home")
        return
    if project is not None:
        raise typer.BadParameter("it looks for files, not for projects", param_hint="--home")
    known = [ALL, *(name for name in IMPORT_FORMATS if IMPORT_FORMATS.record(name).home)]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint="--home")


def _files(names: list[str], *, home: bool) -> Iterator[tuple[Path, bool]]:
    """Yield the files to import, each with True if the command line names it."""
    if not home:
        yield from files_in(map(Path, names))
        return
    for at_home in _at_home():
        if at_home.format in names or ALL in names:
            yield from ((file, False) for file in at_home.files)


def _home_table(programs: list[HomeFiles]) -> Iterator[str]:
    """Yield the lines of a table of the programs that have files."""
    if not programs:
        yield f"There are no sessions of known programs in {Path.home()}. docs/import.md lists the places."
        return
    rows = [("name", "files", "size", "program", "directory")]
    for at_home in programs:
        count, size = f"{len(at_home.files):,}", size_text(at_home.size)
        rows.append((at_home.format, count, size, at_home.program, str(at_home.directory)))
    yield from table_lines(rows, table_width(console()))
    yield ""
    yield f"Import them with `trace-recorder import --home NAME...`, or with `{ALL}` as the name."


def _services(sources: list[str], project: str | None) -> list[TraceService]:
    if project is not None:
        return [_service(name, project) for name in sources]
    for name in sources:
        if name in SERVICES and not Path(name).exists():
            raise typer.BadParameter(f"{name} is a service: name its project with --project NAME")
    return []


def _service(name: str, project: str) -> TraceService:
    if name not in SERVICES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(SERVICES)}", param_hint="--project")
    module, _, service = SERVICES[name].partition(":")
    trace_service: TraceService = getattr(import_module(f"trace_recorder.formats.{module}.service"), service)(project)
    return trace_service


class Importing:
    """Imports files and traces, and remembers what it has imported.

    A file is read again only if its size or its modification time has changed, or those of the log beside a database.
    `counts` says how many runs and files had each outcome, such as "written". An unchanged run is counted once, even if
    its file is read several times. A message about a service that equals the last message about it is not printed
    again.
    """

    def __init__(self, directory: Path, progress: Callable[[int | None], Progress] = Progress) -> None:
        self.counts: Counter[str] = Counter()
        self._directory = directory
        self._progress = progress
        self._seen: dict[Path, tuple[tuple[int, int], ...]] = {}
        self._read_too: set[Path] = set()
        self._versions: dict[str, dict[str, str]] = {}
        self._unchanged: set[Path] = set()
        self._last_messages: dict[str, str] = {}

    def import_files(self, files: Iterable[tuple[Path, bool]], engine: Engine = LOCAL) -> None:
        """Import the files that are new or have changed since they were last imported.

        Each file comes with True if the command line names it. Other files in unknown formats are skipped.
        Other processes only read files. This process decides which runs are imported, and writes them. Therefore the
        imported runs do not depend on the engine.
        """
        changed = [file for file in files if self._has_changed(file[0])]
        read = engine.in_order(_read_whole, changed) if engine.repeats_tasks else map(_read_lazily, changed)
        with self._progress(len(changed)) as progress:
            for (path, _), file in progress.over(zip(changed, read, strict=True)):
                if path not in self._read_too:
                    self._import(path, file, progress)

    def _has_changed(self, path: Path) -> bool:
        if path in self._read_too:
            return False
        try:
            files = [path, *filter(Path.is_file, [log_of(path)])]
            state = tuple((status.st_size, status.st_mtime_ns) for status in map(Path.stat, files))
        except (OSError, ValueError):  # the error is reported when the file is read
            return True
        if self._seen.get(path) == state:
            return False
        self._seen[path] = state
        return True

    def _import(self, path: Path, file: _FileRuns, progress: Progress) -> None:
        if not file.is_foreign:
            self.counts["passed over"] += not path.name.startswith(".")
            return
        try:
            for imported in _readable((write_run(run, self._directory) for run in file.runs), path):
                self._note(imported, str(path), progress)
            if file.error is not None:
                _raise_unreadable(path, file.error)
        except UnreadableError as error:
            self._fail(str(error), progress)
        self._read_too |= file.read_too

    def fetch(self, service: TraceService) -> bool:
        """Import the traces of a service that are new or have changed.

        Return False if the service fails before all of these traces are fetched.
        """
        seen = self._versions.setdefault(service.address, {})
        runs = _readable(import_traces(service, self._directory, seen), Path(service.address))
        with self._progress(None) as progress:
            try:
                for imported in progress.over(runs):
                    self._note(imported, service.address, progress)
            except UnreadableError as error:
                self._fail(str(error), progress, source=service.address)
                return False
        self._last_messages.pop(service.address, None)
        return True

    def _note(self, imported: Imported, source: str, progress: Progress) -> None:
        if imported.done == "unreadable":
            self._fail(imported.why, progress, source=f"{source} {imported.path}")
            return
        if imported.done == "unchanged" and imported.path in self._unchanged:
            return
        self._unchanged.add(imported.path)
        self.counts[imported.done] += 1
        if imported.done != "unchanged":
            progress.hide()
            print_lines(console(), [f"{imported.path}: {imported.done}, from {source}"])

    def _fail(self, message: str, progress: Progress, *, source: str | None = None) -> None:
        if source is not None:
            if self._last_messages.get(source) == message:
                return
            self._last_messages[source] = message
        self.counts["failed"] += 1
        progress.hide()
        warn(message)

    def report(self) -> None:
        """Print on stderr how many runs were written, and how many files were skipped."""
        counts = self.counts
        words = [f"{pluralize(counts['written'], 'run')} written"]
        words += [f"{counts[name]} {name}" for name in ("replaced", "unchanged") if counts[name]]
        if counts["passed over"]:
            words.append(f"{pluralize(counts['passed over'], 'file')} in other formats skipped")
        if counts["failed"]:
            words.append(f"{pluralize(counts['failed'], 'source')} could not be read")
        warn(", ".join(words))


@dataclass(slots=True)
class _FileRuns:
    """The runs of a file, the files that were read along with it, and the error that ended reading.

    `is_foreign` is False if the file was found in a directory and is not a run of another tool.
    """

    runs: Iterable[ReadRun]
    read_too: set[Path]
    is_foreign: bool
    error: Exception | None = None


def _read_lazily(file: tuple[Path, bool]) -> _FileRuns:
    path, is_named = file
    source = Source(path)
    is_foreign = is_named
    if not is_named:
        with ignore_failures:  # a file in a directory that cannot be read is passed over
            is_foreign = is_shared(source) or format_of(source) is not None
    return _FileRuns(read_file(source), source.read_too, is_foreign)


def _read_whole(file: tuple[Path, bool]) -> _FileRuns:
    """Read a file in another process. An error is returned together with the runs that were read before the error."""
    file_read = _read_lazily(file)
    runs: list[ReadRun] = []
    whole = replace(file_read, runs=runs)

    def read_all() -> None:
        for run in file_read.runs:
            runs.append(replace(run, lines=[*run.lines]))  # noqa: PERF401 - the runs before an error are kept

    def keep_error(error: Exception) -> None:
        whole.error = error

    if file_read.is_foreign:
        try_call(read_all, keep_error)
    return whole


def _readable(runs: Iterator[Imported], source: Path) -> Iterator[Imported]:
    """Yield the imported runs.

    Ctrl-C takes effect between two runs. Raises UnreadableError if a run cannot be read or written.
    """
    imported: Imported | None
    while True:
        with interrupt_held():
            imported = try_call(partial(next, runs, None), partial(_raise_unreadable, source))
            if imported is None:
                return
            yield imported


@contextmanager
def interrupt_held() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C was pressed during the block.

    A second Ctrl-C raises KeyboardInterrupt at once. If the process ignores Ctrl-C, or has a handler of its own for
    Ctrl-C, nothing changes.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            raise KeyboardInterrupt


def files_in(sources: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the files, each with True if the command line names it, and otherwise with False.

    The files of a directory are sorted by depth, so that an agent's file comes before the files of its sub-agents in
    subdirectories.
    """
    for source in sources:
        if not source.is_dir():
            yield source, True
            continue
        # a hidden .tmp file is about to replace another file (`storage/atomic_write.py`)
        paths = (path for path in source.rglob("*") if path.is_file())
        files = [path for path in paths if not (path.name.startswith(".") and path.name.endswith(".tmp"))]
        for path in sorted(files, key=lambda path: (len(path.parts), path)):
            yield path, False


def _raise_unreadable(path: Path, error: Exception) -> Imported:
    raise UnreadableError(failure_message(path, error, "imported")) from error
