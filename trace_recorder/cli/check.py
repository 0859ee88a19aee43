"""The command `check`: whether live runs act as good runs did, for people, for machines and for CI systems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trace_recorder.cli.arguments import AsJson, no_runs_message
from trace_recorder.cli.list_runs import read_summary
from trace_recorder.cli.output import Progress, console, fail, print_json, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, find_runs, process, read_run
from trace_recorder.storage.local_copies import copied_ahead

if TYPE_CHECKING:
    from trace_recorder.figures.gate.gate import GateVerdict, RunOfTask, RunVerdict
    from trace_recorder.figures.gate.rules import Rules
    from trace_recorder.values.trajectory import Trajectory

Golden = Annotated[
    list[Path], typer.Argument(metavar="GOLDEN...", help="Good runs, or directories with good runs in or below them.")
]
Against = Annotated[
    list[Path],
    typer.Option("--against", metavar="RUNS...", help="The live runs to check, or directories with live runs."),
]
RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", help="Rules as TOML, in place of the default rules.")
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML for a CI system.")]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write a summary with the diff for a pull request.")
]


def check(  # noqa: PLR0913, PLR0917 - one argument for each option
    golden: Golden,
    against: Against,
    rules: RulesOption = None,
    as_json: AsJson = False,
    junit: Junit = None,
    markdown: MarkdownFile = None,
) -> None:
    """Compare live runs with good runs: tools, errors, prompts, models, figures and the result.

    Runs are paired by their task. Exits with 0 if enough live runs of each task agree with a good run, 1 if not, 2 if
    a run or the rules cannot be read.
    """
    from trace_recorder.cli.check_reports import verdict_lines  # noqa: PLC0415 - so that `--help` is fast
    from trace_recorder.figures.gate.gate import GateVerdict, TaskVerdict, check_task, tasks_of  # noqa: PLC0415 - so

    all_rules = _rules_of(rules)
    runs = CheckedFiles(golden, against)
    for _ in copied_ahead([run.path for run in (*runs.golden, *runs.live)]):
        pass
    tasks = tasks_of(runs.golden, runs.live, all_rules.pair)
    with Progress(len(tasks)) as progress:
        verdicts = [*progress.over(check_task(task, all_rules, runs.load) for task in tasks)]
    if runs.unlisted:
        verdicts.append(TaskVerdict("runs that cannot be read", runs.unlisted, "they cannot be read"))
    verdict = GateVerdict(verdicts)
    _write_reports(verdict, junit, markdown)
    if as_json:
        print_json(verdict.to_dict())
    else:
        print_lines(console(), verdict_lines(verdict))
    unreadable = [run.unreadable for task in verdict.tasks for run in task.runs if run.unreadable]
    for message in dict.fromkeys([*runs.unreadable, *unreadable]):
        warn(message)
    if unreadable or runs.unreadable:
        raise typer.Exit(2)
    if not verdict.passed:
        raise typer.Exit(1)


def _rules_of(path: Path | None) -> Rules:
    """Return the rules of a file, or the default rules. Exits with a sentence for each mistake in the file."""
    from trace_recorder.figures.gate.rules import Rules  # noqa: PLC0415 - `--help` does not need these
    from trace_recorder.figures.gate.rules_file import read_rules  # noqa: PLC0415

    if path is None:
        return Rules()
    try:
        return process(path, partial(read_rules, path))
    except UnreadableError as error:
        for mistake in str(error).splitlines():
            warn(mistake)
        raise typer.Exit(2) from None


def _write_reports(verdict: GateVerdict, junit: Path | None, markdown: Path | None) -> None:
    from trace_recorder.cli.check_reports import junit_xml, markdown_summary, write_check_report  # noqa: PLC0415 - imports XML

    for path, content in ((junit, junit_xml), (markdown, markdown_summary)):
        if path is not None:
            process(path, partial(write_check_report, path, content(verdict)), "written")


class CheckedFiles:
    """The runs of both sides, and why some of them cannot be read."""

    def __init__(self, golden: Sequence[Path], live: Sequence[Path]) -> None:
        self.unreadable: list[str] = []
        self.unlisted: list[RunVerdict] = []
        """The runs whose task cannot be read, so that they are in no pair."""
        self.golden = self._runs_at(golden)
        self.live = self._runs_at(live)
        both = {run.path.resolve() for run in self.golden} & {run.path.resolve() for run in self.live}
        if both:
            fail(f"{min(both)} is a golden run and a live run; give it once", 2)

    def load(self, path: Path) -> Trajectory | str:
        """Load a run, or return why it cannot be read."""
        try:
            return read_run(path)
        except UnreadableError as error:
            self.unreadable.append(str(error))
            return str(error)

    def _runs_at(self, paths: Sequence[Path]) -> list[RunOfTask]:
        """Return the runs at these paths with their tasks. A run that cannot be read has no task."""
        from trace_recorder.figures.gate.gate import RunOfTask, RunVerdict  # noqa: PLC0415 - as above

        runs = []
        for path in copied_ahead(find_runs(paths), "document ends"):
            try:
                runs.append(RunOfTask(path, read_summary(path).task))
            except UnreadableError as error:
                self.unreadable.append(str(error))
                self.unlisted.append(RunVerdict(path, None, unreadable=str(error)))
        if not runs:
            raise UnreadableError(next(iter(self.unreadable), no_runs_message(paths)))
        return runs
