"""Turns: the LLM interactions of a run, and which of them goes on from which.

A call's prompt may begin with an earlier call's whole prompt and its answer: it *extends* that one. It may name the
earlier one instead of repeating it (`previous_response_id`; an agent that records only its newest messages): it
*refers* to it. A prompt that does neither *begins* a conversation, or *rewrites* one that its agent had, as
compaction does. Messages are the same where they say the same: marks for a cache, thoughts that are not sent back,
and what a server's own tools left behind make no difference.

Nothing is kept of a prompt but one digest a message, so that a run of any length fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from trace_recorder.conversation import (
    NO_RESPONSE,
    Choice,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolResult,
)
from trace_recorder.trajectory import AgentStep, ErrorInfo, LLMInteraction, Trajectory
from trace_recorder.views.parts import Image, Text, parts_of

Relation = Literal["begins", "extends", "refers", "rewrites"]
_PREVIOUS = ("previous_response_id", "previous_interaction_id")
_START = b"\0" * 16


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One interaction in its place.

    `before` is the turn that it extends or refers to, and `choice` the number of that turn's answer, of which there
    may be several. `kept` is how many of its own messages repeat that turn's prompt and answer, of `size` in all; `end`
    is how many utterances its whole prompt and its answer are.
    """

    interaction: LLMInteraction
    relation: Relation
    before: Turn | None = None
    choice: int = 0
    kept: int = 0
    size: int = 0
    end: int = 0
    tools: tuple[Tool, ...] = ()
    parameters: dict[str, Payload] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """Whether the model said anything."""
        one = self.interaction
        return one.answered and not (one.error and _is_silent(one.response))

    @property
    def whole(self) -> bool:
        """Whether the prompt is known, and the answer came to its end."""
        one = self.interaction
        return self.answered and one.complete and one.error is None and one.source.is_whole()

    def answer(self, choice: int = 0) -> Message:
        """What the model said, as a message."""
        return answer_of(self.interaction.response, choice)

    def messages(self) -> list[Message]:
        """Everything that the model saw, be it sent with this request or with those that it refers to."""
        chain: list[Turn] = [self]
        while chain[-1].relation == "refers" and chain[-1].before is not None:
            chain.append(chain[-1].before)
        seen: list[Message] = []
        for turn in reversed(chain):
            seen += turn.interaction.input_messages
            if turn is not self:
                seen.append(turn.answer())
        return seen


def agent_of(one: LLMInteraction | AgentStep) -> str | None:
    """By what the calls and steps of one agent are known: its own id in the run, or where there is none, its name."""
    return one.agent_id or one.agent


def answer_of(response: LLMResponse, choice: int = 0) -> Message:
    """Make a message of an answer."""
    several: tuple[LLMResponse | Choice, ...] = (response, *response.choices[1:])
    said = several[choice if choice < len(several) else 0]
    return Message("assistant", said.content, said.tool_calls, reasoning=said.reasoning)


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """Give the turns of a run in the order of time; of one that recorded no calls, those that its steps tell of."""
    placing = _Placing()
    return [placing.place(one) for one in interactions_of(trajectory)]


def interactions_of(trajectory: Trajectory) -> list[LLMInteraction]:
    """Give the calls that are conversations. Where none was recorded, each step is taken for one."""
    calls = [one for one in trajectory.llm_interactions if one.api != "embeddings"]
    if calls or trajectory.llm_interactions:
        return calls
    return [_told(number, step) for number, step in enumerate(trajectory.agent_steps, start=1)]


@dataclass(frozen=True, slots=True)
class _Told:
    """What a step that stands alone tells of its call: nothing raw."""

    messages: list[Message]
    new_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return RequestReading(self.messages)

    def offer(self) -> RequestReading:
        return self.request()

    def is_whole(self) -> bool:
        return bool(self.messages)

    def raw_request(self) -> Payload:
        return None

    def raw_response(self) -> Payload:
        return None

    def raw_stream(self) -> str | None:
        return None

    def raw_chunks(self) -> None:
        return None


def _told(number: int, step: AgentStep) -> LLMInteraction:
    response = step.llm_response
    if step.tool_calls and not (response and response.tool_calls):
        response = LLMResponse(response.content if response else None, tool_calls=tuple(step.tool_calls))
    return LLMInteraction(
        interaction_id=f"step_{number}",
        timestamp=step.timestamp,
        provider=None,
        model=response.model if response else None,
        source=_Told(list(step.messages or ())),
        step_number=step.step_number,
        agent=step.agent,
        agent_id=step.agent_id,
        parent_agent_id=step.parent_agent_id,
        response=response or NO_RESPONSE,
        error=ErrorInfo("error", step.error) if step.error else None,
    )


def _is_silent(response: LLMResponse) -> bool:
    return not (response.content or response.reasoning or response.tool_calls)


