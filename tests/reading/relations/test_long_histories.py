"""The work for a prompt, and the text of its delta, depend on what the prompt changed, and not on its length."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

import pytest

from tests.counting import arguments_of, calls
from tests.known_requests import KnownRequest
from trace_recorder import Trajectory
from trace_recorder.reading.relations.normalized_messages import MessageNormalizer, NormalizedMessage
from trace_recorder.reading.relations.normalized_prompts import PromptNormalizer
from trace_recorder.reading.relations.prompt_relations import PromptRelations
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import LLMResponse, Message, RequestReading, ToolCall

WINDOW = 40
MAX_CHANGED = 3
"""Each call adds two messages, and edits at most one."""
MEASURED = 60
"""The cost of this many calls is measured. A history is compacted three times in them."""
Histories = Callable[[], Iterator[list[Message]]]


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


def compacted() -> Iterator[list[Message]]:
    """Yield a history that is replaced by a summary when it is long."""
    begin, summary = 2, Message("user", "mend it")
    for number, history in enumerate(growing()):
        if len(history) - begin > WINDOW:
            begin, summary = len(history) - 4, Message("user", f"summary {number}")
        yield [history[0], summary, *history[begin:]]


ALL_HISTORIES = pytest.mark.parametrize("histories", [growing, sliding, compacted, edited])


def prompts_of(histories: Histories, count: int) -> Iterator[NumberedMessages]:
    """Yield this many prompts of a history. If a prompt extends the one before it, they share an array."""
    table = MessageTable()
    prompt = table.prompt()
    for messages in islice(histories(), count):
        shared = len(prompt)
        if shared and [*prompt] != messages[:shared]:
            prompt, shared = table.prompt(), 0
        prompt = prompt.extended(messages[shared:])
        yield prompt


def run(histories: Histories, count: int) -> Trajectory:
    """Return a run of this many calls with such a history."""
    answers = (history[-2] for history in islice(growing(), 1, None))
    made = [
        LLMInteraction(
            timestamp="2025-06-12T20:00:00+00:00",
            provider="openai",
            model="m",
            response=LLMResponse(answer.content, tool_calls=answer.tool_calls),
            interaction_id=f"llm_{number}",
            api="openai-chat",
            source=KnownRequest(RequestReading(prompt)),
        )
        for number, (prompt, answer) in enumerate(zip(prompts_of(histories, count), answers, strict=False))
    ]
    return Trajectory(llm_interactions=made)


@ALL_HISTORIES
def test_the_relation_of_a_call_costs_what_changed(histories: Histories) -> None:
    """As many functions run for the relation of a call after 300 calls as after 150."""
    costs = []
    for count in (150, 300):
        made, relations = run(histories, count), PromptRelations()
        relations.update(made)
        relations.of(made.llm_interactions[-1 - MEASURED])
        costs.append(calls(lambda: relations.of(made.llm_interactions[-1])))  # noqa: B023 - it is called at once

    assert costs[1] < 1.1 * costs[0]


class ReadMessages(dict[int, NormalizedMessage]):
    """Normalized messages by their numbers. `count` is how often one was read."""

    count = 0

    def __getitem__(self, number: int) -> NormalizedMessage:
        self.count += 1
        return super().__getitem__(number)


@ALL_HISTORIES
def test_kept_messages_are_not_read(histories: Histories) -> None:
    """To normalize a prompt, and for its sum, only its new messages and those that are gone are read."""
    normalizer = MessageNormalizer()
    read = normalizer.messages = ReadMessages()
    prompts = PromptNormalizer(normalizer)
    for prompt in prompts_of(histories, 400):
        prompts.normalize(prompt, 0, None)

    assert read.count <= 12 * 400


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


def test_a_long_chain_of_turns_is_freed() -> None:
    """Python frees a chain of 200,000 turns without a deep recursion, which would end the process."""
    source = KnownRequest(RequestReading())
    call = LLMInteraction(timestamp="", provider=None, model=None, interaction_id="llm_1", source=source)
    references = sys.getrefcount(call)
    turn: Turn | None = Turn(call, "begins")
    for _ in range(200_000):
        turn = Turn(call, "extends", turn)

    turn = None

    assert sys.getrefcount(call) == references
