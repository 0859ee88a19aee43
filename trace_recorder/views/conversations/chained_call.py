"""One LLM interaction in its place: what it goes on from, and what is new in it; `call_chains.py` finds that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload, Tool
from trace_recorder.values.trajectory import AgentStep

Relation = Literal["begins", "extends", "refers", "edits", "rewrites"]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One interaction in its place.

    `before` is the turn that it goes on from, and `choice` the number of that turn's answer, of which there may be
    several; `exact` is whether the model saw that turn's prompt and answer just as they were. `kept` is how many of its
    own messages stand there up to and with that answer, of `size` in all; the first `instructions` of them hold for
    this request alone. `end` is how many utterances its whole prompt and its answer are.

    `shown` is what follows that answer, and `news` what no earlier prompt of its agent said; results have the call ids
    of the recorded answer. `other_instructions` is whether the model was instructed otherwise than before.
    """

    interaction: LLMInteraction
    relation: Relation
    before: Turn | None = None
    choice: int = 0
    exact: bool = False
    kept: int = 0
    size: int = 0
    instructions: int = 0
    end: int = 0
    shown: tuple[Message, ...] = ()
    news: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    parameters: dict[str, Payload] = field(default_factory=dict)
    other_instructions: bool = False
    began_with: Turn | None = None

    @property
    def began(self) -> Turn:
        """The turn with which the run of calls began that this one belongs to."""
        return self.began_with or self

    @property
    def answered(self) -> bool:
        """Whether the model said anything."""
        one = self.interaction
        return one.answered and not (one.error and _is_silent(one.response))

    @property
    def whole(self) -> bool:
        """Whether the prompt is known, and the answer came to its end."""
        one = self.interaction
        return self.answered and one.complete and one.error is None and one.source.has_request()

    def answer(self, choice: int = 0) -> Message:
        """What the model said, as a message."""
        return answer_of(self.interaction.response, choice)

    def messages(self) -> list[Message]:
        """Everything that the model saw, be it sent with this request or with those that it refers to.

        The instructions of an earlier request are not carried over: the newest ones stand first, once.
        """
        chain: list[Turn] = [self]
        while chain[-1].relation == "refers" and chain[-1].before is not None:
            chain.append(chain[-1].before)
        messages = self.interaction.input_messages
        if len(chain) == 1:
            return messages
        seen = messages[: self.instructions]
        for turn in reversed(chain[1:]):
            seen += [*turn.interaction.input_messages[turn.instructions :], turn.answer()]
        return seen + messages[self.instructions :]


def agent_of(one: LLMInteraction | AgentStep) -> str | None:
    """By what the calls and steps of one agent are known: its own id in the run, or where there is none, its name."""
    return one.agent_id or one.agent


def choice_of(response: LLMResponse, choice: int = 0) -> LLMResponse | Choice:
    """Give the answer of this number; where there is none, the first."""
    return response.choices[choice] if 0 < choice < len(response.choices) else response


def answer_of(response: LLMResponse, choice: int = 0) -> Message:
    """Make a message of an answer."""
    said = choice_of(response, choice)
    return Message("assistant", said.content, said.tool_calls, reasoning=said.reasoning)


def _is_silent(response: LLMResponse) -> bool:
    return not (response.content or response.reasoning or response.tool_calls)
