"""The Hierarchy's steps: the conversations of a run, cut into cumulative snapshots.

A conversation is a chain of turns, each of which continues the turn before it. If answers are gone from a history, or
two requests continue the same turn, there are several conversations. Each step has the messages that the model saw at
that step. If the history keeps all answers, the conversation continues, even if the agent changed messages that are not
answers. A changed message stays as it was first sent, but instructions are as they were last sent. There are two ways
to cut:

- `turn`: before each user message that follows an action of the agent. A step is one exchange.
- `message`: after the first user message, after each tool message, and after each answer without tool calls, as
  `trajectory_sdk.build.steps` does. A system message after the first user message replaces the earlier system messages.

`writing_messages.py` decides the form of a message.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trace_recorder.figures.conversations.steps_of_turns import AnsweredTurn
from trace_recorder.formats.hierarchy.writing_messages import TurnMessage, last_results, turn_messages
from trace_recorder.reading.relations.turn import Turn, key_of_agent

Cut = Literal["turn", "message"]
Exchange = tuple[int, int]
"""The number of a chain, and the number of an exchange in that chain."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A step: all messages so far, the new messages among them, and the number of the exchange, counted from 1."""

    lines: Sequence[TurnMessage]
    new: Sequence[TurnMessage]
    exchange: int


@dataclass(frozen=True, slots=True)
class _MessageChain:
    """The messages of a conversation. Messages before `begin` belong to an earlier chain, or to a rewritten history."""

    number: int
    lines: Sequence[TurnMessage]
    begin: int


class _CutStep(NamedTuple):
    """A step before the exchanges of the run have numbers: all lines so far, the new ones, and the exchange."""

    lines: Sequence[TurnMessage]
    new: Sequence[TurnMessage]
    exchange: Exchange


def snapshots(turns: Sequence[AnsweredTurn], cut: Cut) -> list[Snapshot]:
    """Cut the conversations of a run into steps, in the order of time."""
    place = {answered.turn: number for number, answered in enumerate(turns)}
    exchanges: dict[Turn, Exchange] = {}
    steps = [step for chain in _chains(turns) for step in _snapshots(chain, cut, exchanges)]
    steps.sort(key=lambda step: place[step.new[-1].turn.turn])
    numbers: dict[Exchange, int] = {}
    return [Snapshot(step.lines, step.new, numbers.setdefault(step.exchange, len(numbers) + 1)) for step in steps]


def _snapshots(chain: _MessageChain, cut: Cut, exchanges: dict[Turn, Exchange]) -> Iterator[_CutStep]:
    """Yield the steps of a chain.

    `exchanges` has the exchange of each earlier turn. The turns of this chain are added to `exchanges`.
    """
    steps = _by_turn(chain.lines)
    if cut == "message":
        steps = _by_message(chain.lines)
    ends = _ends_of_exchanges(chain.lines)
    names: dict[int, Exchange] = {}
    previous_end = chain.begin
    for end, lines in steps:
        if end <= previous_end:
            continue
        number = next(number for number, last in enumerate(ends) if end <= last)
        if not names:
            names[number] = _resumed_exchange(chain, exchanges) or (chain.number, number)
        exchange = names.setdefault(number, (chain.number, number))
        new = chain.lines[previous_end:end]
        exchanges |= {line.turn.turn: exchange for line in new if line.after_prompt}
        yield _CutStep(lines, new, exchange)
        previous_end = end


def _resumed_exchange(chain: _MessageChain, exchanges: Mapping[Turn, Exchange]) -> Exchange | None:
    """Return the exchange that a chain continues, or None.

    A chain continues an exchange if its first turn rewrote the history, and the user sent no new message.
    """
    first = chain.lines[0].turn.turn
    if first.previous is None or any(message.role == "user" for message in first.new_messages):
        return None
    return exchanges.get(first.previous)


def _ends_of_exchanges(lines: Sequence[TurnMessage]) -> list[int]:
    ends: list[int] = []
    acted = False
    for position, line in enumerate(lines):
        if line.role == "user" and acted:
            renewed = itertools.takewhile(lambda place: lines[place].renews, reversed(range(position)))
            ends.append(position - sum(1 for _ in renewed))
        acted = line.role in {"assistant", "tool"} or (acted and line.role != "user")
    if lines:
        ends.append(len(lines))
    return ends


