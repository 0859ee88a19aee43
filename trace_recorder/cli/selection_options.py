"""The options by which `list` and `export` select runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from trace_recorder.catalog import query
from trace_recorder.errors import QueryError

Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Only runs with this in a call's provider/model.")
]
Task = Annotated[str | None, typer.Option("--task", metavar="WORDS", help="Only runs with this in their task.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only runs that began then or later: 2025-06-12T22:05, or 7d (ago)."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only runs that began before: 2025-06-12, or 12h (ago).")
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed, or were no success.")]
Tool = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only runs in which this tool was asked for.")]
Reward = Annotated[str | None, typer.Option("--reward", metavar="NAME", help="Only runs with this reward.")]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Only runs with this in their metadata; may be repeated."),
]


def time_of(text: str | None, option: str) -> datetime | None:
    """Read a date, a time, or how long ago; in the local time zone if it names none. Raises BadParameter."""
    if text is None:
        return None
    try:
        return query.time_of(text)
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def metadata_of(pairs: list[str] | None) -> dict[str, str]:
    """Read KEY=VALUE. Raises BadParameter."""
    found = dict(pair.partition("=")[::2] for pair in pairs or ())
    if bad := next((pair for pair in pairs or () if "=" not in pair), None):
        raise typer.BadParameter(f"{bad!r} is not KEY=VALUE", param_hint="--meta")
    return found
