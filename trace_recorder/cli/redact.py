"""The command `redact`: removes texts from the files of ended runs, and says what is left.

Without --yes it counts the places, and changes no byte. What is removed is never printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, TablePaths, check_index, local_paths
from trace_recorder.cli.output import RunLoop, console, fail, print_json, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, failure_message, is_directory, process_or_error
from trace_recorder.cli.selecting import Where, select_runs, selection_of
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    from trace_recorder.retention.redaction import RedactedRun
    from trace_recorder.retention.redaction_rules import RedactionRules

TextFrom = Annotated[
    list[Path] | None,
    typer.Option(
        "--text-from",
        metavar="FILE|-",
        help="A file with a text to remove, or - for stdin. The newline at its end does not count. May be repeated.",
    ),
]
Pattern = Annotated[
    list[str] | None,
    typer.Option("--pattern", metavar="RE", help="A regular expression in Python's syntax. May be repeated."),
]
Function = Annotated[
    list[str] | None,
    typer.Option(
        "--function",
        metavar="MODULE:NAME",
        help="A function that gets each text and returns it changed, as MODULE:NAME or FILE.py:NAME. May be repeated.",
    ),
]
Address = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="ADDRESS",
        help="A value to remove, such as llm_3.prompt[2], llm_3.answer, tool_4.result or task. May be repeated.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Remove the texts. Otherwise only count them.")]


def redact_(  # noqa: PLR0913, PLR0917 - one argument for each option
    paths: DefaultRuns = None,
    text_from: TextFrom = None,
    pattern: Pattern = None,
    function: Function = None,
    address: Address = None,
    where: Where = None,
    tables: TablePaths = None,
    index: IndexPath = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove texts from the files of runs that have ended.

    Prints how many places in which runs have a text, in every encoding that is known, and changes no byte. With --yes,
    they are replaced by [REDACTED:removed] in the journals, documents, indexes and tables. Then the files are searched
    again. The exit code is 1 if anything is left, or if a run could not be redacted; repeat the command then. A run
    that is being written is refused.
    """
    paths = local_paths(paths, "redact")
    check_index(index, paths)
    if index is not None and not index.is_file():  # an update would make it
        fail(f"{index}: no such file. Nothing was removed")
    _check_tables(tables or [])
    rules = _rules(text_from or [], pattern or [], function or [], address or [])
    selected = select_runs(paths, selection_of(where), index=index)
    runs = selected.paths
    loop = RunLoop(len(runs))
    redacted = [*loop.over(_redact_each(runs, rules, dry_run=not yes))]
    redacted_runs = [run for run in redacted if run.count]
    if not as_json:
        for run in redacted_runs:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(run.places.items()))
            loop.print([f"{run.path}: {pluralize(run.count, 'place')} ({kinds})"])
    total = f"{pluralize(sum(run.count for run in redacted_runs), 'place')} in {pluralize(len(redacted_runs), 'run')}"
    following = _Following()
    if not yes:
        hint = ": nothing was changed; --yes removes them" if redacted_runs else ""
        warn(f"{total}{hint}")
    else:
        following = _follow(redacted, paths, index, tables or [])
        if not as_json:
            print_lines(console(), following.written)
        for other in following.others:
            warn(f"{other}: it has a removed text too, and was not selected")
        for place in following.left:
            warn(f"left: {place}")
        warn(f"{total} removed, {pluralize(len(following.left), 'place')} left")
    if as_json:
        print_json(_as_json(redacted_runs, following, is_done=yes))
    if loop.failed or selected.unreadable or following.left:
        raise typer.Exit(1)


def _check_tables(directories: Iterable[Path]) -> None:
    """Exit if a directory has no tables. A wrong path would leave the texts in the tables."""
    from trace_recorder.tables.rewritten_rows import named_tables  # noqa: PLC0415

    for directory in directories:
        try:
            named_tables(directory)
        except FileNotFoundError as error:
            fail(f"{failure_message(directory, error)}. Nothing was removed")


def _as_json(runs: Sequence[RedactedRun], following: _Following, *, is_done: bool) -> Payload:
    return {
        "removed": is_done,
        "runs": [{"path": str(run.path), "count": run.count, "places": dict(run.places)} for run in runs],
        "places": sum(run.count for run in runs),
        "written": following.written,
        "others": [*map(str, following.others)],
        "left": following.left,
    }


def _rules(texts: Sequence[Path], patterns: list[str], functions: list[str], addresses: list[str]) -> RedactionRules:
    """Return the rules of the options. Raises RedactionRuleError."""
    from trace_recorder.errors import RedactionRuleError  # noqa: PLC0415
    from trace_recorder.formats.toolbrain.reward_functions import imported_function  # noqa: PLC0415
    from trace_recorder.retention.redaction_rules import RedactionRules  # noqa: PLC0415

    try:
        imported = [imported_function(name) for name in functions]
    except ValueError as error:
        raise RedactionRuleError(str(error)) from error
    return RedactionRules(map(_text_of, texts), patterns, imported, addresses)


def _text_of(file: Path) -> str:
    """Return the text in a file, or on stdin for `-`, without the newline at its end."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        fail(failure_message(file, error))


def _redact_each(
    runs: Iterable[Path], rules: RedactionRules, *, dry_run: bool
) -> Iterable[RedactedRun | UnreadableError]:
    from trace_recorder.retention.redaction import redact_files  # noqa: PLC0415

    for run in runs:
        yield process_or_error(run, partial(redact_files, run, rules, dry_run=dry_run), "redacted")


@dataclass(frozen=True, slots=True)
class _Following:
    """What has followed a redaction: sentences about the written files, other runs with a text, and what is left."""

    written: list[str] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def _follow(
    redacted: Sequence[RedactedRun], paths: Sequence[Path], index: Path | None, tables: list[Path]
) -> _Following:
    """Bring indexes and tables up to date, and look for what is left."""
    from trace_recorder.errors import MissingExtraError  # noqa: PLC0415
    from trace_recorder.retention.derived_files import DerivedFiles  # noqa: PLC0415
    from trace_recorder.retention.removed_texts import RemovedTexts  # noqa: PLC0415

    following = _Following(left=[leftover for run in redacted for leftover in map(str, run.leftovers)])
    if not redacted:
        return following
    removed = RemovedTexts.of_all([run.removed for run in redacted])
    directories = [path for path in paths if is_directory(path)]
    derived = DerivedFiles([run.path for run in redacted], removed, directories=directories, index=index, tables=tables)
    following.others.extend(derived.others())
    try:
        following.written.extend(derived.update())
        following.left.extend(map(str, derived.leftovers(following.others)))
    except (OSError, MissingExtraError) as error:
        following.left.append(f"an index or a table could not be brought up to date: {error}")
    return following
