"""The command `show`: its options, what it shows of a run, and its exit code. `show.py` makes the text of a step.

With --errors it shows whole steps in which something failed. With --raw it prints the requests and responses of a step
as they were sent, with masked secrets; only the journal has them. If a call has several attempts, the last attempt is
printed. With --brief it shows one line for each step. With --turns it shows ToolBrain's turns, as a reward function
gets them: the turns that `export --format toolbrain` writes, and replayed turns. It also counts calls without a turn,
such as failed calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT, Full, check_names, completion_of, paths_or_default
from trace_recorder.cli.output import console, print_json, print_lines, table_width, warn
from trace_recorder.cli.read_files import UnreadableError, is_directory, read_run
from trace_recorder.cli.run_header import header_entries
from trace_recorder.cli.show import Show
from trace_recorder.cli.step_numbers import StepRange, parts_of_steps, step_ranges
from trace_recorder.cli.text_layout import EntryWriter
from trace_recorder.figures.conversations.run_agents import run_agents_of
from trace_recorder.formats.left_out import UNANSWERED
from trace_recorder.formats.shared_document import shared_document
from trace_recorder.formats.toolbrain.parsing import DEFAULT_PARSER, PARSERS
from trace_recorder.guard import try_call
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH...]",
        help=f"The .json or .jsonl of runs. A directory stands for its newest run. {DEFAULT}",
        show_default=False,
    ),
]
StepOption = Annotated[
    str | None, typer.Option("--step", metavar="STEPS", help="Show only these steps: 3, or 3,7, or 10-16, 10-, -5.")
]
BriefOption = Annotated[bool, typer.Option("--brief", help="Show one line for each step.")]
AsDocument = Annotated[
    bool, typer.Option("--json", help="Print JSON: the document with full prompts, or the lines, or the turns.")
]
Turns = Annotated[bool, typer.Option("--turns", help="Show the run as ToolBrain's turns, with warnings.")]
ParserOption = Annotated[
    str | None,
    typer.Option(
        "--parser",
        metavar="NAME",
        help=f"With --turns, one of {', '.join(PARSERS)}.",
        autocompletion=completion_of(PARSERS),
    ),
]
ErrorsOption = Annotated[bool, typer.Option("--errors", help="Show only the steps in which something failed.")]
RawOption = Annotated[
    bool, typer.Option("--raw", help="With --step: print the requests and responses as JSON, as they were sent.")
]


def show(  # noqa: PLR0913, PLR0917 - one argument for each option
    files: Files = None,
    full: Full = False,
    step: StepOption = None,
    brief: BriefOption = False,
    errors: ErrorsOption = False,
    raw: RawOption = False,
    turns: Turns = False,
    parser: ParserOption = None,
    as_json: AsDocument = False,
) -> None:
    """Show runs, step by step.

    Each step has the new messages of its prompt, the answer, and the results of its tools. With --turns, each call has
    the end of its prompt, the parsed answer, and warnings: an error, no answer, code without output. With --errors,
    only steps with an error or a failed call, attempt or tool are shown. A line of --brief has the step's number,
    agent, model, tokens, time and tools, and the first words of its answer.
    """
    _check_turn_options(parser, step, turns=turns)
    _check_step_options(step, errors=errors, raw=raw, whole=turns or (as_json and not brief))
    _check_brief_options(brief=brief, raw=raw, turns=turns)
    ranges = () if step is None else step_ranges(step)
    chosen = _ChosenSteps(ranges, errors=errors)

    def print_it(file: Path) -> None:
        if is_directory(file):
            from trace_recorder.cli.list_runs import run_at  # noqa: PLC0415 - only a directory needs it

            file = run_at(file)
        trajectory = read_run(file)
        if turns:
            _print_turns(trajectory, parser, full=full, as_json=as_json)
        elif raw:
            print_json(raw_calls(trajectory, chosen.of(steps_and_calls(trajectory), file)))
        elif as_json:
            print_json(_json(trajectory, file, chosen, brief=brief))
        else:
            _print_run(trajectory, file, chosen, full=full, brief=brief)

    failed = False
    for number, file in enumerate(paths_or_default(files)):
        if number and not (as_json or raw):
            console().print()
        try:
            try_call(partial(print_it, file), partial(_refuse_damaged, file))
        except UnreadableError as error:
            failed = True
            warn(str(error))
    if failed:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _ChosenSteps:
    """The steps to show: those in `ranges`, those with errors, or all of them."""

    ranges: Sequence[StepRange]
    errors: bool

    def of(self, parts: Sequence[StepOrCall], file: Path) -> Sequence[StepOrCall]:
        """Return the chosen steps and their calls. Raises UnreadableError if a range has no step."""
        if self.errors:
            return parts_with_errors(parts)
        if self.ranges:
            return parts_of_steps(parts, self.ranges, file)
        return parts


def _refuse_damaged(file: Path, error: Exception) -> None:
    """Raise UnreadableError for an error in a file's contents. An error of the output is raised unchanged."""
    if isinstance(error, OSError | UnreadableError):
        raise error
    why = f"{type(error).__name__}: {error}"
    raise UnreadableError(f"{file} is damaged ({why}): `trace-recorder validate` lists the places") from error


