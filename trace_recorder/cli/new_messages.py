"""The new messages of a prompt. Calls repeat the conversation, but people want to read each message once.

`views/conversations/compared_prompts.py` says which messages an earlier prompt has. The model's own answer and the tool
results have been shown before too. All other messages are new.
"""

from __future__ import annotations

import operator
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trace_recorder.cli.text_layout import pluralize, text_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, ToolResult
from trace_recorder.values.prompt_relation import MAX_EARLIER_PROMPTS
from trace_recorder.views.conversations.compared_prompts import ComparedPrompt, ComparedPrompts, answer_text
from trace_recorder.views.conversations.turn import Turn, agent_key

_NamedAnswers = deque[tuple[str, LLMResponse]]
"""The answers of calls and steps, each with the name of its prompt."""


@dataclass(frozen=True, slots=True)
class NewMessages:
    """The new messages of a prompt, and a summary of the others."""

    summary: str
    messages: list[Message]


class ShownPrompts:
    """The prompts of a run that were shown so far. With each next prompt, it finds the new messages of that prompt."""

    def __init__(self) -> None:
        self._prompts = ComparedPrompts()
        self._answers: dict[str, LLMResponse] = {}
        self._newest: dict[str | None, _NamedAnswers] = defaultdict(lambda: deque(maxlen=MAX_EARLIER_PROMPTS))
        self._results: set[tuple[str, str]] = set()

    def add_shown_results(self, results: Iterable[ToolResult]) -> None:
        """Remember tool results that have been shown."""
        self._results.update((result.call_id, text_of(result.error or result.result)) for result in results)

    def find_prompt_with_answer(self, agent: str | None, answer: LLMResponse) -> str | None:
        """Return the name of the agent's recent prompt that got this answer, or None."""
        answers = reversed(self._newest[agent])
        return next((name for name, other in answers if answer_text(answer) == answer_text(other)), None)

    def of_call(self, call: LLMInteraction, turn: Turn | None) -> NewMessages:
        """Return the new messages of a call. `turn` is its place in a conversation, if it has one."""
        prompt = self._prompts.add_call(call, turn)
        new_messages = self._new_messages(prompt, call.input_messages, _stored_call_continued_by(turn))
        if call.answered:
            self._remember(agent_key(call), call.interaction_id, call.response)
        return new_messages

    def of_step(
        self, name: str, agent: str | None, messages: Sequence[Message], answer: LLMResponse | None
    ) -> NewMessages:
        """Return the new messages of a step without a call."""
        new_messages = self._new_messages(self._prompts.add_step(name, agent, messages), messages)
        if answer is not None:
            self._remember(agent, name, answer)
        return new_messages

    def _remember(self, agent: str | None, name: str, answer: LLMResponse) -> None:
        self._answers[name] = answer
        self._newest[agent].append((name, answer))

    def _new_messages(self, prompt: ComparedPrompt, messages: Sequence[Message], continued: str = "") -> NewMessages:
        """Return the messages of a prompt that were not shown before, and describe the others in the summary."""
        common, name = prompt.comparison.kept, prompt.base
        answer = self._answers.get(name or "")
        text = None if answer is None else answer_text(answer)
        added = [messages[position] for position in prompt.comparison.new]
        is_answer = [message.role == "assistant" and answer_text(message) == text for message in added]
        is_shown = [(message.call_id or "", text_of(message.content)) in self._results for message in added]
        known = map(operator.or_, is_answer, is_shown)
        new = [message for message, is_known in zip(added, known, strict=True) if not is_known]
        results = sum(is_shown)
        parts = [
            *([f"{common} as in {name}"] * (common > 0)),
            *(["its answer" if common else f"the answer of {name}"] * any(is_answer)),
            *([f"{pluralize(results, 'result')} shown above"] * (results > 0)),
        ]
        parts += [f"{len(new)} new"] * bool(new and parts)
        count = pluralize(len(messages), "message") + (f" continuing {continued}" if continued else "")
        summary = ": ".join(filter(None, (count, ", ".join(parts))))
        gone = prompt.gone if common else 0
        return NewMessages(summary + (f"; {gone} of {name} gone" if gone else ""), new)


def _stored_call_continued_by(turn: Turn | None) -> str:
    """Return the id of the call that a request continues by the id of its response, or an empty text.

    The server stores such a response, so the request does not repeat the conversation.
    """
    refers = turn is not None and turn.relation == "refers" and turn.interaction.api is not None
    return turn.previous.interaction.interaction_id if turn and turn.previous and refers else ""
