"""Conversations: the turns of a run as lines that are read from top to bottom, for formats that are written so.

A turn that extends the newest answer of a conversation goes on with it, and adds only what was not said before; a
call that failed is part of it, and so is the next attempt. A prompt that changes what its agent had, or forks it,
begins a new conversation that *continues* the agent's; what was said before is *copied* there. A run of calls that goes
on from none of them stands *apart*, be it before, beside or behind the agent's longest one: a title over the same
question, say.

Each agent has conversations of its own: two of one name are two agents, where the run tells them apart. One that was
marked anew for each of its calls has another id each time: where it goes on from its own newest answer, under the same
name and parent, it is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Literal

from trace_recorder.values.messages import Message, Tool
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.call_chains import Turn, agent_key, turns_of
from trace_recorder.views.conversations.normalized_messages import MessageNormalizer, NormalizedMessage
from trace_recorder.views.conversations.tool_results import message_of
from trace_recorder.views.conversations.unrequested_tools import unrequested_tools_of

Kind = Literal["first", "continues", "apart"]


@dataclass(frozen=True, slots=True)
class ConversationLine:
    """One message in its place. `turn` is the one whose prompt it came with; `answer` is whether the model said it.

    `choice` is the number of that answer.
    """

    message: Message
    turn: Turn
    answer: bool = False
    copied: bool = False
    choice: int = 0


@dataclass(slots=True, eq=False)
class Conversation:
    """Messages that were said one after another. `after` is the turn of the run that came before its first."""

    agent: str | None
    agent_id: str | None
    parent_agent_id: str | None
    after: Turn | None
    kind: Kind = "first"
    lines: list[ConversationLine] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    _newest: Turn | None = None
    _unanswered: list[Hashable] = field(default_factory=list)

    @property
    def agent_key(self) -> str | None:
        """By what its agent is known: the id, or where there is none, the name."""
        return self.agent_id or self.agent

    def is_continued_by(self, turn: Turn) -> bool:
        """Whether a turn goes on with this conversation.

        It does from the newest answer, or from the beginning where there is none yet; a turn whose prompt is not known
        is taken to.
        """
        return (self._newest is turn.previous and (turn.exact or turn.previous is None)) or not turn.prompt_length

    def is_resumed_by(self, turn: Turn) -> bool:
        """Whether a turn of an agent with another id, but of this one's name and parent, goes on from its answer."""
        one = turn.interaction
        same = (one.agent, one.parent_agent_id) == (self.agent, self.parent_agent_id)
        return same and turn.exact and self._newest is turn.previous

    @property
    def chain_start(self) -> Turn:
        """The turn with which the run of calls began that it belongs to."""
        return next((turn for turn in self.turns if turn.answered), self.turns[0]).chain_start

    def add(self, turn: Turn, seen: set[Hashable], vocabulary: MessageNormalizer) -> None:
        """Take a turn that goes on here, or with which this begins.

        `seen` is what its agent has said and seen in all conversations, to which what is new is added.
        """
        if self._newest is not None and turn.choice:
            self._replace_answer(turn.choice)
        begins = not self.turns
        messages = turn.messages() if begins else turn.appended
        said = vocabulary.normalize(messages)
        self._add_prompt(turn, messages, said, seen if begins else set())
        self.lines.append(ConversationLine(turn.answer(), turn, answer=True))
        self.turns.append(turn)
        if turn.answered:
            self._newest, self._unanswered = turn, []
        seen.update(one.key for one in [*said, *vocabulary.normalize([turn.answer()])])

    def _add_prompt(
        self, turn: Turn, messages: Sequence[Message], said: Sequence[NormalizedMessage], seen: set[Hashable]
    ) -> None:
        """Write what is new: what calls that got no answer have brought already is passed over."""
        keys = [one.key for one in said]
        same = next((n for n, (a, b) in enumerate(zip(keys, self._unanswered, strict=False)) if a != b), None)
        shown = min(len(keys), len(self._unanswered)) if same is None else same
        begin = said[shown - 1].end if shown else 0
        copied = {place for one in said if one.key in seen for place in range(one.begin, one.end)}
        for place, message in enumerate(messages[begin:], start=begin):
            self.lines.append(ConversationLine(message, turn, copied=place in copied))
        self._unanswered = keys

    def _replace_answer(self, choice: int) -> None:
        """Put another of the newest turn's answers in place of its first: it is the one that was taken."""
        for place in range(len(self.lines) - 1, -1, -1):
            line = self.lines[place]
            if line.answer and line.turn is self._newest:
                self.lines[place] = ConversationLine(line.turn.answer(choice), line.turn, answer=True, choice=choice)
                return

    def tools(self) -> list[Tool]:
        """The tools that were offered in it, by name; of those with one name the last declaration counts."""
        return [*{tool.name: tool for turn in self.turns for tool in turn.tools}.values()]


