"""The work for a prompt, and the text of its delta, depend on what the prompt changed, and not on its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.counting import arguments_of
from trace_recorder.reading.relations.normalized_prompts import MessageNormalizer, PromptNormalizer
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import Message, ToolCall

WINDOW = 40
MAX_CHANGED = 3
"""Each call adds two messages, and edits at most one."""


def growing() -> Iterator[list[Message]]:
    """Yield a history that each call extends by a tool call and its result."""
    history = [Message("system", "Be brief."), Message("user", "mend it")]
    number = 0
    while True:
        yield history
        call = ToolCall(f"call_{number}", "bash", {"command": str(number)})
        result = Message("tool", f"output {number}", call_id=call.call_id)
        history = [*history, Message("assistant", f"step {number}", (call,)), result]
        number += 1


def sliding() -> Iterator[list[Message]]:
    """Yield a history that drops its oldest messages."""
    for history in growing():
        yield [*history[:2], *history[2:][-WINDOW:]]


def edited() -> Iterator[list[Message]]:
    """Yield a history in which each call replaces one old result."""
    chosen, replaced = Random(1), dict[int, Message]()
    for number, history in enumerate(growing()):
        if number:
            place = 1 + 2 * chosen.randint(1, number)
            replaced[place] = Message("tool", f"[trimmed {number}]", call_id=history[place].call_id)
        yield [replaced.get(place, message) for place, message in enumerate(history)]


@pytest.mark.parametrize("calls", [200, 400])
@pytest.mark.parametrize("histories", [growing, sliding, edited])
def test_only_changed_messages_are_normalized(histories: Callable[[], Iterator[list[Message]]], calls: int) -> None:
    """A message that moved or stayed is not normalized again, however many calls repeat it."""
    table, prompts = MessageTable(), PromptNormalizer(MessageNormalizer())
    lists = [table.prompt(history) for history, _ in zip(histories(), range(calls), strict=False)]

    normalized = arguments_of(
        lambda: [prompts.normalize(messages, 0, None) for messages in lists],
        MessageNormalizer.content_of,
        lambda arguments: len(arguments["messages"]),
    )

    assert sum(normalized) <= MAX_CHANGED * calls


@pytest.mark.parametrize("calls", [200, 400])
@pytest.mark.parametrize("histories", [growing, sliding, edited])
def test_deltas_state_only_changed_messages(histories: Callable[[], Iterator[list[Message]]], calls: int) -> None:
    """A document with deltas does not repeat the history after an edit."""
    deltas = MessageDeltas()
    lists = [history for history, _ in zip(histories(), range(calls), strict=False)]

    stated = [len(deltas.repetition(str(number), messages).others(messages)) for number, messages in enumerate(lists)]

    assert sum(stated) <= MAX_CHANGED * calls
