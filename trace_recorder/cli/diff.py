"""The command `diff`: shows the first step at which two runs differ, and what each run cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.text import Text

from trace_recorder.cli.arguments import DEFAULT, AsJson, check_names, completion_of, paths_or_default
from trace_recorder.cli.list_runs import newest_runs, run_at
from trace_recorder.cli.output import console, print_json, print_lines
from trace_recorder.cli.read_files import UnreadableError, is_directory, read_run
from trace_recorder.cli.text_layout import compact, in_one_line, number, pluralize, seconds
from trace_recorder.figures.comparison.comparable_steps import Ignored
from trace_recorder.figures.comparison.trajectory_diff import DiffRun, DiffSide, DiffStep, Figures, TrajectoryDiff
from trace_recorder.figures.comparison.trajectory_diff import diff as diff_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.value_changes import ValueChange, marked_parts, shortened

NAMES: tuple[Ignored, ...] = get_args(Ignored)
MAX_CHANGES = 20
"""At most this many changes are printed for each kind of difference between two steps."""
_STYLES = {"same": "", "removed": "red", "added": "green"}
StyledLine = tuple[str | Text, str]
"""A line and its style."""

RunA = Annotated[
    Path | None,
    typer.Argument(
        metavar="[A]",
        help=f"A run. A directory stands for its newest run; without B, for its newest two. {DEFAULT}",
        show_default=False,
    ),
]
RunB = Annotated[Path | None, typer.Argument(metavar="[B]", help="The run to compare A with.", show_default=False)]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="WHAT",
        help=f"Also ignore, besides ids and times: {', '.join(NAMES[2:])}.",
        autocompletion=completion_of(NAMES),
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Compare ids and times too.")]
Every = Annotated[bool, typer.Option("--all", help="Show every step that differs, not only the first.")]


def diff(  # noqa: PLR0913, PLR0917 - one argument for each option
    a: RunA = None,
    b: RunB = None,
    ignore: Ignore = None,
    strict: Strict = False,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: where they first differ, and what each cost.

    Exits with 0 if no step differs, 1 if a step differs, 2 if a run cannot be read.
    """
    check_names(sorted(ignore or ()), NAMES, "--ignore")
    ignored = {*(ignore or ())}
    if not strict:
        ignored |= {"ids", "times"}
    if not (a and b):
        a, b = _newest_two(a)
    difference = diff_of(read_run(run_at(a)), read_run(run_at(b)), ignore=[name for name in NAMES if name in ignored])
    if as_json:
        print_json(difference.to_dict())
    else:
        out = console()
        for line, style in comparison_lines(difference, str(a), str(b), every=every):
            print_lines(out, [line], style)
    if not difference.equal:
        raise typer.Exit(1)


def _newest_two(directory: Path | None) -> list[Path]:
    """Return the two newest runs of a directory, the older one first."""
    [directory] = paths_or_default([directory] if directory else None)
    if not is_directory(directory):
        raise typer.BadParameter("name the run to compare A with", param_hint="B")
    runs = newest_runs(directory, 2)
    if len(runs) == 1:
        raise UnreadableError(f"{directory} has one run only")
    return runs


def comparison_lines(difference: TrajectoryDiff, a: str, b: str, *, every: bool) -> Iterator[StyledLine]:
    """Yield the lines of a comparison with their styles."""
    yield f"a {a}: {_run(difference.a)}", "red"
    yield f"b {b}: {_run(difference.b)}", "green"
    yield from (
        (f"models: {first or 'unknown'} in a, {second or 'unknown'} in b", "") for first, second in difference.models
    )
    if difference.parts_at is None:
        yield f"no difference in {pluralize(len(difference.steps), 'step')}", ""
    else:
        yield from _differing_steps(difference, difference.parts_at, every=every)


def _differing_steps(difference: TrajectoryDiff, parts_at: int, *, every: bool) -> Iterator[StyledLine]:
    differing = [step for step in difference.steps if step.differences]
    yield f"equal: {pluralize(parts_at, 'step')}; then {len(differing)} of {len(difference.steps)} differ", ""
    shown = differing
    if not every:
        shown = differing[:1]
    for step in shown:
        yield "", ""
        yield _title(step), "bold"
        yield from _step(step)
    remaining = len(differing) - len(shown)
    if remaining:
        yield "", ""
        yield f"differences in {pluralize(remaining, 'more step')}: --all shows them", ""


def _run(run: DiffRun) -> str:
    words = [str(run.status)]
    if run.success:
        words.append("success")
    elif run.success is not None:
        words.append("no success")
    words += [str(run.origin or ""), run.model or "", pluralize(run.steps, "step")]
    words += [*_figures(run.figures), seconds(run.seconds)]
    return ", ".join(filter(None, words))


def _figures(figures: Figures) -> Iterator[str]:
    """Yield the figures of a run that are known, as texts."""
    yield pluralize(figures.calls, "call")
    if figures.replayed_calls:
        yield pluralize(figures.replayed_calls, "replayed call")
    if figures.input_tokens is not None:
        yield f"{number(figures.input_tokens)} tokens in"
    if figures.output_tokens is not None:
        yield f"{number(figures.output_tokens)} out"
    if figures.cost is not None:
        yield _cost(figures.cost, figures)


def _cost(cost: float, figures: Figures) -> str:
    """Return a cost as text. As in `stats`, `+ ?` means that the cost of some calls is unknown, in whole or in part."""
    text = f"{cost:.6f} USD"
    if figures.estimated_cost:
        text = f"about {text}"
    if figures.calls_without_price:
        text += " + ?"
    return text


def _title(step: DiffStep) -> str:
    if step.b is None and step.a is not None:
        return f"{_side('a', step.a)}: only in a"
    if step.a is None and step.b is not None:
        return f"{_side('b', step.b)}: only in b"
    sides = [_side(name, side) for name, side in (("a", step.a), ("b", step.b)) if side]
    kinds = ", ".join(difference.kind.replace("_", " ") for difference in step.differences)
    return f"{' | '.join(sides)}: {kinds}"


def _side(name: str, side: DiffSide) -> str:
    call = side.source.call
    text = f"{name} step {side.source.step_number}"
    if call and call.is_replayed:
        text += " (replayed)"
    return text


def _step(step: DiffStep) -> Iterator[StyledLine]:
    for difference in step.differences:
        changes = difference.changes()
        yield from (_change(difference.kind, change) for change in changes[:MAX_CHANGES])
        if len(changes) > MAX_CHANGES:
            yield f"  ... and {len(changes) - MAX_CHANGES} more changes of the {difference.kind}", ""


def _change(kind: str, change: ValueChange) -> StyledLine:
    name = change.path or kind
    if change.kind == "removed":
        return f"  - {name}: {_short(change.before)}", "red"
    if change.kind == "added":
        return f"  + {name}: {_short(change.after)}", "green"
    if isinstance(change.before, str) and isinstance(change.after, str):
        parts = [(in_one_line(part.text), _STYLES[part.kind]) for part in marked_parts(change.before, change.after)]
        return Text.assemble(in_one_line(f"  ~ {name}: "), *parts), ""
    return f"  ~ {name}: {_short(change.before)} -> {_short(change.after)}", ""


def _short(value: Payload) -> str:
    if isinstance(value, str) and len(value) < 200:
        return value
    return shortened(compact(value, full=False))
