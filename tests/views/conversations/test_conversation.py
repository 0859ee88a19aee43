"""Conversations: runs as lines that are read from top to bottom."""

from __future__ import annotations

from tests.views.made import assistant, call, gave, run, use
from trace_recorder import Trajectory
from trace_recorder.views.conversations.conversation import conversations, lines_with_results
from trace_recorder.views.conversations.steps_of_turns import steps_by_turn
from trace_recorder.views.conversations.turns_of_run import turns_of

LS = use("c1", command="ls")


def told(trajectory: Trajectory) -> list[tuple[str | None, str, list[str]]]:
    """Return of each conversation its agent, kind and lines; answers have a star, copies are in brackets."""
    return [
        (
            conversation.agent,
            conversation.kind,
            [
                f"({line.message.content})" if line.copied else f"{line.message.content}{'*' * line.answer}"
                for line in conversation.lines
            ],
        )
        for conversation in conversations(turns_of(trajectory))
    ]


def test_each_call_adds_what_is_new() -> None:
    """A conversation has every message once."""
    made = run(call(["q"], None, LS), call(["q", assistant(None, LS), gave("c1", "a.py")], "done"))

    assert told(made) == [(None, "first", ["q", "None*", "a.py", "done*"])]


def test_a_call_that_failed_is_part_of_it_and_so_is_the_next_attempt() -> None:
    """The question is there once, with both calls after it."""
    failed = call(["q"]) | {"response": {}, "error": {"type": "rate_limit", "message": "later"}}

    assert told(run(failed, call(["q"], "a"))) == [(None, "first", ["q", "None*", "a*"])]


def test_a_rewritten_history_continues_with_copies() -> None:
    """Earlier messages are marked as copies; a new message, such as a summary, is not."""
    made = run(call(["rules", "q"], "a"), call(["rules", "summary"], "b"))

    assert told(made) == [(None, "first", ["rules", "q", "a*"]), (None, "continues", ["(rules)", "summary", "b*"])]


def test_what_has_nothing_in_common_stands_apart() -> None:
    """A title generator, say, which the agent asks without marking it."""
    made = run(call(["q"], "a"), call(["Give this a title"], "T"), call(["q", assistant("a"), "more?"], "b"))

    assert told(made) == [(None, "first", ["q", "a*", "more?", "b*"]), (None, "apart", ["Give this a title", "T*"])]


def test_a_second_answer_that_was_taken_stands_in_the_place_of_the_first() -> None:
    """With n > 1 the conversation shows the answer from which it continued."""
    choices = [{"index": 0, "content": "a"}, {"index": 1, "content": "b"}]
    made = run(call(["q"], "a", response={"choices": choices}), call(["q", assistant("b"), "?"], "c"))

    assert told(made) == [(None, "first", ["q", "b*", "?", "c*"])]


def test_results_that_only_a_step_tells_stand_behind_their_call() -> None:
    """The tools of the last call ran, and no request sent their results back."""
    result = {"call_id": "c1", "success": False, "result": None, "error": "denied"}
    step = {"step_number": 1, "timestamp": "2025-06-12T20:00:02+00:00", "state": "calling_tool"}
    made = run(call(["q"], None, LS), agent_steps=[{**step, "tool_calls": [LS], "tool_results": [result]}])

    [conversation] = conversations(turns_of(made))
    told_by = steps_by_turn(made, conversation.turns).steps
    assert [(line.message.role, line.message.content) for line in lines_with_results(conversation, told_by)] == [
        ("user", "q"),
        ("assistant", None),
        ("tool", "denied"),
    ]


def test_a_step_belongs_to_the_call_that_asked_for_its_tools() -> None:
    """If a step names no call and its response has no id, the newest call that asked for the tools is taken."""
    step = {"step_number": 7, "state": "calling_tool", "tool_calls": [LS], "tool_results": []}
    made = run(
        call(["q"], None, LS),
        call(["r"], None, LS),
        agent_steps=[{**step, "timestamp": "2025-06-12T20:00:01.5+00:00"}],
    )

    turns = turns_of(made)
    assert list(steps_by_turn(made, turns).steps) == [turns[0]]
