"""The tool `diff_runs`: where two runs first differ, and what each cost, as the command `diff` says it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from trace_recorder.catalog.texts import texts_of
from trace_recorder.figures.comparison.comparable_steps import Ignored
from trace_recorder.figures.comparison.trajectory_diff import DiffStep, TrajectoryDiff, diff
from trace_recorder.mcp_server.answers import Cutter, Json, fitting
from trace_recorder.mcp_server.served_runs import ServedRuns, WorkTime
from trace_recorder.mcp_server.server_tool import RunId, ServerTool, ToolArguments
from trace_recorder.values.messages import without_none
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.values.value_changes import ValueChange, marked_words
from trace_recorder.viewer.parameters import BadRequestError, NotFoundError

MAX_PAIRS = 200
MAX_STRIPPED_CHARACTERS = 20_000_000
MAX_CHANGES = 20
"""An answer has at most this many changes of one kind of difference."""
MAX_WORDS_CHARACTERS = 5_000
"""Two texts that are both at most this long are compared word by word."""
CHARACTERS_AROUND = 500
"""Of longer texts, this many characters from the first difference on are shown, and a fifth of it before."""


class DiffRuns(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `diff_runs`."""

    a: RunId
    b: RunId
    ignore: Annotated[tuple[Ignored, ...], Meta(description="The kinds of differences that do not count.")] = (
        "ids",
        "times",
    )
    pair: Annotated[
        int | None, Meta(description="Show the changes of this pair of steps in place of the first that differs.")
    ] = None
    first_pair: Annotated[int, Meta(description="The list of differing pairs begins at this pair.", ge=0)] = 0
    limit: Annotated[int, Meta(description="At most this many differing pairs are listed.", ge=1, le=MAX_PAIRS)] = 30


def diff_runs(runs: ServedRuns, arguments: DiffRuns, _: WorkTime) -> Json:
    """Return the differing pairs of steps of two runs, and the changes of one pair."""
    run_a, run_b = (runs.opened(identity).state()[1] for identity in (arguments.a, arguments.b))
    if {"ids", "times"}.intersection(arguments.ignore):
        _refuse_large(run_a, run_b)
    difference = diff(run_a, run_b, ignore=arguments.ignore)
    room = arguments.max_characters - 1500
    answer: Json = {"equal": difference.equal, "pairs": len(difference.steps)}
    if arguments.pair is None and not arguments.first_pair:
        sides = {"a": difference.a.to_dict(), "b": difference.b.to_dict()}
        answer |= Cutter(room // 4, longest=300).fit(sides, None)
    answer |= _changes_in(difference, arguments.pair, room // 2)
    differing = [
        (number, step)
        for number, step in enumerate(difference.steps)
        if step.differences and number >= arguments.first_pair
    ]
    if arguments.pair is None:
        listed = fitting((_row(number, step) for number, step in differing[: arguments.limit]), room // 4)
        answer["differing_count"] = len(differing)
        answer["differing"] = listed
        if len(listed) < len(differing):
            answer["next_first_pair"] = differing[len(listed)][0]
    return answer


def _refuse_large(*runs: Trajectory) -> None:
    """Refuse runs with so much text that leaving out ids and times would block the server."""
    characters = sum(len(text.text) for run in runs for text in texts_of(run))
    if characters > MAX_STRIPPED_CHARACTERS:
        raise BadRequestError(
            f"the runs have {characters:,} characters: leaving out ids and times takes too long above "
            f"{MAX_STRIPPED_CHARACTERS:,}. Give `ignore` without ids and times, such as []"
        )


def _changes_in(difference: TrajectoryDiff, pair: int | None, characters: int) -> Json:
    """Return the changes of a pair, or of the first pair that differs."""
    if pair is None:
        pair = difference.parts_at
    if pair is None:
        return {}
    if not 0 <= pair < len(difference.steps):
        raise NotFoundError(f"the runs have {len(difference.steps)} pairs of steps, numbered from 0")
    cutter = Cutter(characters)
    kinds: list[Json] = []
    for kind in difference.steps[pair].differences:
        changes = kind.changes()
        shown: Json = {"kind": kind.kind}
        if changes:
            shown["changes"] = [_change(change, cutter) for change in changes[:MAX_CHANGES]]
        shown |= without_none(more_changes=len(changes[MAX_CHANGES:]) or None)
        kinds.append(shown)
    return {"pair": pair, "differences": kinds}


def _change(change: ValueChange, cutter: Cutter) -> Json:
    """Return one change. Two texts are shown as one, or from their first difference on if they are long."""
    shown: Json = {"path": change.path, "kind": change.kind}
    before, after = change.before, change.after
    if change.kind == "changed" and isinstance(before, str) and isinstance(after, str):
        if max(len(before), len(after)) <= MAX_WORDS_CHARACTERS:
            return shown | {"words": cutter.fit(marked_words(before, after), None)}
        place = place_of_difference(before, after)
        begin = max(0, place - CHARACTERS_AROUND // 5)
        shown |= {"differs_at": place, "characters": [len(before), len(after)]}
        before, after = (text[begin : place + CHARACTERS_AROUND] for text in (before, after))
    if change.kind != "added":
        shown["before"] = cutter.fit(before, None)
    if change.kind != "removed":
        shown["after"] = cutter.fit(after, None)
    return shown


def place_of_difference(first: str, second: str) -> int:
    """Return the number of characters that two texts have in common at their beginning.

    The range in which the texts differ is halved again and again, so that large texts are compared by large slices.
    """
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _row(number: int, step: DiffStep) -> Json:
    """Return a pair of steps with the kinds of its differences, and what `show_step` takes to show each side."""
    row: Json = {"pair": number, "differs": [*dict.fromkeys(difference.kind for difference in step.differences)]}
    for name, side in (("a", step.a), ("b", step.b)):
        if side is None:
            row[name] = None
            continue
        call = side.source.call
        row[name] = without_none(step=side.source.step_number, interaction=call and call.interaction_id)
    return row


DIFF_RUNS = ServerTool(
    "diff_runs",
    "Compare two runs step by step: the first step that differs with its changes, the other steps that differ, and the "
    "figures of both. `[-words-]` are only in a, `{+words+}` only in b. show_step shows the whole values of a side.",
    DiffRuns,
    diff_runs,
)
