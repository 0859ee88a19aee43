"""The entry point of `trace-recorder`.

The commands need typer and rich; `--version` alone does not. If the extra `cli` is not installed, `main` prints how to
install it.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TextIO

from trace_recorder.version import __version__


def main() -> None:
    """Run the command line, and exit with the command's exit code.

    Exit with the command's code for failures if its output cannot be written, as to a closed pipe or a full disk.
    """
    run: Callable[[], object]
    if sys.argv[1:] == ["--version"]:
        run, failure_code = _print_version, 1
    else:
        run, failure_code = _application()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # then any recorded text can be printed, in any encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        gc.freeze()  # what was imported stays, and collections need not visit it
        try:
            run()
        finally:
            gc.unfreeze()  # a program of a user may go on after `main`
            _flush_stderr()
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe closed it
        _discard(sys.stdout)
        sys.exit(failure_code)
    except OSError as error:
        _discard(sys.stdout)
        if sys.stderr is not None:
            with suppress(OSError):  # stderr may be closed, or on the same full disk
                print(f"trace-recorder: {error.filename or 'stdout'}: {error.strerror or error}", file=sys.stderr)
            _flush_stderr()
        sys.exit(failure_code)


def _application() -> tuple[Callable[[], object], int]:
    """Import the command that `sys.argv` names. Return a function that runs it, and its exit code for failures.

    Exits if typer or rich is not installed.
    """
    try:
        from trace_recorder.cli.app import FAILURE_CODES, app_for  # noqa: PLC0415 - typer may be missing

        words = sys.argv[1:]
        code = FAILURE_CODES.get(words[0], 1) if words else 1
        return partial(app_for(words), prog_name="trace-recorder"), code
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit("trace-recorder: the command line needs typer and rich: pip install 'trace-recorder[cli]'")


def _print_version() -> None:
    print(f"trace-recorder {__version__}")
    sys.exit(0)


def _flush_stderr() -> None:
    """Flush stderr. A failure to write does not change the exit code."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Redirect a stream to the null device. Otherwise the interpreter would try again to write the stream's buffer."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, stream.fileno())
    os.close(null_device)