def _check_turn_options(parser: str | None, step: str | None, *, turns: bool) -> None:
    if turns and step is not None:
        raise typer.BadParameter("turns have no step numbers", param_hint="--step")
    if parser is not None:
        if not turns:
            raise typer.BadParameter("it needs --turns", param_hint="--parser")
        check_names([parser], PARSERS, "--parser")


def _check_step_options(step: str | None, *, errors: bool, raw: bool, whole: bool) -> None:
    if raw and step is None:
        raise typer.BadParameter("it needs --step", param_hint="--raw")
    if errors and (raw or step is not None):
        raise typer.BadParameter("it selects the steps itself", param_hint="--errors")
    if errors and whole:
        raise typer.BadParameter("it cannot be combined with --turns or --json", param_hint="--errors")


def _check_brief_options(*, brief: bool, raw: bool, turns: bool) -> None:
    if not brief:
        return
    for option, is_given in (("--raw", raw), ("--turns", turns)):
        if is_given:
            raise typer.BadParameter(f"it cannot be combined with {option}", param_hint="--brief")


def _print_turns(trajectory: Trajectory, parser: str | None, *, full: bool, as_json: bool) -> None:
    """Print ToolBrain's turns: as `export` writes them, or for people. If `full` is True, no line is shortened."""
    from trace_recorder.formats.toolbrain.turns import format_turns, turns_one_by_one  # noqa: PLC0415 - only --turns needs it

    parse = PARSERS[parser or DEFAULT_PARSER]
    turns, left_out = turns_one_by_one.with_report(trajectory, parse, include_replayed=True)
    if as_json:
        print_json(turns)
        return
    out = console()
    if full:
        lines = format_turns(turns, sys.maxsize)
    else:
        lines = format_turns(turns)
    for line in lines:
        style = ""
        if line.startswith("WARNING"):
            style = "yellow"
        elif line.startswith("==="):
            style = "bold"
        print_lines(out, [line], style)
    if left_out[UNANSWERED]:
        print_lines(out, [f"No turns: {left_out[UNANSWERED]} x {UNANSWERED}"], "yellow")


def _print_run(trajectory: Trajectory, file: Path, chosen: _ChosenSteps, *, full: bool, brief: bool) -> None:
    """Print the chosen steps. The header of the run comes first, unless the steps were chosen by their numbers."""
    parts = steps_and_calls(trajectory)
    shown = chosen.of(parts, file)
    out = console()
    writer = EntryWriter(out, full=full)
    if not chosen.ranges:
        writer.write(header_entries(trajectory, file.name))
    if not brief:
        _write_parts(writer, Show(trajectory, full=full), parts, shown)
    elif shown:
        from trace_recorder.cli.show_brief import brief_lines  # noqa: PLC0415 - only --brief needs it

        if not chosen.ranges:
            out.print()
        print_lines(out, brief_lines(shown, run_agents_of(trajectory), table_width(out)))
    if chosen.errors and not shown:
        print_lines(out, ["", "No step has an error."])