def conversations_of(trajectory: Trajectory) -> list[Conversation]:
    """Give the conversations of a run, in the order in which they began."""
    return conversations(turns_of(trajectory))


def conversations(turns: Sequence[Turn]) -> list[Conversation]:
    """Give the conversations that turns make."""
    found: list[Conversation] = []
    known: dict[str | None, set[Hashable]] = {}
    vocabulary = MessageNormalizer()
    before: Turn | None = None
    for turn in turns:
        one = turn.interaction
        own = [conversation for conversation in found if conversation.agent_key == agent_key(one)]
        conversation = next((open_one for open_one in reversed(own) if open_one.is_continued_by(turn)), None)
        conversation = conversation or next((ended for ended in reversed(found) if ended.is_resumed_by(turn)), None)
        seen = known.setdefault(conversation.agent_key if conversation else agent_key(one), set())
        if conversation is None:
            conversation = Conversation(one.agent, one.agent_id, one.parent_agent_id, before)
            found.append(conversation)
        conversation.add(turn, seen, vocabulary)
        before = turn
    for agent in known:
        _classify([conversation for conversation in found if conversation.agent_key == agent])
    return found


def _classify(own: Sequence[Conversation]) -> None:
    """Say of an agent's conversations which is its first, and which continue that: its longest run of calls counts."""
    turns = Counter(conversation.chain_start for conversation in own for _ in conversation.turns)
    offered = {conversation.chain_start for conversation in own if conversation.tools()}
    main = max(turns, key=lambda began: (turns[began], began in offered), default=None)
    kinds: Iterator[Kind] = chain(("first",), repeat("continues"))
    for conversation in own:
        conversation.kind = next(kinds) if conversation.chain_start is main else "apart"


@dataclass(frozen=True, slots=True)
class StepsByTurn:
    """What steps tell, by turn: those that derive from it, and those that the agent recorded of it.

    Of `unasked` tools no model knows: they are in none of the `steps`, and stand apart with the turn in whose step they
    ran, or with None.
    """

    steps: dict[Turn, list[AgentStep]] = field(default_factory=dict)
    unrequested: dict[Turn | None, list[AgentStep]] = field(default_factory=dict)


def steps_by_turn(trajectory: Trajectory, turns: Sequence[Turn]) -> StepsByTurn:
    """Give the steps of each turn."""
    by_id = {turn.interaction.interaction_id: turn for turn in turns}
    by_response = _turns_by_response_id(turns)
    apart = {id(one.step): one for one in unrequested_tools_of(trajectory)}
    found = StepsByTurn()
    for number, step in enumerate(trajectory.agent_steps, start=1):
        response = step.llm_response.id if step.llm_response else None
        named = step.interaction.interaction_id if step.interaction else f"step_{number}"
        turn = by_id.get(named) or by_response.get(response or "") or _turn_that_called(step, turns)
        unasked = apart.get(id(step))
        if unasked is not None:
            found.unrequested.setdefault(turn, []).append(unasked.tools_step())
        if turn is not None:
            found.steps.setdefault(turn, []).append(unasked.remaining_step() if unasked else step)
    return found


def lines_with_results(
    conversation: Conversation, told: Mapping[Turn, Sequence[AgentStep]]
) -> Iterator[ConversationLine]:
    """Give a conversation's lines, and behind an answer the results of its calls that no line brings, but a step."""
    brought = {said.message.call_id for said in conversation.lines if said.message.role == "tool"}
    for said in conversation.lines:
        yield said
        results = [result for step in told.get(said.turn, ()) for result in step.tool_results] if said.answer else []
        for result in results:
            if result.call_id not in brought:
                yield ConversationLine(message_of(result), said.turn)


def _turns_by_response_id(turns: Sequence[Turn]) -> dict[str, Turn]:
    """Turns by the id of their response, where it is one turn's alone: servers on one's own machine repeat them."""
    ids = [one.response.id for turn in turns if (one := turn.interaction).response.id]
    alone = {identity for identity in ids if ids.count(identity) == 1}
    return {one.response.id: turn for turn in turns if (one := turn.interaction).response.id in alone}


def _turn_that_called(step: AgentStep, turns: Sequence[Turn]) -> Turn | None:
    """The newest turn before a step that asked for one of its tool calls, of its own agent if there is one."""
    called = {call.call_id for call in step.tool_calls} | {result.call_id for result in step.tool_results}
    asked = [turn for turn in turns if called & {call.call_id for call in turn.answer().tool_calls}]
    asked = [turn for turn in asked if agent_key(turn.interaction) == agent_key(step)] or asked
    earlier = [turn for turn in asked if turn.interaction.timestamp <= step.timestamp]
    return next(reversed(earlier or asked), None)
