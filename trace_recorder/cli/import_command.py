"""The command `import`: runs of other tools, written as runs of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT, default_directory
from trace_recorder.cli.engines import DEFAULT_ENGINE, LOCAL, Address, Engine, EngineName
from trace_recorder.cli.importing import Importing
from trace_recorder.imports.services.traces import TraceService

SHORTEST_PAUSE = 1.0
SHORTEST_PAUSE_OF_SERVICES = 10.0
PAUSE_MULTIPLE = 10
"""`--watch` pauses for this many times the duration of its last look, and at least for these seconds."""

SERVICES = {
    "langfuse": "langfuse:Langfuse",
    "langsmith": "langsmith:LangSmith",
    "mlflow": "mlflow:MLflow",
    "phoenix": "phoenix:Phoenix",
}
"""The module and the class of each service that runs are fetched from."""

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH|SERVICE...",
        help=f"Files of other tools, or directories of them. With --project, one of {', '.join(SERVICES)}.",
        show_default=False,
    ),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="The project of a service whose traces are fetched.")
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help=f"The directory to write the runs to. {DEFAULT}"),
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Follow the files as they grow, or fetch new traces, until Ctrl-C.")
]


def import_(  # noqa: PLR0913, PLR0917 - one argument an option
    sources: Sources,
    output: Output = None,
    project: Project = None,
    watch: Watch = False,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Write runs of other tools as runs of ours.

    The format of a file is recognised by its content; docs/import.md lists the formats. In directories, and in those
    below them, files in other formats are skipped. A run that was imported before from the same file is replaced if the
    file has changed. What cannot be read is reported; the exit code is then 1. With --project, the sources are
    services. Their own clients fetch the traces that are not here yet, and read keys and addresses from the
    environment.
    """
    does, importing = Engine(engine, address), Importing(output or default_directory())
    services = _services(sources, project)
    if services and does != LOCAL:
        raise typer.BadParameter("it reads files, not services", param_hint="--engine")

    def look() -> bool:
        if project is None:
            importing.look(sources, does)
        complete = [importing.fetch(service) for service in services]
        return all(complete)

    shortest = SHORTEST_PAUSE_OF_SERVICES if services else SHORTEST_PAUSE
    try:
        _look_again(look, shortest, watch=watch)
    except KeyboardInterrupt:
        if not watch:
            raise
    importing.report()
    if importing.counts["failed"] or not importing.counts.total():
        raise typer.Exit(1)


def _look_again(look: Callable[[], bool], shortest: float, *, watch: bool) -> None:
    """Look once. If that succeeds and `watch` is set, look again until Ctrl-C; later looks may fail."""
    began = time.monotonic()
    watch = look() and watch
    while watch:
        time.sleep(max(shortest, PAUSE_MULTIPLE * (time.monotonic() - began)))
        began = time.monotonic()
        look()


def _services(sources: list[Path], project: str | None) -> list[TraceService]:
    if project is not None:
        return [_service(str(name), project) for name in sources]
    for name in map(str, sources):
        if name in SERVICES and not Path(name).exists():
            raise typer.BadParameter(f"{name} is a service: name its project with --project NAME")
    return []


def _service(name: str, project: str) -> TraceService:
    if name not in SERVICES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SERVICES)}", param_hint="--project")
    module, _, service = SERVICES[name].partition(":")
    found: TraceService = getattr(import_module(f"trace_recorder.imports.services.{module}"), service)(project)
    return found
