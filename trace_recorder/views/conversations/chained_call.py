"""A turn: one LLM interaction in its chain of calls, with what it continues and what is new in it.

`call_chains.py` finds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload, Tool
from trace_recorder.values.prompt_relation import Relation
from trace_recorder.values.trajectory import AgentStep


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One interaction in its chain of calls.

    `previous` is the turn that it continues, and `choice` the number of that turn's answer, which may have several.
    `exact` is True if the model saw the prompt and the answer of that turn unchanged.

    Its own prompt has `prompt_length` messages. The first `prefix_length` of them end with that answer. The first
    `instructions` of them apply to this request only. `normalized_length` is the number of normalized messages in its
    whole prompt and its answer.

    `appended` are the messages after that answer. `new_messages` are the messages that no earlier prompt of its agent
    had. Those at the positions `new_before_answer` come from before that answer. Results have the call ids of the
    recorded answer. `instructions_changed` is True if the model got other instructions than before.
    """

    interaction: LLMInteraction
    relation: Relation
    previous: Turn | None = None
    choice: int = 0
    exact: bool = False
    prefix_length: int = 0
    prompt_length: int = 0
    instructions: int = 0
    normalized_length: int = 0
    appended: tuple[Message, ...] = ()
    new_messages: tuple[Message, ...] = ()
    new_before_answer: range = range(0)
    tools: tuple[Tool, ...] = ()
    parameters: dict[str, Payload] = field(default_factory=dict)
    instructions_changed: bool = False
    in_chain_of: Turn | None = None

    @property
    def chain_start(self) -> Turn:
        """The first turn of the chain of calls that this one belongs to."""
        return self.in_chain_of or self

    @property
    def answered(self) -> bool:
        """Whether the model said anything."""
        one = self.interaction
        return one.answered and not (one.error and _is_silent(one.response))

    @property
    def was_made(self) -> bool:
        """Whether a model was asked. It was not if a replay or a fork gave the answer."""
        return not self.interaction.is_replayed

    @property
    def is_complete(self) -> bool:
        """Whether the prompt is known and the answer is complete."""
        one = self.interaction
        return self.answered and one.complete and one.error is None and one.source.has_request()

    def answer(self, choice: int = 0) -> Message:
        """Return what the model said, as a message."""
        return answer_of(self.interaction.response, choice)

    def messages(self) -> Sequence[Message]:
        """Return all messages that the model saw, sent with this request or with those that it refers to.

        Instructions of earlier requests are left out: only the newest ones come first.
        """
        chain: list[Turn] = [self]
        while chain[-1].relation == "refers" and chain[-1].previous is not None:
            chain.append(chain[-1].previous)
        messages = self.interaction.input_messages
        if len(chain) == 1:
            return messages
        seen = [*messages[: self.instructions]]
        for turn in reversed(chain[1:]):
            seen += [*turn.interaction.input_messages[turn.instructions :], turn.answer()]
        return [*seen, *messages[self.instructions :]]


def agent_key(source: LLMInteraction | AgentStep) -> str | None:
    """Return what identifies the agent of a call or a step: its id in the run, or its name if it has no id.

    It is always a text, also if a file of another tool has other JSON there.
    """
    key = source.agent_id or source.agent
    return key if key is None else str(key)


def choice_of(response: LLMResponse, choice: int = 0) -> LLMResponse | Choice:
    """Return the answer with this number, or the first answer if there is none."""
    return response.choices[choice] if 0 < choice < len(response.choices) else response


def answer_of(response: LLMResponse, choice: int = 0) -> Message:
    """Make a message of an answer."""
    said = choice_of(response, choice)
    return Message("assistant", said.content, said.tool_calls, reasoning=said.reasoning)


def _is_silent(response: LLMResponse) -> bool:
    return not (response.content or response.reasoning or response.tool_calls)
