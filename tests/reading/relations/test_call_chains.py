"""Turns: the earlier call that each call continues."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.formats.made import Payload, assistant, call, gave, run, system, use
from trace_recorder import Trajectory
from trace_recorder.reading.relations.prompt_relations import turns_of

LS = use("c1", command="ls")


def relations(trajectory: Trajectory) -> list[tuple[str, str | None]]:
    """Return the relation of each turn, and the call to which it relates."""
    return [
        (turn.relation, turn.previous and turn.previous.interaction.interaction_id) for turn in turns_of(trajectory)
    ]


def test_a_prompt_that_begins_with_an_earlier_prompt_and_answer_extends_it() -> None:
    """If several calls could be continued, the newest of them is continued."""
    first = [system("s"), "q"]
    second = [*first, assistant(None, LS), gave("c1", "a.py")]
    made = run(call(first, None, LS), call(second, "one file"), call([*second, assistant("one file"), "more?"], "no"))

    assert relations(made) == [("begins", None), ("extends", "llm_1"), ("extends", "llm_2")]


@pytest.mark.parametrize(
    "sent_back",
    [
        assistant("", LS),
        assistant(None, LS, reasoning="so"),
        assistant([{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}], LS),
    ],
)
def test_contents_with_the_same_meaning_are_equal(sent_back: Payload) -> None:
    """An empty content, thoughts, and cache marks make no difference."""
    made = run(call(["q"], None, LS), call(["q", sent_back, gave("c1", "a")], "done"))

    assert relations(made) == [("begins", None), ("extends", "llm_1")]


@pytest.mark.parametrize("sent_back", [assistant("Done"), assistant("done", LS), {"role": "user", "content": "done"}])
def test_a_changed_answer_rewrites_the_history(sent_back: Payload) -> None:
    """If the agent changes an answer before it sends the answer back, its prompt does not extend the earlier prompt."""
    made = run(call(["q"], "done"), call(["q", sent_back, "more?"], "no"))

    assert relations(made) == [("begins", None), ("rewrites", None)]


def test_an_answer_in_several_messages_is_recognised() -> None:
    """An answer in two messages, or among items of a server's tools, is recognised by the model's text."""
    searched = assistant([{"type": "web_search_call", "id": "w"}])
    made = run(call(["q"], "ab"), call(["q", searched, assistant("a"), assistant("b"), "more?"], "no"))

    assert relations(made) == [("begins", None), ("extends", "llm_1")]


def test_a_call_may_continue_any_of_several_answers() -> None:
    """With n > 1 the turn states the answer from which the conversation continued."""
    choices = [{"index": 0, "content": "a"}, {"index": 1, "content": "b"}]
    made = run(call(["q"], "a", response={"choices": choices}), call(["q", assistant("b"), "more?"], "no"))

    assert [(turn.relation, turn.choice) for turn in turns_of(made)] == [("begins", 0), ("extends", 1)]


def test_an_answer_that_the_prompt_began_is_continued() -> None:
    """A prompt may end with the beginning of the answer. Both are then sent back as one message."""
    made = run(call(["q", assistant("Sure, ")], "here"), call(["q", assistant("Sure, here"), "more?"], "no"))

    assert relations(made) == [("begins", None), ("extends", "llm_1")]


def test_the_message_before_an_empty_answer_is_no_answer() -> None:
    """A prompt has no message for an empty answer. So a repeated question that replaces the first one is new once."""
    made = run(call(["q"], None), call(["q ", " q"], "a"))

    turn = turns_of(made)[1]
    assert (turn.relation, turn.prefix_length) == ("extends", 1)
    assert [message.content for message in turn.new_messages] == [" q"]


def test_a_prompt_may_refer_to_the_response_that_it_continues() -> None:
    """`previous_response_id` stands for that prompt and answer. The turn's prompt has all messages that the
    model saw.
    """
    refers = {"parameters": {"previous_response_id": "resp_1"}}
    made = run(
        call([system("s"), "q"], "a", response={"id": "resp_1"}, api="openai-responses"),
        call(["more?"], "no", api="openai-responses", request=refers),
        call([system("s"), "q", assistant("a"), "more?", assistant("no"), "why?"], "so", api="openai-responses"),
    )

    turns = turns_of(made)
    assert relations(made) == [("begins", None), ("refers", "llm_1"), ("extends", "llm_2")]
    assert [(message.role, message.content) for message in turns[1].messages()] == [
        ("system", "s"),
        ("user", "q"),
        ("assistant", "a"),
        ("user", "more?"),
    ]


def test_an_agent_that_records_only_its_newest_messages_continues() -> None:
    """Trae Agent records only the new messages of a call: a tool result, or a text of the user."""
    by_hand = {"api": None, "provider": "anthropic"}
    made = run(
        call([system("s"), "q"], None, LS, **by_hand),
        call([{"role": "user", "tool_result": {"call_id": "c1", "result": "a.py"}}], "one file", **by_hand),
        call(["You are not done."], "I am.", **by_hand),
        call([system("s"), "another"], "yes", **by_hand),
    )

    assert relations(made) == [("begins", None), ("refers", "llm_1"), ("refers", "llm_2"), ("rewrites", None)]
    assert [message.role for message in turns_of(made)[2].messages()] == [
        *("system", "user", "assistant", "tool", "assistant", "user")
    ]


def test_a_long_chain_of_references_is_followed_without_recursion() -> None:
    """A chain of thousands of calls, each of which names the one before it, raises no RecursionError."""
    calls = [call(["q"], "a", response={"id": "r0"}, api="openai-responses")]
    for number in range(1, 1200):
        named = {"parameters": {"previous_response_id": f"r{number - 1}"}}
        calls.append(call(["q"], "a", response={"id": f"r{number}"}, api="openai-responses", request=named))
    trajectory = run(*({**call, "timestamp": "2025-06-12T20:00:00+00:00"} for call in calls))

    assert len(turns_of(trajectory)[-1].messages()) == 2 * 1199 + 1


def test_agents_have_separate_conversations() -> None:
    """The first call of an agent does not count as a rewrite of another agent's history."""
    made = run(call(["q"], "a", agent="planner"), call(["r"], "b", agent="researcher"))

    assert relations(made) == [("begins", None), ("begins", None)]


