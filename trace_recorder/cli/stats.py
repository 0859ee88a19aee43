"""The command `stats`: prints figures about runs, as JSON, or as a summary with tables of models, tools and rewards.

The summary is wrapped at the width of the terminal. If the table of models is too wide, each model becomes a column of
figures, and as many columns as fit are side by side. In a pipe nothing is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, Jobs, paths_or_default
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName
from trace_recorder.cli.output import RunLoop, console, print_json, print_lines, table_width
from trace_recorder.cli.planned_runs import results, results_of_unread
from trace_recorder.cli.read_files import UnreadableError, process_or_error, read_run
from trace_recorder.cli.selecting import Limit, Reverse, SortBy, Where, select_runs, selection_of
from trace_recorder.cli.stats_by import MAX_SHOWN, Against, By, group_report, measures_in
from trace_recorder.cli.stats_tokens import OfTokens, token_report, tokens_in
from trace_recorder.cli.text_layout import number, pluralize, seconds
from trace_recorder.cli.text_tables import TextRow, table_lines, wrapped_line
from trace_recorder.dialects.dialect import USAGE_ADVICE
from trace_recorder.figures.cost import table_name
from trace_recorder.figures.run_measures import measures_from
from trace_recorder.figures.stats import Stats
from trace_recorder.values.messages import Payload


def stats(  # noqa: PLR0913, PLR0917 - one argument for each option
    paths: DefaultRuns = None,
    where: Where = None,
    sort: SortBy = None,
    reverse: Reverse = False,
    limit: Limit = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    index: IndexPath = None,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
    by: By = None,
    against: Against = None,
    of_tokens: OfTokens = False,
) -> None:
    """Count calls, tokens, costs, tools and failures over runs.

    Retries, time and cached tokens are counted too. All figures of calls are given in total and by model. A run that
    cannot be read is reported and skipped; the exit code is then 1. With --by, compare groups of runs.
    """
    if against is not None and not by:
        raise typer.BadParameter("it needs --by", param_hint="--against")
    if of_tokens and by:
        raise typer.BadParameter("it counts all runs, without --by", param_hint="--tokens")
    workers = Engine(engine, address)
    selection = selection_of(where, sort=sort, reverse=reverse, limit=limit)
    runs = select_runs(paths_or_default(paths), selection, index=index, uses_index=not of_tokens, jobs=jobs)
    loop, out = RunLoop(len(runs.candidates)), console()
    if of_tokens:  # the index has no tokens
        counted = loop.over(results_of_unread(runs.as_unread(), tokens_in, jobs, workers))
        report, lines = token_report(counted, table_width(out))
    elif by:
        measured = loop.over(results(runs, measures_in, measures_from, "measures", jobs, workers))
        report, lines = group_report(measured, by, against, None if as_json else MAX_SHOWN, table_width(out))
    else:
        figures = loop.over(results(runs, count_run, Stats.from_text, "stats", jobs, workers))
        report, lines = _report(figures, table_width(out))
    unreadable = runs.unreadable + loop.failed
    if as_json:
        print_json(report | {"unreadable": unreadable})
    elif loop.failed < len(runs.candidates):
        print_lines(out, lines)
    if unreadable:
        raise typer.Exit(1)


def _report(figures: Iterable[Stats], width: int | None) -> tuple[dict[str, Payload], Iterator[str]]:
    """Return the sums of the runs' figures, and their lines."""
    every = Stats()
    for of_run in figures:
        every.merge(of_run)
    report = every.to_json()
    return report, figure_lines(report, width)


def figure_lines(figures: Mapping[str, Payload], width: int | None = None) -> Iterator[str]:
    """Yield the figures as lines of text. No line is longer than `width`, unless names are too long."""
    for line in _summary(figures):
        yield from wrapped_line(line, width)
    titles: TextRow = ("model", "calls", "failed", "retries", "tokens in", "out", "cached", "per call", "cost USD")
    yield from table_lines([titles, *map(_model, figures["models"])], width, side_by_side=True)
    tools = [tool for tool in figures["tools"] if tool["calls"]]  # a tool that was only replayed has no figures
    titles = ("tool", "calls", "failed", "no answer", "outcome unknown", "per call")
    yield from table_lines([titles, *map(_tool, tools)], width)
    titles = ("MCP server", "calls", "failed", "per call", "prompts", "tool list")
    yield from table_lines([titles, *map(_server, figures["servers"])], width)
    yield from table_lines([("reward", "runs", *_REWARD_FIGURES), *map(_reward, figures["rewards"])], width)


def _summary(figures: Mapping[str, Payload]) -> Iterator[str]:
    llm = figures["llm"]
    yield f"runs    {_runs(figures['runs'])}"
    yield f"calls   {_calls(llm)}"
    yield f"tokens  {_tokens(llm['tokens'])}"
    yield f"cost    {_cost(llm['cost'])}"
    if figures["seconds"]:
        times = [f"{name} {seconds(value)}" for name, value in figures["seconds"].items()]
        unknown = llm.get("calls_without_time")
        if unknown:
            times.append(f"not stated by {pluralize(unknown, 'call')}")
        untimed = sum(tool.get("calls_without_time", 0) for tool in figures["tools"])
        if untimed:
            times.append(f"not known of {pluralize(untimed, 'tool call')}")
        yield f"time    {', '.join(times)}"


