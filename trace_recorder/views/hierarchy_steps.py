"""The Hierarchy's steps: the conversations of a run, cut into cumulative snapshots.

A conversation is a chain of turns, each of which goes on from the one before. Where a history was rewritten, or went on
twice from one place, there are several, and each step holds the messages that the model then saw. Two ways to cut:

    turn      before each message of a user that follows what an agent did: one step for each exchange
    message   after the first user message, after each tool message, and after each answer without tool calls, as
              `trajectory_sdk.build.steps` does; a system message in the middle takes the place of the earlier ones

What a message looks like is for `hierarchy_messages.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trace_recorder.views.answers import AnsweredTurn
from trace_recorder.views.hierarchy_messages import Line, lines_of
from trace_recorder.views.turns import Turn, agent_of

Cut = Literal["turn", "message"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A step: all messages so far, those of them that no earlier step has, and the number of its exchange, from 1."""

    lines: Sequence[Line]
    new: Sequence[Line]
    exchange: int


@dataclass(frozen=True, slots=True)
class _Chain:
    """The lines of a conversation. Those before `begin` are told elsewhere, or were not said in this run."""

    number: int
    lines: Sequence[Line]
    begin: int


def snapshots(turns: Sequence[AnsweredTurn], cut: Cut) -> list[Snapshot]:
    """Cut the conversations of a run into steps, in the order of time."""
    place = {one.turn: number for number, one in enumerate(turns)}
    made = [one for chain in _chains(turns) for one in _snapshots(chain, cut)]
    made.sort(key=lambda one: place[one[1][-1].turn.turn])
    numbers: dict[tuple[int, int], int] = {}
    return [Snapshot(lines, new, numbers.setdefault(key, len(numbers) + 1)) for lines, new, key in made]


def _snapshots(chain: _Chain, cut: Cut) -> Iterator[tuple[Sequence[Line], Sequence[Line], tuple[int, int]]]:
    """Give each step's lines, the new ones of them, and what tells its exchange from others."""
    exchanges = _ends_of_exchanges(chain.lines)
    done = chain.begin
    for end, lines in _by_message(chain.lines) if cut == "message" else ((end, chain.lines[:end]) for end in exchanges):
        if end > done:
            exchange = next(number for number, last in enumerate(exchanges) if end <= last)
            yield lines, chain.lines[done:end], (chain.number, exchange)
            done = end


def _ends_of_exchanges(lines: Sequence[Line]) -> list[int]:
    ends: list[int] = []
    acted = False
    for position, line in enumerate(lines):
        if line.role == "user" and acted:
            ends.append(position)
        acted = line.role in {"assistant", "tool"} or (acted and line.role != "user")
    return [*ends, len(lines)] if lines else []


def _by_message(lines: Sequence[Line]) -> Iterator[tuple[int, Sequence[Line]]]:
    """Cut as the SDK does; the last messages, where they end no step, are one of their own."""
    running: list[Line] = []
    asked = in_block = False
    last = 0
    for end, line in enumerate(lines, start=1):
        if line.role == "system" and asked:
            running = _renewed(running, line, first=not in_block)
            in_block = True
            continue
        in_block = False
        running.append(line)
        first_question = line.role == "user" and not asked
        asked = asked or first_question
        over = line.role == "tool" or (line.role == "assistant" and not line.message["tool_calls"])
        if first_question or (asked and over):
            yield end, list(running)
            last = len(running)
    if running and (not last or len(running) > last):
        yield len(lines), running


def _renewed(running: Sequence[Line], line: Line, *, first: bool) -> list[Line]:
    """Put a system message in the place of the earlier ones; one that follows another stands behind it."""
    before = [] if first else [one for one in running if one.role == "system"]
    return [*before, line, *(one for one in running if one.role != "system")]


def _chains(turns: Sequence[AnsweredTurn]) -> Iterator[_Chain]:
    """The conversations, from the beginning of each to where it ends; what two share belongs to the first."""
    by_turn = {one.turn: one for one in turns}
    told: dict[Turn, list[Line]] = {}
    for number, leaf in enumerate(_leaves(turns)):
        chain = _ancestors(leaf, by_turn)
        begin = sum(len(told[one.turn]) for one in chain if one.turn in told)
        for before, one in zip([None, *chain], chain, strict=False):
            if one.turn not in told:
                told[one.turn] = lines_of(one, before)
        lines = [line for one in chain for line in told[one.turn]]
        if not begin and chain[0].turn.relation == "rewrites":
            begin = sum(not line.said for line in told[chain[0].turn])
        yield _Chain(number, lines, begin)


def _leaves(turns: Sequence[AnsweredTurn]) -> Iterator[AnsweredTurn]:
    """The turns with which conversations end; one without an answer only where its agent came no further."""
    last = {agent_of(one.interaction): one.turn for one in turns}.values()
    told = [one for one in turns if one.interaction.source.is_whole() and (one.turn.answered or one.turn in last)]
    went_on = {one.turn.before for one in told}
    return (one for one in told if one.turn not in went_on)


def _ancestors(leaf: AnsweredTurn, by_turn: Mapping[Turn, AnsweredTurn]) -> list[AnsweredTurn]:
    chain = [leaf]
    while (before := chain[-1].turn.before) is not None:
        chain.append(by_turn[before])
    return chain[::-1]