# ── which goes on from which ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Placing:
    """Places interactions one after another.

    `ends` finds a turn, and which of its answers, by what was said so far; `own_ends` those of an agent, which come
    first: agents at once may be asked the same and say the same.
    """

    ends: dict[bytes, tuple[Turn, int]] = field(default_factory=dict)
    own_ends: dict[tuple[str | None, bytes], tuple[Turn, int]] = field(default_factory=dict)
    end_of: dict[Turn, bytes] = field(default_factory=dict)
    by_id: dict[str, Turn] = field(default_factory=dict)
    last: dict[str | None, Turn] = field(default_factory=dict)
    instructed: set[str | None] = field(default_factory=set)

    def place(self, one: LLMInteraction) -> Turn:
        """Say what an interaction goes on from, and remember it for those that come."""
        reading = one.source.request()
        messages = reading.messages
        found = _Found("refers", self._named(one, reading.parameters))
        said = [*said_in(messages, self.end_of[found.before])] if found.before else [*said_in(messages)]
        if found.before is None:
            found = self._found(one, messages, said)
            if found.relation == "refers" and found.before:
                said = [*said_in(messages, self.end_of[found.before])]
        start, count = _START, len(said)
        if found.relation == "refers" and found.before:
            start, count = self.end_of[found.before], count + found.before.end
        ends = [_after(messages, said, start, answer) for answer in _answers(one)]
        turn = Turn(
            one,
            found.relation,
            found.before,
            found.choice,
            kept=found.kept,
            size=len(messages),
            end=count + (ends[0][1] if ends else 0),
            tools=tuple(reading.tools),
            parameters=reading.parameters,
        )
        self._remember(turn, messages, [state for state, _ in ends])
        return turn

    def _found(self, one: LLMInteraction, messages: list[Message], said: list[tuple[int, bytes]]) -> _Found:
        agent = agent_of(one)
        for end, state in reversed(said):
            before = self.own_ends.get((agent, state)) or self.ends.get(state)
            if before is not None:
                return _Found("extends", *before, kept=end)
        last = self.last.get(agent)
        if last is None:
            return _Found("begins")
        return _Found("refers", last) if self._is_news(one, messages, last) else _Found("rewrites")

    def _named(self, one: LLMInteraction, parameters: Mapping[str, Payload]) -> Turn | None:
        """The turn that a request names as the one that it goes on from."""
        if one.api is None:
            return None
        names = [name for key, name in parameters.items() if key in _PREVIOUS and isinstance(name, str)]
        return next((self.by_id[name] for name in names if name in self.by_id), None)

    def _is_news(self, one: LLMInteraction, messages: Sequence[Message], last: Turn) -> bool:
        """Whether an agent that records by hand gave only what is new.

        That is so where it begins with the answer to a tool call of the last turn; or, where that made none, has
        neither instructions, though there were some at the beginning, nor anything that the model said.
        """
        if one.api is not None or not messages or any(message.role == "assistant" for message in messages):
            return False
        asked = {call.call_id for call in last.answer().tool_calls}
        if asked:
            return messages[0].role == "tool" and messages[0].call_id in asked
        return agent_of(one) in self.instructed and not _has_instructions(messages)

    def _remember(self, turn: Turn, messages: Sequence[Message], ends: list[bytes]) -> None:
        one = turn.interaction
        agent = agent_of(one)
        if _has_instructions(messages):
            self.instructed.add(agent)
        if not turn.answered:
            return
        self.last[agent] = turn
        self.end_of[turn] = ends[0]
        for number, end in reversed([*enumerate(ends)]):
            self.ends[end] = self.own_ends[agent, end] = turn, number
        if one.response.id:
            self.by_id[one.response.id] = turn


@dataclass(frozen=True, slots=True)
class _Found:
    """What an interaction goes on from."""

    relation: Relation
    before: Turn | None = None
    choice: int = 0
    kept: int = 0


def _after(
    messages: Sequence[Message], said: list[tuple[int, bytes]], start: bytes, answer: Message
) -> tuple[bytes, int]:
    """The digest of all that was said when an answer was there, and how many utterances it added."""
    if messages and messages[-1].role == "assistant":  # an answer that was begun for the model
        after = [*said_in([*messages, answer], start)]
        return after[-1][1] if after else start, len(after) - len(said)
    [*added] = said_in([answer], said[-1][1] if said else start)
    return (added[-1][1] if added else said[-1][1] if said else start), len(added)


def _answers(one: LLMInteraction) -> list[Message]:
    if not one.answered:
        return []
    return [answer_of(one.response, number) for number in range(max(1, len(one.response.choices)))]


def _has_instructions(messages: Iterable[Message]) -> bool:
    return any(message.role in {"system", "developer"} for message in messages)


def said_in(messages: Sequence[Message], start: bytes = _START) -> Iterator[tuple[int, bytes]]:
    """Give, after each utterance, at which message it ends, and a digest of all that was said so far.

    What an assistant says in several messages one after the other is one utterance, and silence is none.
    """
    state = start
    for _, end, said in utterances(messages):
        state = blake2b(state + said, digest_size=16).digest()
        yield end, state


def utterances(messages: Sequence[Message]) -> Iterator[tuple[int, int, bytes]]:
    """Give each utterance: the messages from where to where, and a digest of what they say."""
    begin = 0
    while begin < len(messages):
        end = begin + 1
        if messages[begin].role == "assistant":
            while end < len(messages) and messages[end].role == "assistant":
                end += 1
        said = _said(messages[begin:end])
        if said is not None:
            yield begin, end, said
        begin = end


def _said(messages: Sequence[Message]) -> bytes | None:
    """A digest of what messages say, in the form in which those of all dialects can be held against each other."""
    role = "system" if messages[0].role == "developer" else messages[0].role
    parts = [part for message in messages for part in parts_of(message)]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    calls = [[call.call_id, call.name, call.arguments] for message in messages for call in message.tool_calls]
    if role == "assistant" and not (text or calls):
        return None
    about: list[Payload] = [role, messages[0].call_id if role == "tool" else None, calls, len(text)]
    others = [part for part in parts if not isinstance(part, Text)] if role != "assistant" else []
    digest = blake2b(json.dumps(about).encode(), digest_size=16)
    for said in (text, *map(_shown, others)):
        digest.update(said.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _shown(part: Payload) -> str:
    return part.address if isinstance(part, Image) else json.dumps(part.raw, sort_keys=True)
