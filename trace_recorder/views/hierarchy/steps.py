"""The Hierarchy's steps: the conversations of a run, cut into cumulative snapshots.

A conversation is a chain of turns, each of which continues the one before. If answers are gone from a history, or two
requests continue one place, there are several conversations, and each step holds the messages that the model saw then.
If only other messages were changed, each message is as it was first sent, and instructions are as they were sent last.
Two ways to cut:

turn      before each message of a user that follows what an agent did: one step for each exchange
    message   after the first user message, after each tool message, and after each answer without tool calls, as
              `trajectory_sdk.build.steps` does; a system message in the middle takes the place of the earlier ones

What a message looks like is for `messages.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trace_recorder.views.conversations.steps_of_turns import AnsweredTurn
from trace_recorder.views.conversations.turn import Turn, agent_key
from trace_recorder.views.hierarchy.messages import Line, last_results, lines_of

Cut = Literal["turn", "message"]
Exchange = tuple[int, int]
"""The number of a chain, and of an exchange in it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A step: all messages so far, the new ones of these, and the number of its exchange, counted from 1."""

    lines: Sequence[Line]
    new: Sequence[Line]
    exchange: int


@dataclass(frozen=True, slots=True)
class _Chain:
    """The lines of a conversation. Lines before `begin` belong to another chain, or to the time before this run."""

    number: int
    lines: Sequence[Line]
    begin: int


def snapshots(turns: Sequence[AnsweredTurn], cut: Cut) -> list[Snapshot]:
    """Cut the conversations of a run into steps, in the order of time."""
    place = {one.turn: number for number, one in enumerate(turns)}
    exchanges: dict[Turn, Exchange] = {}
    made = [one for chain in _chains(turns) for one in _snapshots(chain, cut, exchanges)]
    made.sort(key=lambda one: place[one[1][-1].turn.turn])
    numbers: dict[Exchange, int] = {}
    return [Snapshot(lines, new, numbers.setdefault(key, len(numbers) + 1)) for lines, new, key in made]


def _snapshots(
    chain: _Chain, cut: Cut, exchanges: dict[Turn, Exchange]
) -> Iterator[tuple[Sequence[Line], Sequence[Line], Exchange]]:
    """Return each step's lines, the new lines, and its exchange. `exchanges` has those of the turns so far."""
    ends = _ends_of_exchanges(chain.lines)
    names: dict[int, Exchange] = {}
    done = chain.begin
    for end, lines in (_by_message if cut == "message" else _by_turn)(chain.lines):
        if end > done:
            number = next(number for number, last in enumerate(ends) if end <= last)
            new = chain.lines[done:end]
            exchange = names.setdefault(number, (not names and _resumed(chain, exchanges)) or (chain.number, number))
            exchanges |= {line.turn.turn: exchange for line in new if line.said}
            yield lines, new, exchange
            done = end


def _resumed(chain: _Chain, exchanges: Mapping[Turn, Exchange]) -> Exchange | None:
    """Return the exchange that continues if a history was rewritten without a new message of the user."""
    first = chain.lines[0].turn.turn
    if first.previous is None or any(message.role == "user" for message in first.new_messages):
        return None
    return exchanges.get(first.previous)


def _ends_of_exchanges(lines: Sequence[Line]) -> list[int]:
    ends: list[int] = []
    acted = False
    for position, line in enumerate(lines):
        if line.role == "user" and acted:
            renewed = itertools.takewhile(lambda at: lines[at].renews, reversed(range(position)))
            ends.append(position - sum(1 for _ in renewed))
        acted = line.role in {"assistant", "tool"} or (acted and line.role != "user")
    return [*ends, len(lines)] if lines else []


def _by_turn(lines: Sequence[Line]) -> Iterator[tuple[int, Sequence[Line]]]:
    """Cut at the end of each exchange."""
    running: list[Line] = []
    ends = {*_ends_of_exchanges(lines)}
    for end, line in enumerate(lines, start=1):
        if line.renews:
            running = _instructed_anew(running, line)
        else:
            running.append(line)
        if end in ends:
            yield end, list(running)


def _by_message(lines: Sequence[Line]) -> Iterator[tuple[int, Sequence[Line]]]:
    """Cut as the SDK does. Remaining messages at the end form a step."""
    running: list[Line] = []
    asked = in_block = False
    last = 0
    for end, line in enumerate(lines, start=1):
        if line.renews:
            running = _instructed_anew(running, line)
            continue
        if line.role == "system" and asked:
            running = _renewed(running, line, first=not in_block)
            in_block = True
            continue
        in_block = False
        running.append(line)
        first_question = line.role == "user" and not asked
        asked = asked or first_question
        if first_question or (asked and _ends_a_step(line)):
            yield end, list(running)
            last = len(running)
    if len(running) > last:
        yield len(lines), running


def _ends_a_step(line: Line) -> bool:
    return line.role == "tool" or (line.role == "assistant" and not line.message["tool_calls"])


def _renewed(running: Sequence[Line], line: Line, *, first: bool) -> list[Line]:
    """Replace the earlier system messages by a new one. Consecutive new ones are all kept."""
    before = [] if first else [one for one in running if one.role == "system"]
    return [*before, line, *(one for one in running if one.role != "system")]


def _instructed_anew(running: Sequence[Line], line: Line) -> list[Line]:
    """Replace the instructions of earlier turns at the beginning of the prompt.

    An instruction for one request only replaces only others of that kind.
    """
    begin = next((at for at, one in enumerate(running) if one.role != "system"), len(running))
    before = [one for one in running[:begin] if one.turn is line.turn or (line.own and not one.own)]
    return [*before, line, *running[begin:]]


def _chains(turns: Sequence[AnsweredTurn]) -> Iterator[_Chain]:
    """Return the conversations from beginning to end. Messages that two of them share belong to the first."""
    by_turn = {one.turn: one for one in turns}
    told: dict[Turn, list[Line]] = {}
    for number, leaf in enumerate(_leaves(turns)):
        chain = _ancestors(leaf, by_turn)
        shared = sum(one.turn in told for one in chain)
        for one, before in [*zip(chain, [None, *chain], strict=False)][shared:]:
            told[one.turn] = lines_of(one, before)
        parts = [told[one.turn] for one in chain]
        begin = sum(map(len, parts[:shared]))
        if not begin and chain[0].turn.relation == "rewrites":
            begin = sum(not line.said for line in parts[0])
        yield _Chain(number, [*itertools.chain(*parts), *last_results(leaf)], begin)


def _leaves(turns: Sequence[AnsweredTurn]) -> Iterator[AnsweredTurn]:
    """Return the last turns of conversations.

    A turn without an answer is among them only if its agent made no later turn.
    """
    last = {agent_key(one.interaction): one.turn for one in turns}.values()
    told = [one for one in turns if one.interaction.source.has_request() and (one.turn.answered or one.turn in last)]
    went_on = {_origin(one.turn) for one in told}
    return (one for one in told if one.turn not in went_on)


def _ancestors(leaf: AnsweredTurn, by_turn: Mapping[Turn, AnsweredTurn]) -> list[AnsweredTurn]:
    chain = [leaf]
    while (before := _origin(chain[-1].turn)) is not None:
        chain.append(by_turn[before])
    return chain[::-1]


def _origin(turn: Turn) -> Turn | None:
    """Return the turn that a turn continues in its conversation, or None if it begins one because answers are gone."""
    return None if turn.relation == "rewrites" else turn.previous
