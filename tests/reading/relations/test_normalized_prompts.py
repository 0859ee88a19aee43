"""Prompts share the work for common messages, and each is normalized as it would be without the others."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from itertools import pairwise, permutations
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.reading.relations.normalized_messages import (
    MODULUS,
    MessageNormalizer,
    PlacedMessages,
    sum_of_messages,
)
from trace_recorder.reading.relations.normalized_prompts import NormalizedPrompt, PromptNormalizer
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


def facts(prompt: NormalizedPrompt) -> list[Hashable]:
    """Return the positions and the keys of the messages, which have the calls that they answer."""
    positions = [position for position in range(len(prompt.shape)) if not prompt.is_silent(position)]
    messages = map(prompt.message_at, positions)
    return [(position + 1, message.key, message.call_id) for position, message in zip(positions, messages, strict=True)]


def facts_alone(placed: PlacedMessages) -> list[Hashable]:
    """Return the same of messages that were normalized without other prompts."""
    return [(end, message.key, message.call_id) for message, end in zip(placed.messages, placed.ends, strict=True)]


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
        own = min(instructions, len(history))

        prompt = prompts.normalize(messages, own, None)

        assert facts(prompt) == facts_alone(alone)
        assert prompt.messages() == [*prompt.forwards()] == [*prompt.backwards()][::-1]
        answers = [
            end - 1 for end, one in zip(alone.ends, alone.messages, strict=True) if one.content.role == "assistant"
        ]
        assert prompt.first_answers(len(prompt.answers)) == answers
        assert [prompt.answers_before(place) for place in answers] == [*range(len(answers))]
        assert [*prompt.answers] == [normalizer.number_of_answer(prompt.message_at(place).content) for place in answers]
        after_own = [one for end, one in zip(alone.ends, alone.messages, strict=True) if end > own]
        sums = [sum_of_messages(after_own[:count], 0) for count in range(len(after_own) + 1)]
        assert [sums[0], *prompt.sums_from(own)] == sums
        assert (prompt.sum, prompt.sum_before(own), prompt.message_count) == (sums[-1], 0, len(after_own))
        assert prompt.own_count + prompt.message_count == len(alone.messages)
        assert prompt.has_instructions == any(POOL[place].role == "system" for place in history)
        if prompt.before is not None:
            kept = {
                one.key
                for position, one in enumerate(map(prompt.by_number.get, prompt.numbers))
                if one and position not in prompt.new
            }
            assert kept <= {one.key for one in prompt.before.forwards()}


def test_sums_tell_sequences_apart() -> None:
    """Two sequences have the same sum only if they have the same messages in the same order."""
    messages = MessageNormalizer().normalize(MessageTable(POOL).prompt(POOL)).messages
    sequences = [chosen for length in range(4) for chosen in permutations(messages, length)]

    assert len({sum_of_messages(sequence, 0) for sequence in sequences}) == len(sequences)


def test_threads_may_ask_for_sums_at_once() -> None:
    """Another thread may ask for the sum at a later place between any two instructions. Both get the right sum."""
    messages = MessageNormalizer().normalize(MessageTable(POOL).prompt(POOL[:1])).messages
    start = place = 5000  # no other test has asked for a sum at this place
    remaining = 0
    sum_of_messages(messages, start)

    def other_thread(frame: FrameType, event: str, _: object) -> Any:
        nonlocal remaining
        frame.f_trace_opcodes = True
        remaining -= event == "opcode"
        if remaining == 0:
            sys.settrace(None)
            sum_of_messages(messages, place + 2)
        return other_thread

    before = sys.gettrace()
    while remaining <= 0:  # until a sum takes fewer instructions than the moment of the other thread
        place += 4
        remaining = (place - start) // 4
        sys.settrace(other_thread)
        sum_of_messages(messages, place)
        sys.settrace(before)

    first, second, *sums = [sum_of_messages(messages, number) for number in (0, 1, *range(start, place + 4))]
    assert all(after * first % MODULUS == total * second % MODULUS for total, after in pairwise(sums))
