"""Conversations: the turns of a run as messages in reading order, for formats that list messages.

A turn that extends the newest answer of a conversation continues the conversation. Only the turn's new messages are
added. A failed call is part of the conversation, and so is its next attempt. A prompt that changes or forks the history
of its agent begins a new conversation, which *continues* the agent's first conversation. Messages that the new
conversation has from an earlier conversation are *copied*. A chain of calls that continues no earlier chain is *apart*,
such as a request for a title of the same question. The agent's longest chain is never *apart*.

Two agents with the same name have separate conversations. One agent may have a different id in each call. Two ids
belong to the same agent if a call with the second id continues the newest answer of the first id. The name and the
parent must also be the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Literal

from trace_recorder.figures.conversations.steps_of_turns import message_of_result
from trace_recorder.reading.relations.normalized_messages import PlacedMessages
from trace_recorder.reading.relations.prompt_relations import PromptRelations, relations_of
from trace_recorder.reading.relations.turn import Turn, key_of_agent
from trace_recorder.values.message_equality import normalized_content
from trace_recorder.values.messages import Message, Tool
from trace_recorder.values.structs import Struct
from trace_recorder.values.trajectory import AgentStep, Trajectory

ConversationKind = Literal["first", "continues", "apart"]


class ConversationLine(Struct, frozen=True, gc=False):
    """One message of a conversation.

    `turn` is the first turn whose prompt or answer has the message. `answer` is True for an answer of the model, and
    `choice` is the index of that answer among the answers of its call. `copied` is True if an earlier conversation of
    the agent has the message.
    """

    message: Message
    turn: Turn
    answer: bool = False
    copied: bool = False
    choice: int = 0


@dataclass(slots=True, eq=False)
class Conversation:
    """The lines of one conversation, and its turns. `newest` is the last turn with an answer."""

    agent: str | None
    agent_id: str | None
    parent_agent_id: str | None
    kind: ConversationKind = "first"
    lines: list[ConversationLine] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    newest: Turn | None = None
    _unanswered: list[Hashable] = field(default_factory=list)

    @property
    def agent_key(self) -> str | None:
        """The id of the conversation's agent, or the agent's name if the agent has no id."""
        return self.agent_id or self.agent

    def is_continued_by(self, turn: Turn) -> bool:
        """Whether a turn continues the newest answer of the conversation.

        A conversation without an answer is continued by any turn whose `previous` is None, such as the second attempt
        of its call. A turn with an unknown prompt continues every conversation.
        """
        return (self.newest is turn.previous and (turn.exact or turn.previous is None)) or not turn.prompt_length

    def is_resumed_by(self, turn: Turn) -> bool:
        """Whether a turn continues the newest answer under a different agent id, but with the same name and parent."""
        call = turn.interaction
        same_agent = (call.agent, call.parent_agent_id) == (self.agent, self.parent_agent_id)
        return same_agent and turn.exact and self.newest is turn.previous

    @property
    def chain_start(self) -> Turn:
        """The first turn of the chain of calls that the conversation belongs to."""
        return next((turn for turn in self.turns if turn.answered), self.turns[0]).chain_start

    def add(self, turn: Turn, seen: set[Hashable], relations: PromptRelations) -> None:
        """Add a turn.

        `seen` has the keys of the messages in all conversations of the agent, and gets the keys of this turn's
        messages.
        """
        if self.newest is not None and turn.choice:
            self._replace_answer(turn.choice)
        messages: Sequence[Message] = turn.appended
        may_be_copied: set[Hashable] = set()
        if not self.turns:
            messages, may_be_copied = turn.messages(), seen
        normalized = relations.normalize(messages)
        self._add_prompt(turn, messages, normalized, may_be_copied)
        self.lines.append(ConversationLine(turn.answer(), turn, answer=True))
        self.turns.append(turn)
        if turn.answered:
            self.newest, self._unanswered = turn, []
        seen.update([message.key for message in normalized.messages])
        answer = normalized_content([turn.answer()])
        if answer is not None:
            seen.add(answer.identity)

    def _add_prompt(
        self, turn: Turn, messages: Sequence[Message], normalized: PlacedMessages, seen: set[Hashable]
    ) -> None:
        """Add the lines of a prompt, except messages that earlier calls without an answer have added."""
        keys = [message.key for message in normalized.messages]
        pairs = enumerate(zip(keys, self._unanswered, strict=False))
        same = next((number for number, (key, other) in pairs if key != other), min(len(keys), len(self._unanswered)))
        begin = 0
        if same:
            begin = normalized.ends[same - 1]
        copied: set[int] = set()
        for key, first, end in zip(keys, normalized.begins, normalized.ends, strict=True):
            if key in seen:
                copied.update(range(first, end))
        for place, message in enumerate(messages[begin:], start=begin):
            self.lines.append(ConversationLine(message, turn, copied=place in copied))
        self._unanswered = keys

    def _replace_answer(self, choice: int) -> None:
        """Replace the first answer of the newest turn by the answer that was continued."""
        for place in range(len(self.lines) - 1, -1, -1):
            line = self.lines[place]
            if line.answer and line.turn is self.newest:
                self.lines[place] = ConversationLine(line.turn.answer(choice), line.turn, answer=True, choice=choice)
                return

    def tools(self) -> list[Tool]:
        """Return the tools that the conversation offers.

        If several tools have the same name, only the last of them is returned.
        """
        return [*{tool.name: tool for turn in self.turns for tool in turn.tools}.values()]


def conversations(trajectory: Trajectory, turns: Sequence[Turn]) -> list[Conversation]:
    """Return the conversations of some turns of a run, in the order in which they began."""
    result: list[Conversation] = []
    by_newest: dict[Turn | None, list[Conversation]] = defaultdict(list)  # None for those without an answer
    seen: dict[str | None, set[Hashable]] = {}
    relations = relations_of(trajectory)
    for turn in turns:
        call = turn.interaction
        candidates = result
        if turn.prompt_length:
            candidates = by_newest[turn.previous]
        conversation = _conversation_continued_by(turn, candidates)
        if conversation is None:
            agent = key_of_agent(call)
            conversation = Conversation(call.agent, call.agent_id, call.parent_agent_id)
            result.append(conversation)
            by_newest[None].append(conversation)
        else:
            agent = conversation.agent_key
        before = conversation.newest
        conversation.add(turn, seen.setdefault(agent, set()), relations)
        if conversation.newest is not before:
            by_newest[before].remove(conversation)
            by_newest[conversation.newest].append(conversation)
    for key in seen:
        _set_kinds([conversation for conversation in result if conversation.agent_key == key])
    return result


def _conversation_continued_by(turn: Turn, candidates: Sequence[Conversation]) -> Conversation | None:
    """Return the last of these conversations that a turn continues, or None.

    If the prompt of the turn is known, only a conversation with the right newest answer can be continued.
    """
    agent, latest = key_of_agent(turn.interaction), candidates[::-1]
    own = (known for known in latest if known.agent_key == agent and known.is_continued_by(turn))
    resumed = (known for known in latest if known.is_resumed_by(turn))
    return next(chain(own, resumed), None)


def _set_kinds(own: Sequence[Conversation]) -> None:
    """Set the kinds of an agent's conversations.

    In the agent's longest chain, the first conversation gets the kind "first", and each later conversation "continues".
    Conversations of all other chains get the kind "apart".
    """
    turns = Counter(conversation.chain_start for conversation in own for _ in conversation.turns)
    offered = {conversation.chain_start for conversation in own if conversation.tools()}
    main = max(turns, key=lambda start: (turns[start], start in offered), default=None)
    kinds: Iterator[ConversationKind] = chain(("first",), repeat("continues"))
    for conversation in own:
        conversation.kind = "apart"
        if conversation.chain_start is main:
            conversation.kind = next(kinds)


def lines_with_results(
    conversation: Conversation, steps: Mapping[Turn, Sequence[AgentStep]]
) -> Iterator[ConversationLine]:
    """Yield the lines of a conversation.

    A tool result that only a step has comes after the answer that requested the tool.
    """
    shown = {line.message.call_id for line in conversation.lines if line.message.role == "tool"}
    for line in conversation.lines:
        yield line
        if not line.answer:
            continue
        for result in chain.from_iterable(step.tool_results for step in steps.get(line.turn, ())):
            if result.call_id not in shown:
                yield ConversationLine(message_of_result(result), line.turn)
