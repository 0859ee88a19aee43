"""The new messages of a prompt: calls repeat the conversation, and people want to read each message once.

A prompt is compared with an earlier one of its chain of calls (`views/conversations/call_chains.py`): of the last few,
the one with which it has the most messages in common. Of its other messages, the model's own answer and the tool
results have been shown before. What is left is new.

Two messages are equal where all their members are, but for cache marks, which move from call to call. The looser
equality in `views/conversations/normalized_messages.py` finds which call is continued; here a message that was changed
in any way is shown.
"""

from __future__ import annotations

import json
import operator
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from trace_recorder.cli.text_layout import pluralize, text_of
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolResult
from trace_recorder.views.content.cache_marks import without_cache_marks
from trace_recorder.views.content.parts import text_of as said_in

MAX_EARLIER_PROMPTS = 8
"""With how many earlier prompts of its chain a prompt is compared: of two forks, it continues the more similar one."""


@dataclass(frozen=True, slots=True)
class _EarlierPrompt:
    """A prompt that was shown: its name, its messages, and its answer."""

    name: str
    keys: Counter[str]
    answer: LLMResponse | None

    def similarity_to(self, keys: Counter[str]) -> tuple[int, int]:
        """Return how many messages both have in common; of two equals, the one with fewer others is more similar."""
        return (self.keys & keys).total(), -self.keys.total()


_NONE = _EarlierPrompt("", Counter(), None)


@dataclass(frozen=True, slots=True)
class NewMessages:
    """The new messages of a prompt, and a summary of the others."""

    summary: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with its answer.

    It is compared with the prompts of the first of its `runs`, and remembered in all of them. A prompt that `refers` to
    an earlier one does not repeat it.
    """

    name: str
    runs: Sequence[Hashable]
    messages: Sequence[Message]
    answer: LLMResponse | None
    refers: bool = False


class Prompts:
    """Finds the new messages of each prompt of a run, one prompt after another."""

    def __init__(self) -> None:
        self._earlier: dict[Hashable, deque[_EarlierPrompt]] = defaultdict(lambda: deque(maxlen=MAX_EARLIER_PROMPTS))
        self._results: set[tuple[str, str]] = set()

    def add_shown_results(self, results: Iterable[ToolResult]) -> None:
        """Remember tool results that have been shown."""
        self._results.update((one.call_id, text_of(one.error or one.result)) for one in results)

    def find_prompt_with_answer(self, run: Hashable, answer: LLMResponse) -> str | None:
        """Return the name of the prompt, of the last ones of a chain or of an agent, that has this answer."""
        earlier = reversed(self._earlier[run])
        return next((one.name for one in earlier if one.answer and _said(answer) == _said(one.answer)), None)

    def news(self, prompt: Prompt) -> NewMessages:
        """Return the new messages of a prompt, and remember it."""
        messages = prompt.messages
        keys = [_key(message) for message in messages]
        counts = Counter(keys)
        before = max(reversed(self._earlier[prompt.runs[0]]), key=lambda one: one.similarity_to(counts), default=_NONE)
        for run in prompt.runs:
            self._earlier[run].append(_EarlierPrompt(prompt.name, counts, prompt.answer))
        if not before.keys & counts:
            before = _EarlierPrompt(before.name, Counter(), before.answer)
        left = before.keys.copy()
        beyond = []
        for key, message in zip(keys, messages, strict=True):
            if left[key]:
                left[key] -= 1
            else:
                beyond.append(message)
        return self._describe(before, beyond, len(messages), 0 if prompt.refers else left.total())

    def _describe(self, before: _EarlierPrompt, beyond: list[Message], count: int, gone: int) -> NewMessages:
        is_answer = [_repeats(message, before.answer) for message in beyond]
        is_shown = [(message.call_id or "", text_of(message.content)) in self._results for message in beyond]
        known = map(operator.or_, is_answer, is_shown)
        new = [message for message, is_known in zip(beyond, known, strict=True) if not is_known]
        parts = [f"{count - len(beyond)} as in {before.name}"] if count > len(beyond) else []
        if any(is_answer):
            parts.append("its answer" if parts else f"the answer of {before.name}")
        if any(is_shown):
            parts.append(f"{pluralize(sum(is_shown), 'result')} shown above")
        if new and parts:
            parts.append(f"{len(new)} new")
        summary = ": ".join(filter(None, (pluralize(count, "message"), ", ".join(parts))))
        return NewMessages(summary + (f"; {gone} of {before.name} gone" if gone else ""), new)


def _key(message: Message) -> str:
    return json.dumps(without_cache_marks(message.to_document()), sort_keys=True)


def _repeats(message: Message, answer: LLMResponse | None) -> bool:
    """Whether a message is the model's own answer, sent back to it."""
    return answer is not None and message.role == "assistant" and _said(message) == _said(answer)


def _said(one: Message | LLMResponse) -> tuple[str, list[Payload]]:
    text = said_in(one) if isinstance(one, Message) else one.content or ""
    return text, [(call.name, call.arguments) for call in one.tool_calls]
