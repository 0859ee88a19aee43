"""A turn: one LLM interaction, the earlier turn that it continues, and its new messages.

`call_chains.py` makes the turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload, Tool
from trace_recorder.values.prompt_comparison import Relation
from trace_recorder.values.structs import Struct, field
from trace_recorder.values.trajectory import AgentStep


class Turn(Struct, frozen=True, eq=False):  # with `gc=False`, to free a long chain would be a deep recursion
    """One interaction in its chain of calls.

    `previous` is the turn that this turn continues. A call may have several answers, and `choice` is the index of the
    answer that was continued. `exact` is True if the model saw the prompt and the answer of `previous` unchanged.

    The prompt of this turn has `prompt_length` messages. The first `prefix_length` messages end with the continued
    answer. The first `instructions` messages apply to this request only. `normalized_length` is the number of
    normalized messages in the whole prompt and the answer.

    `appended` are the messages after the continued answer. `new_messages` are the messages that no earlier prompt of
    the turn's agent had. The new messages at the positions `new_before_answer` come before the continued answer in the
    prompt. In `appended` and `new_messages`, the results of the continued answer's tools have the call ids of the
    recorded answer. The request may have different ids. `instructions_changed` is True if the model got other
    instructions than before.
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
    appended: Sequence[Message] = ()
    new_messages: tuple[Message, ...] = ()
    new_before_answer: range = range(0)
    tools: tuple[Tool, ...] = ()
    parameters: dict[str, Payload] = field(default_factory=dict)
    instructions_changed: bool = False
    in_chain_of: Turn | None = None

    @property
    def chain_start(self) -> Turn:
        """The first turn of the chain of calls that this turn belongs to."""
        return self.in_chain_of or self

    @property
    def answered(self) -> bool:
        """Whether there is an answer of the model, or at least a part of an answer."""
        call, response = self.interaction, self.interaction.response
        has_content = response.content or response.reasoning or response.tool_calls
        return call.answered and (call.error is None or bool(has_content))

    @property
    def was_made(self) -> bool:
        """Whether a model was asked. The value is False if a replay or a fork gave the answer."""
        return not self.interaction.is_replayed

    @property
    def is_complete(self) -> bool:
        """Whether the prompt is known and the answer is complete."""
        call = self.interaction
        return self.answered and call.complete and call.error is None and call.source.has_request()

    def answer(self, choice: int = 0) -> Message:
        """Return the answer of the model, as a message."""
        return answer_of(self.interaction.response, choice)

    def messages(self) -> Sequence[Message]:
        """Return all messages that the model saw: the messages of this request, and of the requests that it refers to.

        Instructions of earlier requests are left out. The instructions of this request come first.
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


def key_of_agent(source: LLMInteraction | AgentStep) -> str | None:
    """Return the key of the agent that made a call or a step: its id in the run, or its name if it has no id.

    The key is always a text, even if a file of another tool has any other JSON value as the id or the name.
    """
    key = source.agent_id or source.agent
    if key is None:
        return None
    return str(key)


def choice_of(response: LLMResponse, choice: int = 0) -> LLMResponse | Choice:
    """Return the answer with the index `choice`, or the first answer if there is no such answer."""
    if 0 < choice < len(response.choices):
        return response.choices[choice]
    return response


def answer_of(response: LLMResponse, choice: int = 0) -> Message:
    """Return an answer as a message."""
    answer = choice_of(response, choice)
    return Message("assistant", answer.content, answer.tool_calls, reasoning=answer.reasoning)
