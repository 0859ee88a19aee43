"""How all commands print: the console, JSON for machines, and the sentence of a command that fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from trace_recorder.cli.json_writer import json_parts
from trace_recorder.cli.text_layout import escape_json_text, in_one_line
from trace_recorder.values.messages import Payload


def console() -> Console:
    """A console that prints text literally, without markup."""
    return Console(highlight=False, markup=False, emoji=False)


def table_width(on: Console) -> int | None:
    """Return how wide a table may be. In a pipe it is $COLUMNS, or None for no limit."""
    return on.width if on.is_terminal or "COLUMNS" in os.environ else None


def print_lines(on: Console, lines: Iterable[str | Text], style: str = "") -> None:
    """Print each text on one line. A `Text` has its own styles and no control characters."""
    for line in lines:
        if isinstance(line, str) and not style:
            typer.echo(in_one_line(line), file=on.file)  # in a tenth of the time
        else:
            on.print(line if isinstance(line, Text) else Text(in_one_line(line), style), soft_wrap=True)


def print_json(value: Payload) -> None:
    """Print a value as JSON, in the terminal's encoding or in ASCII, with control characters escaped."""
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    for part in json_parts(value, ascii_only=ascii_only):
        sys.stdout.write(escape_json_text(part))
    sys.stdout.write("\n")


def warn(message: str) -> None:
    """Print a sentence on stderr."""
    typer.echo(f"trace-recorder: {in_one_line(message)}", err=True)


def fail(message: str, code: int = 1) -> NoReturn:
    """Print a sentence on stderr, and exit."""
    warn(message)
    raise typer.Exit(code)
