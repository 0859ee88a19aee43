"""Prompts share the work for common messages, and each is normalized as it would be without the others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.reading.relations.normalized_prompts import (
    MessageNormalizer,
    NormalizedMessage,
    PromptNormalizer,
    prefix_sums,
)
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import Message, ToolCall

POOL = [
    Message("system", "You help."),
    Message("user", "Is it cold?"),
    Message("user", "Go on."),
    Message("assistant", "Yes."),
    Message("assistant", ""),
    Message("assistant", None, (ToolCall("c1", "weather", {"city": "Ulm"}),)),
    Message("assistant", None, (ToolCall("c2", "weather", {"city": "Rome"}), ToolCall("c1", "clock", {}))),
    Message("tool", "7 degrees", call_id="c1"),
    Message("tool", "31 degrees", call_id="c2"),
    Message("tool", "lost", call_id="c3"),
]
PLACES = st.lists(st.integers(0, len(POOL) - 1), max_size=7)
EDITS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), PLACES), max_size=8)


def facts(messages: Sequence[NormalizedMessage]) -> list[Hashable]:
    """Return the positions of the messages, their texts, and the calls that they answer."""
    return [
        (message.begin, message.end, message.key, message.answered_call and message.answered_call.message_index)
        for message in messages
    ]


@given(PLACES, EDITS, st.integers(0, 2))
def test_a_prompt_is_normalized_as_if_it_were_alone(
    begin: list[int], edits: list[tuple[int, int, list[int]]], instructions: int
) -> None:
    """A prompt is normalized the same, however it repeats, extends, shortens or edits earlier prompts."""
    table, prompts, history = MessageTable(POOL), PromptNormalizer(MessageNormalizer()), begin
    for at, removed, inserted in [(0, 0, []), *edits]:
        history = [*history[:at], *inserted[: removed + 1], *history[at + removed :], *inserted[removed + 1 :]]
        messages = table.prompt(POOL[place] for place in history)
        alone = MessageNormalizer().normalize(messages)

        prompt = prompts.normalize(messages, min(instructions, len(history)), None)

        assert facts(prompt.messages) == facts(alone)
        assert [*prompt.keys] == [one.key for one in alone]
        assert [*prompt.answer_places] == [at for at, one in enumerate(alone) if one.content.role == "assistant"]
        assert [*prompt.prefixes] == [*prefix_sums(alone[prompt.own :])]
        if prompt.before is not None:
            kept = {*range(len(alone))} - {*prompt.new}
            assert [prompt.before.keys[place] for place in kept] == [prompt.keys[place] for place in kept]
