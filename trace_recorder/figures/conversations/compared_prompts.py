"""Which messages of a prompt are new compared with an earlier prompt of its agent, and which messages are gone.

All code that shows new messages to people uses this module. A prompt is compared with the prompt of the call that it
continues, by the rule of `call_chains.py`. There is one exception: a recent prompt of the agent, such as the prompt of
a failed call, may share more messages. If the prompt begins with all of that recent prompt, the two are compared. A
prompt that continues no call is compared with the most similar recent prompt. The history of such a prompt counts as
changed only if answers of the model are gone, because independent calls share their instructions. A prompt that begins
a conversation, such as a request for a title, is new as a whole, unless it extends an earlier prompt.

Two messages are equal if their JSON is equal, apart from cache marks (`values/message_equality.py`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trace_recorder.figures.content.chat_form import text_of
from trace_recorder.figures.conversations.turn import Turn, agent_key
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import shown_key
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Choice, LLMResponse, Message
from trace_recorder.values.prompt_relation import Comparison, EarlierPrompts, Numbers, Relation, compare

_NOTHING = Comparison((), 0, ())


@dataclass(frozen=True, slots=True)
class ComparedPrompt:
    """A prompt, its relation to an earlier prompt, and its comparison with that earlier prompt.

    `base` is the id of the earlier prompt's call or step, or None if no earlier prompt shares a message with this
    prompt. `numbers` are the numbers of this prompt's messages. Equal messages have equal numbers.
    """

    numbers: Numbers
    relation: Relation
    base: str | None
    comparison: Comparison

    @property
    def gone(self) -> int:
        """The number of messages of the history that were removed or changed."""
        return 0 if self.relation in {"begins", "refers"} else len(self.comparison.gone)


class ComparedPrompts:
    """Compares the prompts of a run, one after another. `messages` gives equal messages equal numbers."""

    def __init__(self, messages: EqualMessages | None = None) -> None:
        self.messages = messages or EqualMessages(shown_key)
        self._earlier: dict[str | None, EarlierPrompts[str]] = defaultdict(EarlierPrompts)

    def begin_again(self) -> ComparedPrompts:
        """Return new `ComparedPrompts` without earlier prompts. Messages keep their numbers."""
        return ComparedPrompts(self.messages)

    def add_call(self, call: LLMInteraction, turn: Turn | None) -> ComparedPrompt:
        """Compare the prompt of a call. `turn` is None if the call is in no conversation."""
        earlier, numbers = self._earlier[agent_key(call)], self.messages.numbers_of(call.input_messages)
        previous = turn.previous if turn else None
        if turn is not None and previous is not None:
            prompt = self._compare_with_continued(previous, turn.relation, earlier, numbers)
        else:
            prompt = self._compare_with_similar(
                earlier, numbers, may_rewrite=turn is not None and turn.relation == "rewrites"
            )
            if turn is not None and turn.relation == "begins" and not prompt.comparison.extends:
                prompt = ComparedPrompt(numbers, "begins", None, compare(numbers[:0], numbers))
        if turn is not None:
            earlier.add(call.interaction_id, numbers)
        return prompt

    def add_step(self, name: str, agent: str | None, messages: Sequence[Message]) -> ComparedPrompt:
        """Compare the messages that an agent recorded in a step without a call."""
        earlier, numbers = self._earlier[agent], self.messages.numbers_of(messages)
        prompt = self._compare_with_similar(earlier, numbers, may_rewrite=True)
        earlier.add(name, numbers)
        has_history = prompt.relation == "begins" and prompt.comparison.gone and any(map(self._is_answer, numbers))
        return replace(prompt, relation="edits") if has_history else prompt

    def _compare_with_continued(
        self, previous: Turn, relation: Relation, earlier: EarlierPrompts[str], numbers: Numbers
    ) -> ComparedPrompt:
        """Compare a prompt with the prompt of the call that it continues."""
        name = previous.interaction.interaction_id
        before = self.messages.numbers_of(previous.interaction.input_messages)
        comparison = compare(before, numbers)
        other = None if relation == "refers" else earlier.extended_by(numbers, comparison.kept + 1)
        if other is None:
            return ComparedPrompt(numbers, relation, name, comparison)
        return ComparedPrompt(numbers, "extends", *other)

    def _compare_with_similar(
        self, earlier: EarlierPrompts[str], numbers: Numbers, *, may_rewrite: bool
    ) -> ComparedPrompt:
        """Compare a prompt with the most similar earlier prompt, because the prompt continues no call."""
        name, comparison = earlier.most_similar(numbers) or (None, _NOTHING)
        relation: Relation = "begins"
        if comparison.extends:
            relation = "extends"
        elif may_rewrite and any(map(self._is_answer, comparison.gone)):
            relation = "rewrites"
        if name is None:
            comparison = compare(numbers[:0], numbers)
        return ComparedPrompt(numbers, relation, name, comparison)

    def _is_answer(self, number: int) -> bool:
        return self.messages.messages[number].role == "assistant"


def answer_text(answer: Message | LLMResponse | Choice) -> str:
    """Return an answer as text.

    The text is the same for the answer and for the message in which the agent sends the answer back.
    """
    text = text_of(answer) if isinstance(answer, Message) else answer.content or ""
    return json.dumps([text, [(call.name, call.arguments) for call in answer.tool_calls]], sort_keys=True)