def _calls(llm: Mapping[str, Payload]) -> str:
    words = [pluralize(llm["calls"], "LLM call")]
    words += [f"{number(llm[name])} {name}" for name in ("failed", "incomplete") if llm[name]]
    if llm["retries"]:
        words.append(pluralize(llm["retries"], "retry"))
    if "replayed" in llm:
        words.append(f"{number(llm['replayed'])} replayed")
    if "side_calls" in llm:
        words.append(pluralize(llm["side_calls"], "side call"))
    return ", ".join(words)


def _runs(runs: Mapping[str, Payload]) -> str:
    names = ("completed", "failed", "interrupted", "running", "unknown")
    statuses = [f"{runs[name]} {name}" for name in names if name in runs]
    if not statuses:
        return "none"
    text = f"{pluralize(runs.get('runs', 0), 'run')}: {', '.join(statuses)}"
    if runs.get("replays"):
        text += f", of them {pluralize(runs['replays'], 'replay')}"
    return f"{text}; {_outcome(runs)}"


def _outcome(runs: Mapping[str, Payload]) -> str:
    """Describe how many of the judged runs succeeded."""
    if "accuracy" not in runs:
        return "none judged"
    judged = pluralize(runs["accuracy_runs"], "judged run")
    return (
        f"{runs['succeeded']} success, {runs['not_succeeded']} no success: accuracy {runs['accuracy']:.0%} of {judged}"
    )


def _model(row: Mapping[str, Payload]) -> TextRow:
    tokens = row["tokens"]
    rate = tokens.get("cache_hit_rate")
    return [
        f"{row['provider']}/{row['model']}",
        *(number(row[name]) for name in ("calls", "failed", "retries")),
        *(number(tokens.get(name, "")) for name in ("prompt", "completion")),
        "" if rate is None else f"{rate:.0%}",
        seconds(row.get("mean_seconds")),
        _amount(row["cost"]),
    ]


def _tool(row: Mapping[str, Payload]) -> TextRow:
    names = ("calls", "failed", "unanswered", "outcome_unknown")
    return [row["name"], *(number(row[name]) for name in names), seconds(row.get("mean_seconds"))]


def _server(row: Mapping[str, Payload]) -> TextRow:
    tool_list = ""
    if "estimated_list_tokens" in row:
        tool_list = f"~{number(row['estimated_list_tokens'])} tokens"
    counts = (number(row["calls"]), number(row["failed"]), seconds(row.get("mean_seconds")))
    return [row["name"], *counts, number(row.get("prompts", "")), tool_list]


_REWARD_FIGURES = ("mean", "least", "most")


def _reward(row: Mapping[str, Payload]) -> TextRow:
    return [row["name"], number(row["runs"]), *(f"{row[name]:g}" for name in _REWARD_FIGURES)]


def _tokens(tokens: Mapping[str, Payload]) -> str:
    words = {"prompt": "in", "completion": "out", "cache_read": "read from the cache"}
    words |= {"cache_write": "written to the cache", "reasoning": "for reasoning"}
    parts = [f"{number(tokens[name])} {word}" for name, word in words.items() if name in tokens]
    if "cache_hit_rate" in tokens:
        parts.append(f"{tokens['cache_hit_rate']:.0%} of the input cached")
    if "calls_without" in tokens:
        unstated = f"not stated by {pluralize(tokens['calls_without'], 'call')}"
        streams = tokens.get("streams_without_include_usage")
        if streams:
            unstated += f" ({pluralize(streams, 'stream')}: {USAGE_ADVICE})"
        parts.append(unstated)
    return ", ".join(parts) or "none"


def _cost(cost: Mapping[str, Payload]) -> str:
    parts = []
    if "stated" in cost:
        parts.append(f"{cost['stated']:.6f} USD as billed ({pluralize(cost['stated_calls'], 'call')})")
    if "estimated" in cost:
        by = cost.get("estimated_with", "a table")
        parts.append(
            f"about {cost['estimated']:.6f} USD by {by} ({pluralize(cost['estimated_calls'], 'call')}, an estimate)"
        )
    if cost["unknown_calls"]:
        unknown = f"unknown for {pluralize(cost['unknown_calls'], 'call')}"
        if not table_name():
            unknown += "; pip install 'trace-recorder[prices]' for estimates"
        parts.append(unknown)
    if "without_rate" in cost:
        left_out = [f"{name} of {pluralize(calls, 'call')}" for name, calls in cost["without_rate"].items()]
        parts.append(f"unknown in part: no rate for {', '.join(left_out)}")
    return ", ".join(parts) or "nothing"


def _amount(cost: Mapping[str, Payload]) -> str:
    """Return a cost as one cell.

    `~` means that the cost is an estimate, and `?` that the cost of some calls is unknown.
    """
    amounts = [cost[name] for name in ("stated", "estimated") if name in cost]
    if not amounts:
        return "?"
    text = f"{sum(amounts):.6f}"
    if "estimated" in cost:
        text = f"~{text}"
    if cost["unknown_calls"] or "without_rate" in cost:
        text += " + ?"
    return text


def count_run(path: Path) -> Stats | UnreadableError:
    """Return the figures of one run, or why it cannot be counted. A run is counted as a whole or not at all."""
    return process_or_error(path, partial(_count, path), "counted")


def _count(path: Path) -> Stats:
    figures = Stats()
    figures.add(read_run(path))
    figures.to_json()
    return figures