def test_an_agent_continues_another_s_conversation_and_starts_again() -> None:
    """An agent without a name continues the planner's conversation. Its later calls are rewrites in its own chain."""
    first = [system("s"), "q"]
    second = [*first, assistant("done"), "more?"]
    made = run(
        call(first, "done", agent="planner"), call(second, "yes"), call(first, "again"), call([system("s"), "x"], "no")
    )

    assert relations(made) == [("begins", None), ("extends", "llm_1"), ("rewrites", None), ("rewrites", None)]


def test_embeddings_are_not_turns() -> None:
    """A call that is not part of a conversation, such as an embeddings call, is not a turn."""
    assert turns_of(run(call([], None, api="embeddings"))) == []


EXPECTED = {
    "tools": ["begins", "extends", "extends", "extends"],
    "thinking": ["begins", "extends"],
    "gemini": ["begins", "extends"],
    "local": ["begins", "extends"],
    "responses": ["begins", "extends"],
    "images": ["begins", "extends"],
    "code_agent": ["begins", "extends"],
    "compacted": ["begins", "extends", "rewrites", "extends"],
    "own_steps": ["begins", "extends"],
    "sub_agents": ["begins", "begins", "extends", "extends"],
    "interrupted": ["begins", "extends"],
    "document_only": ["begins", "extends", "extends", "extends"],
    "empty": [],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_calls_of_every_sdk_continue_each_other(name: str, trajectories: Mapping[str, Trajectory]) -> None:
    """Each call extends the call before it, in whichever form its dialect sends answers back."""
    assert [turn.relation for turn in turns_of(trajectories[name])] == EXPECTED[name]
