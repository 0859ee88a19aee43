"""The work for a run grows with its calls, and not with their square."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.counting import arguments_of, lines
from tests.formats.made import assistant, call, run
from trace_recorder import Trajectory
from trace_recorder.figures.conversations.conversation import conversations
from trace_recorder.formats.training.branches import branches
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.tables.rows import NumberedCalls
from trace_recorder.values.message_equality import normalized_content

WINDOW = 6


def growing(calls: int) -> Trajectory:
    """Return a run in which each call extends the call before it."""
    history = [message for number in range(calls) for message in (f"q{number}", assistant(f"a{number}"))]
    return run(*(call(history[: 2 * number + 1], f"a{number}") for number in range(calls)))


def sliding(calls: int) -> Trajectory:
    """Return a run in which each call has only the newest messages, so that each begins a conversation."""
    history = [message for number in range(calls) for message in (f"q{number}", assistant(f"a{number}"))]
    return run(
        *(call(history[max(0, 2 * number + 1 - WINDOW) : 2 * number + 1], f"a{number}") for number in range(calls))
    )


def edited(calls: int) -> Trajectory:
    """Return a run in which each call replaces an old message."""
    history = [message for number in range(calls) for message in (f"q{number}", assistant(f"a{number}"))]
    made = []
    for number in range(calls):
        history[2 * (number // 2)] = f"edited {number}"
        made.append(call(history[: 2 * number + 1], f"a{number}"))
    return run(*made)


@pytest.mark.parametrize("history", [growing, sliding, edited])
def test_the_table_of_messages_takes_linear_work(history: Callable[[int], Trajectory]) -> None:
    """Twice as many calls take twice as many lines of code."""
    counts = []
    for trajectory in (history(100), history(200)):
        calls = trajectory.llm_interactions
        counts.append(lines(lambda: [*NumberedCalls(calls).rows()]))  # noqa: B023 - called at once

    assert counts[1] < 2.5 * counts[0], counts


@pytest.mark.parametrize("history", [growing, sliding])
def test_branches_and_conversations_take_linear_work(history: Callable[[int], Trajectory]) -> None:
    """Twice as many calls take twice as many lines of code."""
    counts = []
    for trajectory in (history(100), history(200)):
        turns = turns_of(trajectory)
        counts.append(
            [lines(lambda: make(trajectory, turns)) for make in (branches, conversations)]  # noqa: B023 - called at once
        )

    assert all(longer < 2.2 * shorter for shorter, longer in zip(*counts, strict=True)), counts


def test_messages_of_prompts_are_normalized_once() -> None:
    """What was normalized to find turns is not normalized again for branches and conversations."""
    trajectory = growing(100)
    turns = turns_of(trajectory)

    def normalized(act: Callable[[], object]) -> int:
        return sum(arguments_of(act, normalized_content, lambda arguments: len(arguments["messages"])))

    lists = normalized(lambda: [branch.lines() for branch in branches(trajectory, turns)])
    answers = normalized(lambda: conversations(trajectory, turns))
    assert (lists, answers) == (0, len(turns))
