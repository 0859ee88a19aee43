"""The distinct messages of a run, each once, with the calls whose prompts hold it.

Calls get numbers by conversation, so that the calls of a message are a few ranges of numbers: in a conversation that
only grows, they are all calls from one on. The prompts of such a conversation share one array of message numbers, so
only their ends are looked at. Time grows with the arrays, not with calls times history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from trace_recorder.tables.columns import json_text
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages, NumberedMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.views.content.parts import text_of


class _Prompt(NamedTuple):
    """A call with its prompt. `place` is where the prompt is in an array that it shares with others."""

    call: LLMInteraction
    messages: Sequence[Message]
    place: tuple[int, int, int]


class NumberedCalls:
    """The calls of a run by conversation; `numbers` has the number of each, in the order of the calls."""

    def __init__(self, calls: Sequence[LLMInteraction]) -> None:
        prompts = [_prompt(one) for one in calls]
        arrays: dict[int, int] = {}
        for prompt in prompts:
            arrays.setdefault(prompt.place[0], len(arrays))
        order = sorted(range(len(prompts)), key=lambda index: arrays[prompts[index].place[0]])
        self._prompts = [prompts[index] for index in order]
        self.numbers = [0] * len(order)  # ids are no keys: a file that was written by hand may repeat one
        for number, index in enumerate(order, 1):
            self.numbers[index] = number

    def rows(self) -> Iterator[dict[str, Payload]]:
        """Yield a row for each distinct message."""
        equal = EqualMessages(json_key)
        ranges: list[list[list[int]]] = []
        first = 1
        for segment in _segments(self._prompts):
            last = first + len(segment) - 1
            numbers = equal.numbers_of(segment[-1].messages)
            ranges += [[] for _ in range(len(equal.messages) - len(ranges))]
            begin = 0
            for call, prompt in enumerate(segment, first):
                for number in numbers[begin : len(prompt.messages)]:
                    _add(ranges[number], call, last)
                begin = len(prompt.messages)
            first = last + 1
        for number, (message, held) in enumerate(zip(equal.messages, ranges, strict=True), 1):
            yield {
                "message_number": number,
                **_members(message),
                "first_call": self._prompts[held[0][0] - 1].call.interaction_id,
                "held_by": sum(end - begin + 1 for begin, end in held),
                "call_ranges": [{"first": begin, "last": end} for begin, end in held],
            }


def _prompt(call: LLMInteraction) -> _Prompt:
    messages = call.input_messages
    if not isinstance(messages, NumberedMessages):
        return _Prompt(call, messages, (id(messages), 0, len(messages)))
    numbers, start, stop = messages.place()
    return _Prompt(call, messages, (id(numbers), start, stop))


def _segments(prompts: Sequence[_Prompt]) -> Iterator[list[_Prompt]]:
    """Divide prompts into groups of neighbours, each of which continues the one before it in the same array."""
    for _, shared in groupby(prompts, key=lambda prompt: prompt.place[:2]):
        segment: list[_Prompt] = []
        for prompt in shared:
            if segment and prompt.place[2] < segment[-1].place[2]:
                yield segment
                segment = []
            segment.append(prompt)
        yield segment


def _add(ranges: list[list[int]], first: int, last: int) -> None:
    """Add the calls from `first` to `last`, unless they are there; ranges that touch become one."""
    if ranges and ranges[-1][1] >= first - 1:
        ranges[-1][1] = max(ranges[-1][1], last)
    else:
        ranges.append([first, last])


def _members(message: Message) -> dict[str, Payload]:
    called = [
        {"call_id": json_text(call.call_id), "name": json_text(call.name), "arguments": json_text(call.arguments)}
        for call in message.tool_calls
    ]
    return {
        "role": message.role,
        "content": message.content if isinstance(message.content, str) else text_of(message) or None,
        "parts": message.content if isinstance(message.content, list) else None,
        "reasoning": message.reasoning,
        "requested_calls": called or None,
        "call_id": message.call_id,
        "name": message.name,
        "extra": message.extra or None,
    }
