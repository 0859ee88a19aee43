"""The command `stats`: figures over runs, for people as lines and tables, and for machines as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.output import console, fail, print_json, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, error_message, find_runs, read
from trace_recorder.cli.text_layout import in_one_line, number, pluralize, seconds
from trace_recorder.dialects.stream_usage import USAGE_ADVICE
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

    A run that cannot be read is reported and skipped; the exit code is then 1.
    """
    figures, failed = Stats(), 0
    try:
        for path in find_runs(paths):
            try:
                figures.merge(try_call(partial(_count, path), partial(_raise_unreadable, path)))
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
    """Return the figures of one run, so that a run that cannot be counted to its end is not counted at all."""
    one = Stats()
    one.add(read(path))
    one.to_json()
    return one


def _raise_unreadable(path: Path, error: Exception) -> Stats:
    raise error if isinstance(error, UnreadableError) else UnreadableError(error_message(path, error, "counted"))


def lines(figures: Mapping[str, Payload]) -> Iterator[str]:
    """Yield the figures as lines of text: a summary, and a table each of models, tools and rewards."""
    yield from _summary(figures)
    for rows in (_model_rows(figures["models"]), _tool_rows(figures["tools"]), _reward_rows(figures["rewards"])):
        if len(rows) > 1:
            yield ""
            yield from _table(rows)


def _summary(figures: Mapping[str, Payload]) -> Iterator[str]:
    llm = figures["llm"]
    yield f"runs    {_runs(figures['runs'])}"
    more = [f"{number(llm[name])} {name}" for name in ("failed", "incomplete", "retries") if llm[name]]
    yield f"calls   {', '.join([pluralize(llm['calls'], 'LLM call'), *more])}"
    yield f"tokens  {_tokens(llm['tokens'])}"
    yield f"cost    {_cost(llm['cost'])}"
    if figures["seconds"]:
        spent = [f"{name} {seconds(value)}" for name, value in figures["seconds"].items()]
        unknown = llm.get("calls_without_time")
        spent += [f"not stated by {pluralize(unknown, 'call')}"] if unknown else []
        yield f"time    {', '.join(spent)}"


def _runs(runs: Mapping[str, Payload]) -> str:
    names = ("completed", "failed", "interrupted", "running", "unknown")
    statuses = [f"{runs[name]} {name}" for name in names if name in runs]
    if not statuses:
        return "none"
    return f"{pluralize(runs.get('runs', 0), 'run')}: {', '.join(statuses)}; {_outcome(runs)}"


def _outcome(runs: Mapping[str, Payload]) -> str:
    """Say how many of the judged runs succeeded."""
    if "accuracy" not in runs:
        return "none judged"
    judged = pluralize(runs["accuracy_runs"], "judged run")
    return (
        f"{runs['succeeded']} succeeded, {runs['not_succeeded']} did not: accuracy {runs['accuracy']:.0%} of {judged}"
    )


Row = Sequence[str]


def _model_rows(models: Iterable[Mapping[str, Payload]]) -> list[Row]:
    titles = ("model", "calls", "failed", "retries", "tokens in", "out", "cached", "per call", "cost USD")
    return [titles, *map(_model, models)]


def _model(one: Mapping[str, Payload]) -> Row:
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


def _tool_rows(tools: Iterable[Mapping[str, Payload]]) -> list[Row]:
    names = ("calls", "failed", "unanswered", "outcome_unknown")
    rows = [[one["name"], *(number(one[name]) for name in names)] for one in tools]
    return [("tool", "calls", "failed", "no answer", "outcome unknown"), *rows]


def _reward_rows(rewards: Iterable[Mapping[str, Payload]]) -> list[Row]:
    names = ("mean", "least", "most")
    rows = [[one["name"], number(one["runs"]), *(f"{one[name]:g}" for name in names)] for one in rewards]
    return [("reward", "runs", *names), *rows]


def _tokens(tokens: Mapping[str, Payload]) -> str:
    words = {"prompt": "in", "completion": "out", "cache_read": "read from the cache"}
    words |= {"cache_write": "written to the cache", "reasoning": "for reasoning"}
    said = [f"{number(tokens[name])} {word}" for name, word in words.items() if name in tokens]
    if "cache_hit_rate" in tokens:
        said.append(f"{tokens['cache_hit_rate']:.0%} of the input cached")
    if "calls_without" in tokens:
        streams = tokens.get("streams_without_include_usage")
        advice = f" ({pluralize(streams, 'stream')}: {USAGE_ADVICE})" if streams else ""
        said.append(f"not stated by {pluralize(tokens['calls_without'], 'call')}{advice}")
    return ", ".join(said)


def _cost(cost: Mapping[str, Payload]) -> str:
    said = []
    if "stated" in cost:
        said.append(f"{cost['stated']:.6f} USD as billed ({pluralize(cost['stated_calls'], 'call')})")
    if "estimated" in cost:
        by = cost.get("estimated_with", "a table")
        said.append(
            f"about {cost['estimated']:.6f} USD by {by} ({pluralize(cost['estimated_calls'], 'call')}, an estimate)"
        )
    if cost["unknown_calls"]:
        hint = "" if table_name() else "; pip install 'trace-recorder[prices]' for estimates"
        said.append(f"unknown for {pluralize(cost['unknown_calls'], 'call')}{hint}")
    return ", ".join(said) or "nothing"


def _amount(cost: Mapping[str, Payload]) -> str:
    """Return a cost as one cell: an estimate has a tilde, and calls of unknown cost a question mark."""
    amounts = [cost[name] for name in ("stated", "estimated") if name in cost]
    if not amounts:
        return "?"
    return f"{'~' if 'estimated' in cost else ''}{sum(amounts):.6f}{' + ?' if cost['unknown_calls'] else ''}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """Align the cells of rows: the first column on the left, the others on the right."""
    cells = [[in_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        aligned = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *aligned]).rstrip()
