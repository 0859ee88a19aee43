"""Ids for tool calls without ids: generated in order, the same each time, and paired with their results."""

from __future__ import annotations

from trace_recorder.dialects.call_ids import count_made_up, number_calls, number_messages
from trace_recorder.values.messages import Message, ToolCall


def made_up(number: int, name: str = "f") -> ToolCall:
    return ToolCall(f"call_{number}", name, {}, call_id_made_up=True)


def asks(*names: str) -> Message:
    return Message("assistant", tool_calls=tuple(ToolCall("", name, {}) for name in names))


def answered(messages: list[Message]) -> list[str | None]:
    return [message.call_id for message in number_messages(messages) if message.role == "tool"]


def test_only_missing_ids_are_made_up():
    """A call with an id keeps it. The made-up ids of other calls are counted from the given number."""
    calls = number_calls([ToolCall("", "f", {}), ToolCall("own", "f", {}), ToolCall("", "f", {})], 3)
    assert (calls, count_made_up(calls)) == ((made_up(3), ToolCall("own", "f", {}), made_up(4)), 2)


def test_a_longer_conversation_begins_with_the_same_ids():
    """The ids of a conversation do not change when the conversation goes on."""
    conversation = [asks("a", "b"), Message("tool", "1", name="a"), Message("tool", "2", name="b"), asks("a")]
    assert number_messages(conversation)[:3] == number_messages(conversation[:3])


def test_results_are_paired_by_name_and_order():
    """A result without an id answers the first open call of its name, or of any name if it has no name."""
    results = [Message("tool", name="b"), Message("tool", name="a"), Message("tool"), Message("tool", name="b")]
    assert answered([asks("a", "b", "a", "b"), *results]) == ["call_1", "call_0", "call_2", "call_3"]


def test_the_latest_turn_is_answered_first():
    """A call that was never answered does not take the result of a later call with the same name."""
    assert answered([asks("a"), Message("user", "never mind"), asks("a"), Message("tool", name="a")]) == ["call_1"]


def test_calls_in_consecutive_messages_are_one_turn():
    """Calls in separate consecutive messages are answered in their order."""
    assert answered([asks("a"), asks("a"), Message("tool", name="a"), Message("tool", name="a")]) == [
        "call_0",
        "call_1",
    ]


def test_a_result_without_an_id_may_answer_a_call_that_has_one():
    """A result is paired by whether a call is still open, and not by whether the call's id was generated."""
    message = Message("assistant", tool_calls=(ToolCall("x", "f", {}), ToolCall("y", "f", {})))
    assert answered([message, Message("tool", call_id="x"), Message("tool", name="f")]) == ["x", "y"]


def test_a_result_without_its_call_keeps_its_id():
    """A result whose call is missing keeps its id, or has no id."""
    assert answered([asks("a"), Message("tool", call_id="lost"), Message("tool", name="b")]) == ["lost", None]


def test_unchanged_messages_are_the_same_objects():
    """Messages that need no id are not copied."""
    conversation = [Message("user", "hi"), Message("assistant", tool_calls=(ToolCall("x", "f", {}),))]
    assert [new is old for new, old in zip(number_messages(conversation), conversation, strict=True)] == [True, True]
