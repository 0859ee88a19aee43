"""Prompts share the work for common messages, and each is normalized as it would be without the others."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.reading.relations.normalized_prompts import (
    MessageNormalizer,
    NormalizedPrompt,
    PlacedMessages,
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


def facts(prompt: NormalizedPrompt | PlacedMessages) -> list[Hashable]:
    """Return the positions and the keys of the messages, which have the calls that they answer."""
    return [
        (begin, end, message.key, message.call_id)
        for message, begin, end in zip(prompt.messages, prompt.begins, prompt.ends, strict=True)
    ]


@given(PLACES, EDITS, st.integers(0, 2))
def test_a_prompt_is_normalized_as_if_it_were_alone(
    begin: list[int], edits: list[tuple[int, int, list[int]]], instructions: int
) -> None:
    """A prompt is normalized the same, however it repeats, extends, shortens or edits earlier prompts."""
    normalizer = MessageNormalizer()
    table, prompts, history = MessageTable(POOL), PromptNormalizer(normalizer), begin
    for at, removed, inserted in [(0, 0, []), *edits]:
        history = [*history[:at], *inserted[: removed + 1], *history[at + removed :], *inserted[removed + 1 :]]
        messages = table.prompt(POOL[place] for place in history)
        alone = normalizer.normalize(messages)
        one_by_one = alone.messages

        prompt = prompts.normalize(messages, min(instructions, len(history)), None)

        assert facts(prompt) == facts(alone)
        assert [*prompt.answer_places] == [at for at, one in enumerate(one_by_one) if one.content.role == "assistant"]
        assert [*prompt.prefixes] == [*prefix_sums(one_by_one[prompt.own :])]
        assert prompt.has_instructions == any(POOL[place].role == "system" for place in history)
        if prompt.before is not None:
            kept = {*range(len(one_by_one))} - {*prompt.new}
            assert {prompt.messages[place].key for place in kept} <= {one.key for one in prompt.before.messages}
