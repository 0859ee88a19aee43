"""Everybody who shortens, compares, shows or exports conversations gives the same answer about each prompt.

The answer is that of `relations_of`: what a prompt is to an earlier prompt, and how many of its messages are kept, new
and gone. The runs are those of all tests: recorded, edited, frozen, and imported from files of other tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import histories
from tests.figures.conversations.edited_histories import CHANGES, conversation
from tests.formats import runs
from tests.formats.files import DIRECTORY, PRODUCED, runs_of
from tests.processes import ROOT
from trace_recorder import Trajectory, load, load_all
from trace_recorder.cli.show import Show
from trace_recorder.cli.tail import ShownSteps
from trace_recorder.cli.text_layout import Entry
from trace_recorder.dialects.dialect import is_turn
from trace_recorder.figures.comparison.comparable_steps import ComparableSteps
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.spans.writing.span import SpanIds
from trace_recorder.formats.spans.writing.spans import to_spans
from trace_recorder.formats.training.branches import branches
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.relations.prompt_relations import (
    PromptRelation,
    PromptRelations,
    continue_relations,
    relations_of,
    turns_of,
)
from trace_recorder.reading.steps_and_calls import steps_and_calls
from trace_recorder.storage import journal_reader
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.viewer.interface import RunAnswers

CUTS = 7
"""A growing run is read at this many points."""


class Answer(NamedTuple):
    """What a prompt is to an earlier one, the name of the earlier one, and the messages that are kept, new and gone."""

    kind: str
    base: str | None
    kept: int
    new: int
    gone: int


def answer_of(relation: PromptRelation) -> Answer:
    comparison = relation.comparison
    return Answer(relation.kind, relation.base, comparison.kept, len(comparison.new), len(comparison.gone))


# ── the runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def recorded(directory: Path) -> Iterator[Trajectory]:
    yield from map(load, runs.every(directory).values())


def grown(directory: Path) -> Iterator[Trajectory]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "TURN", 20)
        for pattern in histories.PATTERNS:
            yield load(histories.record(directory / f"{pattern.__name__}.json", pattern, 24))


def edited(_: Path) -> Iterator[Trajectory]:
    return map(conversation, CHANGES)


def frozen(_: Path) -> Iterator[Trajectory]:
    yield from map(load, sorted((ROOT / "tests" / "data" / "frozen" / "journals").glob("*.jsonl")))


def produced(_: Path) -> Iterator[Trajectory]:
    return load_all(PRODUCED, strict=False)


def real(_: Path) -> Iterator[Trajectory]:
    if not DIRECTORY.is_dir():
        pytest.skip(f"there is no {DIRECTORY}")
    return load_all(DIRECTORY, strict=False)


Runs = Callable[[Path], Iterator[Trajectory]]
ALL_RUNS = pytest.mark.parametrize(
    "of_kind", [recorded, grown, edited, frozen, produced, real], ids=lambda kind: kind.__name__
)


# ── the answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def prompts_in(parts: Iterator[Sequence[Entry]]) -> list[tuple[str, str]]:
    """Return the summary of each prompt, with the title of its step or call."""
    return [(part[0].text, entry.text) for part in parts for entry in part if entry.label == "prompt"]


def shown(run: Trajectory) -> list[tuple[str, str]]:
    show = Show(run, full=True)
    return prompts_in([*show.part(part)] for part in steps_and_calls(run))


def counts_in(summary: str) -> tuple[int, str | None, int, int]:
    """Return the counts that a summary of `show` has: of messages, the earlier prompt, kept and gone messages."""
    count, kept, gone = (
        re.search(pattern, summary) for pattern in (r"^(\d+) ", r"(\d+) as in ([^,;]+)", r"; (\d+) of .* gone$")
    )
    assert count is not None
    return int(count[1]), kept[2] if kept else None, int(kept[1]) if kept else 0, int(gone[1]) if gone else 0


def expected_counts(relation: PromptRelation) -> tuple[int, str | None, int, int]:
    kept = relation.comparison.kept
    return relation.count, relation.base if kept else None, kept, relation.gone if kept else 0


def captured(run: Trajectory) -> list[LLMInteraction]:
    """Return the calls that `show` shows with their prompts."""
    return [call for call in run.llm_interactions if is_turn(call.api)]


def differences_of_show(run: Trajectory) -> Iterator[tuple[object, ...]]:
    prompts = shown(run)
    for call in captured(run):
        summaries = [summary for title, summary in prompts if call.interaction_id in title.split(", ")]
        if len(summaries) == 1 and counts_in(summaries[0]) != expected_counts(relations_of(run).of(call)):
            yield "show", call.interaction_id, summaries[0], expected_counts(relations_of(run).of(call))
    settled = ShownSteps(run, full=True).settled(run) if run.status not in {"running", "unknown"} else iter(())
    tailed = prompts_in(settled)
    if tailed and tailed != prompts:
        yield "tail", tailed, prompts


def differences_of_viewer(run: Trajectory) -> Iterator[tuple[object, ...]]:
    answers = RunAnswers(run)
    entries = answers.outline()["interactions"]
    names = [None, *(call.interaction_id for call in run.llm_interactions)]
    for number, (call, entry) in enumerate(zip(run.llm_interactions, entries, strict=True), start=1):
        prompt, relation = entry["prompt"], relations_of(run).of(call)
        if not prompt["known"]:
            continue
        whole = [n for first, last in answers.interaction(number)["prompt"] for n in range(first, last + 1)]
        before: list[int] = []
        if prompt["base"] is not None and prompt["relation"] != "refers":
            ranges = answers.interaction(prompt["base"])["prompt"]
            before = [n for first, last in ranges for n in range(first, last + 1)]
        inserted = Counter(n for _, _, of in prompt["changes"] for first, last in of for n in range(first, last + 1))
        removed = Counter(n for at, count, _ in prompt["changes"] for n in before[at : at + count])
        new, gone = (inserted - removed).total(), (removed - inserted).total()
        by_viewer = Answer(prompt["relation"], names[prompt["base"] or 0], len(whole) - new, new, gone)
        expected = answer_of(relation)
        if relation.kind == "refers":  # the page shows such a prompt as a whole
            expected = expected._replace(kept=0, new=relation.count, gone=0)
        if by_viewer != expected:
            yield "viewer", call.interaction_id, by_viewer, expected


def differences_of_diff(run: Trajectory) -> Iterator[tuple[object, ...]]:
    for step in ComparableSteps(()).of(run):
        call, prompt = step.source.call, step.parts["prompt"]
        if call is None:
            continue
        relation = relations_of(run).of(call)
        sent = [message.to_document() for message in call.input_messages]
        new = [sent[place] for place in relation.comparison.new]
        if prompt.get("removed_messages", 0) != relation.gone or any(one not in new for one in prompt["messages"]):
            yield "diff", call.interaction_id, prompt, answer_of(relation)


def differences_of_spans(run: Trajectory) -> Iterator[tuple[object, ...]]:
    spans = {span.span_id: span.attributes for span in to_spans(run, new_messages=True)}
    ids = SpanIds.of(run)
    known = {call.interaction_id for call in run.llm_interactions}
    for call in run.llm_interactions:
        relation, attributes = relations_of(run).of(call), spans[ids.span_id("call", call.interaction_id)]
        extends = relation.kind != "refers" and relation.comparison.extends
        omitted = relation.comparison.kept if extends and relation.base in known else None
        by_spans = (
            attributes.get("trace_recorder.input.omitted_messages"),
            attributes.get("trace_recorder.input.continues"),
        )
        if call.source.has_request() and by_spans != (omitted or None, relation.base if omitted else None):
            yield "spans", call.interaction_id, by_spans, answer_of(relation)


def differences_of_turns(run: Trajectory) -> Iterator[tuple[object, ...]]:
    """Yield the turns that add a message which is not new, and the branches of training rows that skip a turn."""
    for relation in relations_of(run).all():
        turn = relation.turn
        if turn is None:
            continue
        new = [turn.interaction.input_messages[place].content for place in relation.comparison.new]
        if any(message.content not in new for message in turn.new_messages):
            yield "turn", turn.interaction.interaction_id, turn.new_messages, answer_of(relation)
    for branch in branches(run, turns_of(run)):
        for before, turn in zip(branch.turns, branch.turns[1:], strict=False):
            if turn.previous is not before or not turn.exact:
                yield "training", turn.interaction.interaction_id


DIFFERENCES = [
    differences_of_show,
    differences_of_viewer,
    differences_of_diff,
    differences_of_spans,
    differences_of_turns,
]


@ALL_RUNS
def test_everybody_gives_the_same_answer_about_each_prompt(of_kind: Runs, tmp_path: Path) -> None:
    """`show`, `tail`, the viewer, `diff`, spans, conversations and training rows agree with the relation."""
    differences = [
        (run.path, *difference) for run in of_kind(tmp_path) for differ in DIFFERENCES for difference in differ(run)
    ]

    assert differences == []


# ── growing runs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def recorded_lines(directory: Path) -> Iterator[list[bytes]]:
    for path in runs.every(directory).values():
        if path.with_suffix(".jsonl").is_file():
            yield path.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)


def frozen_lines(_: Path) -> Iterator[list[bytes]]:
    for path in sorted((ROOT / "tests" / "data" / "frozen" / "journals").glob("*.jsonl")):
        yield path.read_bytes().splitlines(keepends=True)


def produced_lines(_: Path) -> Iterator[list[bytes]]:
    for path in sorted(PRODUCED.glob("*/**/*")):
        if path.is_file() and path.suffix == ".jsonl":
            yield from (list(journal_lines(run)) for run in runs_of(path))


@pytest.mark.parametrize("lines_of", [recorded_lines, frozen_lines, produced_lines], ids=lambda kind: kind.__name__)
def test_a_growing_run_has_the_same_relations_at_its_end(
    lines_of: Callable[[Path], Iterator[list[bytes]]], tmp_path: Path
) -> None:
    """If a run is read again and again while it grows, its prompts get the same answers as if it is read once."""
    for lines in lines_of(tmp_path):
        fold, relations = Fold(), PromptRelations()
        offset = 0
        for number, line in enumerate(lines, start=1):
            fold.add(journal_reader.read_records(line, offset))
            offset += len(line)
            if number % max(1, len(lines) // CUTS) == 0 or number == len(lines):
                run = fold.trajectory("running")
                continue_relations(relations, run)
                relations.all()
        whole = PromptRelations()
        whole.update(run)

        assert [*map(answer_of, relations.all())] == [*map(answer_of, whole.all())]
        assert [turn.relation for turn in relations.turns()] == [turn.relation for turn in whole.turns()]
