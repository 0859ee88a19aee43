"""The option `--tokens` of `stats`: prints how many tokens were sampled, and where conversations drift."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.read_files import UnreadableError, process_or_error, read_run
from trace_recorder.cli.text_layout import number, pluralize
from trace_recorder.cli.text_tables import table_lines, wrapped_line
from trace_recorder.figures.rollouts import sampled_rollout
from trace_recorder.figures.token_drift import DRIFTS, TokenFigures
from trace_recorder.values.messages import Payload

OfTokens = Annotated[
    bool,
    typer.Option("--tokens", help="Count sampled tokens, and how each prompt begins compared with the one before."),
]


def tokens_in(path: Path) -> TokenFigures | UnreadableError:
    """Return the counts of one run, or why it cannot be counted."""
    return process_or_error(path, partial(_counted, path), "counted")


def _counted(path: Path) -> TokenFigures:
    figures = TokenFigures()
    figures.add(sampled_rollout(read_run(path)))
    return figures


def token_report(counted: Iterable[TokenFigures], width: int | None) -> tuple[dict[str, Payload], Iterator[str]]:
    """Return the sums of the runs' counts, and their lines."""
    every = TokenFigures()
    for of_run in counted:
        every.merge(of_run)
    report = every.to_json()
    return report, token_lines(report, width)


def token_lines(figures: Mapping[str, Payload], width: int | None = None) -> Iterator[str]:
    """Yield the counts as lines of text. No line is longer than `width`, unless names are too long."""
    without = figures["calls_without_ids"]
    yield from wrapped_line(
        f"runs    {pluralize(figures['runs'], 'run')} with {number(figures['branches'])} branches of tokens", width
    )
    calls = f"{pluralize(figures['calls_with_ids'], 'call')} with token ids, {number(without)} without"
    yield from wrapped_line(f"calls   {calls}", width)
    yield from wrapped_line(f"tokens  {number(figures['sampled_tokens'])} sampled", width)
    rows = [
        (row["model"], row["template"] or "", *(number(row[name]) for name in ("calls", *DRIFTS)))
        for row in figures["models"]
    ]
    yield from table_lines([("model", "template", "calls", *DRIFTS), *rows], width)
