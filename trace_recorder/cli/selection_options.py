"""The options by which `list` and `export` select runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from trace_recorder.catalog import query
from trace_recorder.errors import QueryError

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="Only runs with this text in the provider/model of a call."),
]
Task = Annotated[str | None, typer.Option("--task", metavar="WORDS", help="Only runs with this text in their task.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only runs that began at this time or later: 2025-06-12T22:05, or 7d (ago)."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only runs that began before this time: 2025-06-12, or 12h (ago)."),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed or did not succeed.")]
Tool = Annotated[
    str | None, typer.Option("--tool", metavar="NAME", help="Only runs in which a model called this tool.")
]
Reward = Annotated[str | None, typer.Option("--reward", metavar="NAME", help="Only runs with this reward.")]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Only runs with this value in their metadata. May be repeated."),
]


def time_of(text: str | None, option: str) -> datetime | None:
    """Read a date, a time, or a duration before now. Without a time zone, it is local. Raises BadParameter."""
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
