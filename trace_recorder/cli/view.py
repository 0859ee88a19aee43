"""The command `view`: serves runs to the browser on this machine, or writes one run as a self-contained file."""

from __future__ import annotations

import contextlib
import errno
import gc
import socket
import threading
import webbrowser
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT, IndexPath, paths_or_default
from trace_recorder.cli.list_runs import run_at
from trace_recorder.cli.output import console, fail, print_lines
from trace_recorder.cli.read_files import failure_message, process, read_run
from trace_recorder.figures.cost import prices
from trace_recorder.storage.addresses import remote_address
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.one_file import one_file, two_runs_file
from trace_recorder.viewer.runs import RunList

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DEFAULT_PORT = 8765
"""The port that is tried first, so that an address in a browser's history stays the same."""

Places = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH...]",
        help=f"A directory, runs in one directory, or a shared file. With -o, one run or two. {DEFAULT}",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write a self-contained HTML file instead of serving."),
]
Force = Annotated[bool, typer.Option("--force", help="With -o, replace a file that exists.")]
Port = Annotated[
    int | None, typer.Option("--port", metavar="NUMBER", min=0, max=65535, help="The port. 0 means any free port.")
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address, but do not open a browser.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Do not let the browser add anything to a run.")]


def view(  # noqa: PLR0913, PLR0917 - one argument for each option
    places: Places = None,
    output: Output = None,
    force: Force = False,
    port: Port = None,
    no_browser: NoBrowser = False,
    read_only: ReadOnly = False,
    index: IndexPath = None,
) -> None:
    """Look at runs in the browser.

    Serves a directory, or files in it, on 127.0.0.1 until Ctrl-C, and follows runs that are still being recorded. With
    -o, writes one run, or two side by side, as one HTML file that works offline. With -o, a directory stands for its
    newest run.
    """
    places = paths_or_default(places)
    if output is not None:
        _write(places, output, force=force)
        return
    if missing := [place for place in places if remote_address(place) is None and not place.exists()]:
        fail(f"{missing[0]}: No such file or directory")
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        fail(
            "view needs starlette and uvicorn: pip install 'trace-recorder[view]'. "
            "With -o, it writes a file and needs neither."
        )
    name = ", ".join(map(str, places))
    with TemporaryDirectory(prefix="trace-recorder-view-") as directory:
        if len(places) == 1 and process(places[0], partial(_unpacked, places[0], Path(directory))):
            places, read_only = [Path(directory)], True
        try:
            runs = RunList(*places, index=index)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        _serve(runs, name, port, opens_browser=not no_browser, read_only=read_only)


def _unpacked(place: Path, directory: Path) -> bool:
    """Write the runs of a shared file, or at an address, into a directory. Return False for anything else."""
    from trace_recorder.sharing.runs import unpack  # noqa: PLC0415 - most places are no shared files

    url = remote_address(place)
    if url is not None:
        from trace_recorder.storage.remote_files import copy_runs  # noqa: PLC0415 - as above

        copy_runs(url, directory)
        return True
    return unpack(place, directory)


def _write(places: list[Path], output: Path, *, force: bool) -> None:
    if len(places) > 2:
        raise typer.BadParameter("with -o, at most two runs are written")
    if output.exists() and not force:
        fail(f"{output} exists: give another -o, or --force to replace it")
    files = [*map(run_at, places)]
    runs = [*map(read_run, files)]
    html = process(files[-1], partial(_html, runs, [file.name for file in files]), "shown").encode()
    try:
        output.write_bytes(html)
    except OSError as error:
        fail(failure_message(output, error, "written"))
    print_lines(console(), [f"wrote {output} ({len(html) / 1e6:.1f} MB)"])


def _html(runs: list[Trajectory], names: list[str]) -> str:
    if len(runs) == 1:
        return one_file(runs[0], names[0])
    first, second = names
    if first == second:
        first, second = f"1: {first}", f"2: {second}"
    return two_runs_file(runs[0], runs[1], (first, second))


def _serve(runs: RunList, name: str, port: int | None, *, opens_browser: bool, read_only: bool) -> None:
    from trace_recorder.viewer.security import Access  # noqa: PLC0415 - it needs the extra
    from trace_recorder.viewer.server import ViewerServer  # noqa: PLC0415

    with _listening(port) as listener:
        access = Access(token_urlsafe(24), listener.getsockname()[1])
        app = ViewerServer(runs, read_only=read_only).app(access)
        print_lines(console(), [f"{name} is at {access.address}", "Ctrl-C ends it."])
        if opens_browser:
            threading.Thread(target=webbrowser.open, args=(access.address,), daemon=True).start()
        _run(app, listener)


def _listening(port: int | None) -> socket.socket:
    """Return a socket that listens on the loopback interface.

    If no port is given, it listens at the default port, or at any free port if the default port is taken.
    """
    wanted = DEFAULT_PORT
    if port is not None:
        wanted = port
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", wanted))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if port is None and error.errno == errno.EADDRINUSE:
            return _listening(0)
        fail(f"port {wanted} cannot be used: {error.strerror}")
    return listener


def _run(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until Ctrl-C.

    Collect garbage rarely: the runs stay in memory, so a collection costs time and frees little.
    """
    import uvicorn  # noqa: PLC0415 - it needs the extra

    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    threading.Thread(target=prices, daemon=True).start()  # the first run then does not wait for the table of prices

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
