"""show, diff and the viewer agree about the new messages of a prompt. Independent calls do not count as edited
histories.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import histories
from tests.counting import alive, calls
from tests.formats.made import call, run, system
from trace_recorder import Trajectory, load
from trace_recorder.cli.show import Show
from trace_recorder.figures.comparison.comparable_steps import ComparableSteps
from trace_recorder.reading.relations.normalized_prompts import MAX_PROMPTS, NormalizedPrompt
from trace_recorder.reading.relations.prompt_relations import relations_of, turns_of
from trace_recorder.reading.steps_and_calls import steps_and_calls
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.interface import RunAnswers

CALLS = 24


def recorded(path: Path, pattern: histories.Pattern, turns: int) -> Trajectory:
    return load(histories.record(path / f"{pattern.__name__}_{turns}.json", pattern, turns))


def shown_prompts(trajectory: Trajectory) -> list[str]:
    show = Show(trajectory, full=True)
    entries = [entry for part in steps_and_calls(trajectory) for entry in show.part(part)]
    return [entry.text for entry in entries if entry.label == "prompt"]


def by_show(trajectory: Trajectory) -> list[tuple[int, int]]:
    """Return how many messages each prompt shares with an earlier prompt, and how many messages of that prompt are
    gone.
    """
    matches = [
        (re.search(r"(\d+) as in", text), re.search(r"(\d+) of \w+ gone", text)) for text in shown_prompts(trajectory)
    ]
    return [(int(kept[1]) if kept else 0, int(gone[1]) if gone else 0) for kept, gone in matches]


def by_viewer(trajectory: Trajectory) -> list[tuple[int, int]]:
    counts = []
    for entry in RunAnswers(trajectory).outline()["interactions"]:
        prompt = entry["prompt"]
        inserted = sum(last - first + 1 for _, _, ranges in prompt["changes"] for first, last in ranges)
        counts.append((prompt["count"] - inserted, sum(removed for _, removed, _ in prompt["changes"])))
    return counts


def gone_by_diff(trajectory: Trajectory) -> list[int]:
    prompts: list[Payload] = [step.parts["prompt"] for step in ComparableSteps(()).of(trajectory)]
    return [prompt.get("removed_messages", 0) for prompt in prompts]


@pytest.mark.parametrize("pattern", histories.PATTERNS, ids=lambda pattern: pattern.__name__)
def test_show_diff_and_the_viewer_agree_about_an_edited_history(tmp_path: Path, pattern: histories.Pattern) -> None:
    """They agree on the messages that a prompt shares with an earlier prompt, and on the earlier prompt's messages that
    are gone.
    """
    trajectory = recorded(tmp_path, pattern, CALLS)
    kept_and_gone = by_show(trajectory)

    assert by_viewer(trajectory) == kept_and_gone
    assert gone_by_diff(trajectory) == [gone for _, gone in kept_and_gone]


@pytest.mark.parametrize("pattern", histories.PATTERNS, ids=lambda pattern: pattern.__name__)
def test_the_viewer_compares_prompts_with_the_call_that_they_continue(
    tmp_path: Path, pattern: histories.Pattern
) -> None:
    """The viewer and the conversations agree whether a history was extended, edited or rewritten."""
    trajectory = recorded(tmp_path, pattern, CALLS)
    numbers = {one.interaction_id: number for number, one in enumerate(trajectory.llm_interactions, start=1)}
    by_conversations = [
        (turn.relation, turn.previous and numbers[turn.previous.interaction.interaction_id])
        for turn in turns_of(trajectory)
    ]
    prompts = [entry["prompt"] for entry in RunAnswers(trajectory).outline()["interactions"]]

    assert [(prompt["relation"], prompt["base"]) for prompt in prompts] == by_conversations


def test_only_the_newest_normalized_prompts_are_kept(tmp_path: Path) -> None:
    """Only the newest normalized prompts are kept, although each prompt of an edited history has its own lists."""
    trajectory, before = recorded(tmp_path, histories.clock, CALLS), alive(NormalizedPrompt)
    relations = relations_of(trajectory).all()

    assert len(relations) == CALLS
    assert alive(NormalizedPrompt) - before <= MAX_PROMPTS


def test_independent_calls_with_the_same_system_prompt_edit_no_history() -> None:
    """Five questions to a judge are five beginnings, and no message counts as gone."""
    judged = run(*(call([system("Say yes or no."), f"Is {number} prime?"], "yes") for number in range(5)))

    assert shown_prompts(judged) == [
        "2 messages",
        *(f"2 messages: 1 as in llm_{number}, 1 new" for number in range(1, 5)),
    ]
    prompts = [entry["prompt"] for entry in RunAnswers(judged).outline()["interactions"]]
    assert [prompt["relation"] for prompt in prompts] == ["begins"] * 5
    assert gone_by_diff(judged) == [0] * 5


def test_the_work_for_a_delta_document_grows_with_the_new_messages(tmp_path: Path) -> None:
    """Four times as many calls of a conversation take four times as many steps, also if all messages are compared."""
    few, many = (recorded(tmp_path, histories.append_only, turns) for turns in (20, 80))

    assert calls(lambda: many.to_document("delta")) <= 4.2 * calls(lambda: few.to_document("delta"))


def test_a_prompt_that_refers_to_a_call_is_new_even_if_its_text_is_repeated() -> None:
    """If the server has the conversation, a question that is asked again is new. The retry of a failed call is not."""
    named = {"parameters": {"previous_response_id": "r1"}}
    first = call(["Go on."], "Yes.", response={"id": "r1"}, api="openai-responses")
    made = run(
        first,
        call(["Go on."], None, api="openai-responses", request=named),
        call(["Go on."], "No.", api="openai-responses", request=named),
    )
    compared = [(one.kind, one.base, [*one.comparison.new]) for one in relations_of(made).all()]

    assert compared == [("begins", None, [0]), ("refers", "llm_1", [0]), ("extends", "llm_2", [])]
    assert [len(turn.new_messages) for turn in turns_of(made)] == [1, 1, 0]