def _write_parts(writer: EntryWriter, showing: Show, parts: Sequence[StepOrCall], shown: Sequence[StepOrCall]) -> None:
    """Write some of the steps. The steps before them are read too, because messages of theirs are not shown again."""
    waiting = {id(part) for part in shown}
    for part in parts:
        if not waiting:
            break
        entries = list(showing.part(part))
        if id(part) in waiting:
            writer.write(entries)
            waiting.remove(id(part))


def _json(trajectory: Trajectory, file: Path, chosen: _ChosenSteps, *, brief: bool) -> Payload:
    """Return the document with the chosen steps and calls, or what `--brief` says of them."""
    if not (brief or chosen.ranges):
        return shared_document(trajectory)
    parts = chosen.of(steps_and_calls(trajectory), file)
    if brief:
        from trace_recorder.cli.show_brief import brief_json  # noqa: PLC0415 - only --brief needs it

        return brief_json(parts, run_agents_of(trajectory))
    return shared_document(_with_parts(trajectory, parts))


def _with_parts(trajectory: Trajectory, parts: Sequence[StepOrCall]) -> Trajectory:
    """Return the run with only these steps and calls."""
    steps = [part.step for part in parts if part.step is not None]
    calls = {part.call.interaction_id for part in parts if part.call is not None}
    calls |= {identity for step in steps for identity in step.interaction_ids}
    return replace(
        trajectory,
        llm_interactions=[call for call in trajectory.llm_interactions if call.interaction_id in calls],
        agent_steps=steps,
    )


_FIRST_HTTP_ERROR = 400


def parts_with_errors(parts: Sequence[StepOrCall]) -> list[StepOrCall]:
    """Return the steps that have an error or a failed call, attempt or tool, with their calls.

    Failed calls that belong to no step are included.
    """
    failed = [part for part in parts if _has_error(part)]
    numbers = {str(part.step_number) for part in failed if part.step_number is not None}
    alone = {id(part) for part in failed}
    return [part for part in parts if id(part) in alone or str(part.step_number) in numbers]


def _has_error(part: StepOrCall) -> bool:
    step, call = part.step, part.call
    if step is not None and (
        step.error or any(result.success is False or result.error for result in step.tool_results)
    ):
        return True
    if call is None:
        return False
    if call.error is not None:
        return True
    return any(attempt.error or (attempt.status or 0) >= _FIRST_HTTP_ERROR for attempt in call.attempts)


def raw_calls(trajectory: Trajectory, parts: Iterable[StepOrCall]) -> list[Payload]:
    """Return the request and response of each call of these steps, as they were sent.

    Raises UnreadableError if there is no call, or if the run has no raw request of a call.
    """
    ids = {part.call.interaction_id for part in parts if part.call is not None}
    calls = [call for call in trajectory.llm_interactions if call.interaction_id in ids]
    if not calls:
        raise UnreadableError("the step has no LLM call, so nothing was sent")
    return [_raw_call(call) for call in calls]


def _raw_call(call: LLMInteraction) -> Payload:
    source = call.source
    if not isinstance(source, CallFacts):
        raise UnreadableError(
            f"{call.interaction_id}: only a run's journal has the requests and responses as they were sent"
        )
    if source.newest.by_hand is not None:
        raise UnreadableError(
            f"{call.interaction_id} was recorded by hand: its request and response as sent are unknown"
        )
    raw = {
        "interaction_id": call.interaction_id,
        "url": source.url,
        "request": call.raw_request,
        "status": call.attempts[-1].status if call.attempts else None,
    }
    stream = call.raw_stream
    if stream is None:
        raw["response"] = call.raw_response
    else:
        raw["stream"] = stream
    return raw