def _by_turn(lines: Sequence[TurnMessage]) -> Iterator[tuple[int, Sequence[TurnMessage]]]:
    """Yield the position after each exchange of the user with the agent, and the messages up to that position."""
    running: list[TurnMessage] = []
    ends = {*_ends_of_exchanges(lines)}
    for end, line in enumerate(lines, start=1):
        if line.renews:
            running = _with_new_instructions(running, line)
        else:
            running.append(line)
        if end in ends:
            yield end, list(running)


def _by_message(lines: Sequence[TurnMessage]) -> Iterator[tuple[int, Sequence[TurnMessage]]]:
    """Cut a conversation into steps as the SDK does. The remaining messages at the end form a step."""
    running: list[TurnMessage] = []
    has_question = in_block = False
    last = 0
    for end, line in enumerate(lines, start=1):
        if line.renews:
            running = _with_new_instructions(running, line)
            continue
        if line.role == "system" and has_question:
            running = _with_new_system_message(running, line, first=not in_block)
            in_block = True
            continue
        in_block = False
        running.append(line)
        first_question = line.role == "user" and not has_question
        has_question = has_question or first_question
        ends_step = line.role == "tool" or (line.role == "assistant" and not line.message["tool_calls"])
        if first_question or (has_question and ends_step):
            yield end, list(running)
            last = len(running)
    if len(running) > last:
        yield len(lines), running


def _with_new_system_message(running: Sequence[TurnMessage], line: TurnMessage, *, first: bool) -> list[TurnMessage]:
    """Replace the earlier system messages by a new system message.

    If several new system messages follow each other, all are kept.
    """
    others = [earlier for earlier in running if earlier.role != "system"]
    if first:
        return [line, *others]
    return [*(earlier for earlier in running if earlier.role == "system"), line, *others]


def _with_new_instructions(running: Sequence[TurnMessage], line: TurnMessage) -> list[TurnMessage]:
    """Replace the instructions of earlier turns at the beginning of the prompt.

    If the new instruction applies to one request alone (`own`), instructions that apply to all requests are kept.
    """
    begin = next((place for place, earlier in enumerate(running) if earlier.role != "system"), len(running))
    kept = [earlier for earlier in running[:begin] if earlier.turn is line.turn or (line.own and not earlier.own)]
    return [*kept, line, *running[begin:]]


def _chains(turns: Sequence[AnsweredTurn]) -> Iterator[_MessageChain]:
    """Yield the conversations from beginning to end.

    Messages that two conversations share belong to the first of the two.
    """
    by_turn = {answered.turn: answered for answered in turns}
    lines: dict[Turn, list[TurnMessage]] = {}
    for number, leaf in enumerate(_leaves(turns)):
        chain = _ancestors(leaf, by_turn)
        shared = sum(answered.turn in lines for answered in chain)
        for answered, before in [*zip(chain, [None, *chain], strict=False)][shared:]:
            lines[answered.turn] = turn_messages(answered, before)
        parts = [lines[answered.turn] for answered in chain]
        begin = sum(map(len, parts[:shared]))
        if not begin and chain[0].turn.relation == "rewrites":
            begin = sum(not line.after_prompt for line in parts[0])
        yield _MessageChain(number, [*itertools.chain(*parts), *last_results(leaf)], begin)


def _leaves(turns: Sequence[AnsweredTurn]) -> Iterator[AnsweredTurn]:
    """Yield the last turn of each conversation.

    A turn without an answer is a last turn only if its agent made no later turn.
    """
    last = {key_of_agent(answered.interaction): answered.turn for answered in turns}.values()
    candidates = [
        answered
        for answered in turns
        if answered.interaction.source.has_request() and (answered.turn.answered or answered.turn in last)
    ]
    continued = {_origin(answered.turn) for answered in candidates}
    return (answered for answered in candidates if answered.turn not in continued)


def _ancestors(leaf: AnsweredTurn, by_turn: Mapping[Turn, AnsweredTurn]) -> list[AnsweredTurn]:
    chain = [leaf]
    while (before := _origin(chain[-1].turn)) is not None:
        chain.append(by_turn[before])
    return chain[::-1]


def _origin(turn: Turn) -> Turn | None:
    """Return the turn that a turn continues in its conversation, or None if the turn begins a conversation.

    A turn begins a conversation if answers are gone from its history.
    """
    if turn.relation == "rewrites":
        return None
    return turn.previous
