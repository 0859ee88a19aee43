"""The command `stats`: figures over runs, for people as lines and tables, and for machines as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.output import console, fail, print_json, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, read, reason, runs_of
from trace_recorder.cli.text_layout import counted, in_one_line, number, seconds
from trace_recorder.dialects.stream_usage import ADVICE
from trace_recorder.guard import try_call
from trace_recorder.values.messages import Payload
from trace_recorder.views.cost import table_name
from trace_recorder.views.stats import Stats

Paths = Annotated[
    list[Path], typer.Argument(metavar="FILE|DIR...", help="Runs, or directories of them.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def stats(paths: Paths, as_json: AsJson = False) -> None:
    """Count over runs.

    Calls, tokens, cache, cost, tools, failures, retries and time, and all of that model by model.

    A run that cannot be read is told and passed over; the exit code is then 1.
    """
    figures, failed = Stats(), 0
    try:
        for path in runs_of(paths):
            try:
                figures.merge(try_call(partial(_count, path), partial(_refuse, path)))
            except UnreadableError as error:
                failed += 1
                warn(str(error))
    except UnreadableError as error:
        fail(str(error))
    if as_json:
        print_json(figures.to_json() | {"unreadable": failed})
    else:
        print_lines(console(), lines(figures.to_json()))
    if failed:
        raise typer.Exit(1)


def _count(path: Path) -> Stats:
    """The figures of one run, so that one which cannot be counted to its end is counted nowhere."""
    one = Stats()
    one.add(read(path))
    one.to_json()
    return one


def _refuse(path: Path, error: Exception) -> Stats:
    raise error if isinstance(error, UnreadableError) else UnreadableError(reason(path, error, "counted"))


def lines(figures: Mapping[str, Payload]) -> Iterator[str]:
    """Tell the figures."""
    runs, llm = figures["runs"], figures["llm"]
    ends = [
        f"{runs[name]} {name}" for name in ("completed", "failed", "interrupted", "running", "unknown") if name in runs
    ]
    yield (
        f"runs    {counted(runs.get('runs', 0), 'run')}: {', '.join(ends)}; {_outcome(runs)}"
        if ends
        else "runs    none"
    )
    more = [f"{number(llm[name])} {name}" for name in ("failed", "incomplete", "retries") if llm[name]]
    yield f"calls   {', '.join([counted(llm['calls'], 'LLM call'), *more])}"
    yield f"tokens  {_tokens(llm['tokens'])}"
    yield f"cost    {_cost(llm['cost'])}"
    if figures["seconds"]:
        spent = [f"{name} {seconds(value)}" for name, value in figures["seconds"].items()]
        unknown = llm.get("calls_without_time")
        spent += [f"not stated by {counted(unknown, 'call')}"] if unknown else []
        yield f"time    {', '.join(spent)}"
    if figures["models"]:
        yield ""
        yield from _table(_MODEL_TITLES, [_model(one) for one in figures["models"]], left=1)
    if figures["tools"]:
        yield ""
        titles = ("tool", "calls", "failed", "no answer", "outcome unknown")
        rows = [
            [one["name"], *(number(one[name]) for name in ("calls", "failed", "unanswered", "outcome_unknown"))]
            for one in figures["tools"]
        ]
        yield from _table(titles, rows, left=1)
    if figures["rewards"]:
        yield ""
        of_rewards = [
            [one["name"], number(one["runs"]), *(f"{one[name]:g}" for name in ("mean", "least", "most"))]
            for one in figures["rewards"]
        ]
        yield from _table(("reward", "runs", "mean", "least", "most"), of_rewards, left=1)


def _outcome(runs: Mapping[str, Payload]) -> str:
    """Tell how many runs succeeded, of how many of which that is known."""
    if "accuracy" not in runs:
        return "none judged"
    judged = counted(runs["accuracy_runs"], "judged run")
    return (
        f"{runs['succeeded']} succeeded, {runs['not_succeeded']} did not: accuracy {runs['accuracy']:.0%} of {judged}"
    )


_MODEL_TITLES = ("model", "calls", "failed", "retries", "tokens in", "out", "cached", "per call", "cost USD")


def _model(one: Mapping[str, Payload]) -> list[str]:
    tokens, cost = one["tokens"], one["cost"]
    rate = tokens.get("cache_hit_rate")
    return [
        f"{one['provider']}/{one['model']}",
        *(number(one[name]) for name in ("calls", "failed", "retries")),
        *(number(tokens[name]) if name in tokens else "" for name in ("prompt", "completion")),
        f"{rate:.0%}" if rate is not None else "",
        seconds(one.get("mean_seconds")),
        _amount(cost),
    ]


def _tokens(tokens: Mapping[str, Payload]) -> str:
    words = {"prompt": "in", "completion": "out", "cache_read": "read from the cache"}
    words |= {"cache_write": "written to the cache", "reasoning": "for reasoning"}
    said = [f"{number(tokens[name])} {word}" for name, word in words.items() if name in tokens]
    if "cache_hit_rate" in tokens:
        said.append(f"{tokens['cache_hit_rate']:.0%} of the input cached")
    if "calls_without" in tokens:
        streams = tokens.get("streams_without_include_usage")
        advice = f" ({counted(streams, 'stream')}: {ADVICE})" if streams else ""
        said.append(f"not stated by {counted(tokens['calls_without'], 'call')}{advice}")
    return ", ".join(said)


def _cost(cost: Mapping[str, Payload]) -> str:
    said = []
    if "stated" in cost:
        said.append(f"{cost['stated']:.6f} USD as billed ({counted(cost['stated_calls'], 'call')})")
    if "estimated" in cost:
        by = cost.get("estimated_with", "a table")
        said.append(
            f"about {cost['estimated']:.6f} USD by {by} ({counted(cost['estimated_calls'], 'call')}, an estimate)"
        )
    if cost["unknown_calls"]:
        hint = "" if table_name() else "; pip install 'trace-recorder[prices]' for estimates"
        said.append(f"unknown for {counted(cost['unknown_calls'], 'call')}{hint}")
    return ", ".join(said) or "nothing"


def _amount(cost: Mapping[str, Payload]) -> str:
    """A model's cost in one cell: an estimate has a tilde, what is unknown of it a question mark."""
    amounts = [cost[name] for name in ("stated", "estimated") if name in cost]
    if not amounts:
        return "?"
    return f"{'~' if 'estimated' in cost else ''}{sum(amounts):.6f}{' + ?' if cost['unknown_calls'] else ''}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    cells = [titles, *([in_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(titles))]
    for row in cells:
        laid = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(laid).rstrip()
