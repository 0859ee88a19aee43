"""The command `import`: runs of other tools, written as runs of ours."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import default_directory
from trace_recorder.cli.output import console, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, error_message
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.guard import try_call
from trace_recorder.imports.foreign.any_file import is_own, recognized
from trace_recorder.imports.foreign.source import Source
from trace_recorder.imports.services.traces import TraceService
from trace_recorder.recording.imported_runs import Imported, import_file, import_traces

SHORTEST_PAUSE = 1.0
PAUSE_MULTIPLE = 10
"""`--watch` pauses for this many times as long as its last look took, and at least `SHORTEST_PAUSE` seconds."""

SERVICES = {"langsmith": "langsmith:LangSmith", "phoenix": "phoenix:Phoenix"}
"""The module and the class of each service that runs are fetched from."""

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE|DIR|SERVICE...",
        help=f"Files of other tools, or directories of them; or one of {', '.join(SERVICES)}, with --project.",
        show_default=False,
    ),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="The project of a service whose traces are fetched.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="DIR", help="Where the runs go. Default: $TRACE_RECORDER_DIR, or trajectories."
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow the files as they grow, until Ctrl-C.")]


def import_(sources: Sources, output: Output = None, project: Project = None, watch: Watch = False) -> None:
    """Write runs of other tools as runs of ours.

    The format of a file is recognised by its content; docs/import.md lists the formats. In directories, and in those
    below them, files in no such format are passed over. A run that was imported before from the same file is replaced
    if the file has changed. What cannot be read is reported; the exit code is then 1.
    With --project, the sources are services: their own clients fetch the traces that are not here yet. They take their
    keys and addresses from the environment.
    """
    importing = _Importing(output or default_directory())
    if project is not None:
        for name in map(str, sources):
            importing.fetch(_service(name, project))
    else:
        importing.look(sources)
    while watch and project is None:
        try:
            began = time.monotonic()
            importing.look(sources)
            time.sleep(max(SHORTEST_PAUSE, PAUSE_MULTIPLE * (time.monotonic() - began)))
        except KeyboardInterrupt:
            break
    importing.report()
    if importing.counts["failed"] or not importing.counts.total():
        raise typer.Exit(1)


def _service(name: str, project: str) -> TraceService:
    if name not in SERVICES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SERVICES)}", param_hint="--project")
    module, _, service = SERVICES[name].partition(":")
    found: TraceService = getattr(import_module(f"trace_recorder.imports.services.{module}"), service)(project)
    return found


class _Importing:
    """What was imported so far. A file is read again only when its size or its time has changed."""

    def __init__(self, directory: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._directory = directory
        self._seen: dict[Path, tuple[int, int]] = {}
        self._read_too: set[Path] = set()

    def look(self, sources: Iterable[Path]) -> None:
        """Import the files that are new, or have changed since the last look."""
        for path, is_named in _files(sources):
            state = try_call(partial(_state, path), lambda _: None)
            if path in self._read_too or self._seen.get(path) == state is not None:
                continue
            if state is not None:
                self._seen[path] = state
            self._import(path, is_named=is_named)

    def _import(self, path: Path, *, is_named: bool) -> None:
        source = Source(path)
        try:
            if not (is_named or _is_foreign(source)):
                self.counts["passed over"] += 1
                return
            self._write(import_file(source, self._directory), path)
        except UnreadableError as error:
            self.counts["failed"] += 1
            warn(str(error))
        self._read_too |= source.read_too

    def fetch(self, service: TraceService) -> None:
        """Import the traces of a service that are new, or have changed, one after another."""
        try:
            self._write(import_traces(service, self._directory), Path(service.address))
        except UnreadableError as error:
            self.counts["failed"] += 1
            warn(str(error))

    def _write(self, runs: Iterator[Imported], source: Path) -> None:
        while (done := try_call(partial(next, runs, None), partial(_raise_unreadable, source))) is not None:
            self.counts[done.done] += 1
            if done.done != "unchanged":
                print_lines(console(), [f"{done.path}: {done.done}, from {source}"])

    def report(self) -> None:
        """Print on stderr how many runs were written, and how many files were passed over."""
        counts = self.counts
        words = [f"{pluralize(counts['written'], 'run')} written"]
        words += [f"{counts[name]} {name}" for name in ("replaced", "unchanged") if counts[name]]
        if counts["passed over"]:
            words.append(f"{pluralize(counts['passed over'], 'file')} in no format that is read")
        if counts["failed"]:
            words.append(f"{pluralize(counts['failed'], 'source')} could not be read")
        warn(", ".join(words))


def _files(sources: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the files, and whether each was named itself. Those of sub-agents lie deeper, and come later."""
    for source in sources:
        if not source.is_dir():
            yield source, True
            continue
        found = [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
        for path in sorted(found, key=lambda path: (len(path.parts), path)):
            yield path, False


def _is_foreign(source: Source) -> bool:
    """Whether a file in a directory is a run of another tool. One that cannot be read is none."""
    found = try_call(partial(recognized, source), lambda _: None)
    return found is not None and (found != "document" or not is_own(source.path))


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _raise_unreadable(path: Path, error: Exception) -> Imported:
    raise UnreadableError(error_message(path, error, "imported")) from error
