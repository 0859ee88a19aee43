"""Conversations: the messages of a run in the order in which they are read."""

from __future__ import annotations

from tests.formats.made import assistant, call, gave, run, use
from trace_recorder import Trajectory
from trace_recorder.figures.conversations.conversation import conversations, lines_with_results
from trace_recorder.figures.conversations.steps_of_turns import steps_by_turn
from trace_recorder.reading.relations.prompt_relations import turns_of

LS = use("c1", command="ls")


def told(trajectory: Trajectory) -> list[tuple[str | None, str, list[str]]]:
    """Return for each conversation its agent, kind and lines. Answers have a star, copies are in brackets."""
    return [
        (
            conversation.agent,
            conversation.kind,
            [
                f"({line.message.content})" if line.copied else f"{line.message.content}{'*' * line.answer}"
                for line in conversation.lines
            ],
        )
        for conversation in conversations(trajectory, turns_of(trajectory))
    ]


def test_each_call_adds_its_new_messages() -> None:
    """A conversation has every message once."""
    made = run(call(["q"], None, LS), call(["q", assistant(None, LS), gave("c1", "a.py")], "done"))

    assert told(made) == [(None, "first", ["q", "None*", "a.py", "done*"])]


def test_a_failed_call_and_its_repetition_are_in_one_conversation() -> None:
    """The question is there once, followed by both calls."""
    failed = call(["q"]) | {"response": {}, "error": {"type": "rate_limit", "message": "later"}}

    assert told(run(failed, call(["q"], "a"))) == [(None, "first", ["q", "None*", "a*"])]


def test_a_rewritten_history_continues_with_copies() -> None:
    """Messages of the earlier history are marked as copies. A new message, such as a summary, is not marked."""
    made = run(call(["rules", "q"], "a"), call(["rules", "summary"], "b"))

    assert told(made) == [(None, "first", ["rules", "q", "a*"]), (None, "continues", ["(rules)", "summary", "b*"])]


def test_a_call_without_common_messages_is_a_conversation_of_its_own() -> None:
    """An example is a call for a title, which the agent does not mark."""
    made = run(call(["q"], "a"), call(["Give this a title"], "T"), call(["q", assistant("a"), "more?"], "b"))

    assert told(made) == [(None, "first", ["q", "a*", "more?", "b*"]), (None, "apart", ["Give this a title", "T*"])]


def test_a_used_second_answer_replaces_the_first() -> None:
    """With n > 1 the conversation shows the answer from which it continued."""
    choices = [{"index": 0, "content": "a"}, {"index": 1, "content": "b"}]
    made = run(call(["q"], "a", response={"choices": choices}), call(["q", assistant("b"), "?"], "c"))

    assert told(made) == [(None, "first", ["q", "b*", "?", "c*"])]


def test_results_known_only_from_a_step_follow_their_call() -> None:
    """The tools of the last call ran, and no request sent their results to the model."""
    result = {"call_id": "c1", "success": False, "result": None, "error": "denied"}
    step = {"step_number": 1, "timestamp": "2025-06-12T20:00:02+00:00", "state": "calling_tool"}
    made = run(call(["q"], None, LS), agent_steps=[{**step, "tool_calls": [LS], "tool_results": [result]}])

    [conversation] = conversations(made, turns_of(made))
    told_by = steps_by_turn(made, conversation.turns).steps
    assert [(line.message.role, line.message.content) for line in lines_with_results(conversation, told_by)] == [
        ("user", "q"),
        ("assistant", None),
        ("tool", "denied"),
    ]


def test_a_step_belongs_to_the_call_that_asked_for_its_tools() -> None:
    """If a step names no call and its response has no id, the step belongs to the newest earlier call that asked for
    its tools.
    """
    step = {"step_number": 7, "state": "calling_tool", "tool_calls": [LS], "tool_results": []}
    made = run(
        call(["q"], None, LS),
        call(["r"], None, LS),
        agent_steps=[{**step, "timestamp": "2025-06-12T20:00:01.5+00:00"}],
    )

    turns = turns_of(made)
    assert list(steps_by_turn(made, turns).steps) == [turns[0]]
