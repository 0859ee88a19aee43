"""What is new in a prompt: an agent's calls repeat the conversation, and people want to read each message once.

A prompt is compared with one before it in its own chain of calls (`views/conversations/call_chains.py`): of the last
few, the one with which it has the most messages in common. Of what it has beyond that, the model's own answer and
the tool results were shown where they arose. What is left is new. Marks for a provider's cache move from call to call
and make no message another.
"""

from __future__ import annotations

import json
import operator
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from trace_recorder.cli.text_layout import pluralize, text_of
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolResult
from trace_recorder.views.content.parts import text_of as said_in

MAX_EARLIER_PROMPTS = 8
"""How many earlier prompts of its run one may continue: of two that fork, the nearer one."""


@dataclass(frozen=True, slots=True)
class _EarlierPrompt:
    """A prompt that was shown: whose it was, its messages, and the answer to it."""

    name: str
    keys: Counter[str]
    answer: LLMResponse | None

    def similarity_to(self, keys: Counter[str]) -> tuple[int, int]:
        """How much another prompt has of this one; of two of which it has as much, the one that has less is nearer."""
        return (self.keys & keys).total(), -self.keys.total()


_NONE = _EarlierPrompt("", Counter(), None)


@dataclass(frozen=True, slots=True)
class NewMessages:
    """What a prompt brings: in a few words, and the messages that were not there before."""

    summary: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and what was answered to it.

    It is held against those of the first of its `runs`, and remembered in all of them. One that `refers` to an earlier
    one does not repeat it.
    """

    name: str
    runs: Sequence[Hashable]
    messages: Sequence[Message]
    answer: LLMResponse | None
    refers: bool = False


class Prompts:
    """Takes the prompts of a run one after another, and says of each what is new."""

    def __init__(self) -> None:
        self._earlier: dict[Hashable, deque[_EarlierPrompt]] = defaultdict(lambda: deque(maxlen=MAX_EARLIER_PROMPTS))
        self._results: set[tuple[str, str]] = set()

    def add_shown_results(self, results: Iterable[ToolResult]) -> None:
        """Hear of tool results that people have seen."""
        self._results.update((one.call_id, text_of(one.error or one.result)) for one in results)

    def find_prompt_with_answer(self, run: Hashable, answer: LLMResponse) -> str | None:
        """Whose answer this is, if it was given to one of the last prompts of a run of calls, or of an agent."""
        earlier = reversed(self._earlier[run])
        return next((one.name for one in earlier if one.answer and _said(answer) == _said(one.answer)), None)

    def news(self, prompt: Prompt) -> NewMessages:
        """Take a prompt; say what is new in it."""
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
        echoes = [_repeats(message, before.answer) for message in beyond]
        shown = [(message.call_id or "", text_of(message.content)) in self._results for message in beyond]
        known = list(map(operator.or_, echoes, shown))
        new = [message for message, is_known in zip(beyond, known, strict=True) if not is_known]
        parts = [f"{count - len(beyond)} as in {before.name}"] if count > len(beyond) else []
        parts += ["its answer" if parts else f"the answer of {before.name}"] if any(echoes) else []
        parts += [f"{pluralize(sum(shown), 'result')} shown above"] if any(shown) else []
        parts += [f"{len(new)} new"] if new and parts else []
        lost = f"; {gone} of {before.name} gone" if gone else ""
        return NewMessages(pluralize(count, "message") + (f": {', '.join(parts)}" if parts else "") + lost, new)


def _key(message: Message) -> str:
    return json.dumps(_without_cache_marks(message.to_document()), sort_keys=True)


def _without_cache_marks(value: Payload) -> Payload:
    """Leave out marks for the cache, and what only they made: a text that stands as the only part, an empty extra."""
    if isinstance(value, list):
        parts = [_without_cache_marks(part) for part in value]
        only = parts[0] if len(parts) == 1 else None
        return only["text"] if isinstance(only, dict) and only.keys() == {"type", "text"} else parts
    if isinstance(value, dict):
        members = {name: _without_cache_marks(member) for name, member in value.items() if name != "cache_control"}
        return {name: member for name, member in members.items() if member != {}}
    return value


def _repeats(message: Message, answer: LLMResponse | None) -> bool:
    """Whether a message is the model's own answer, given back to it."""
    return answer is not None and message.role == "assistant" and _said(message) == _said(answer)


def _said(one: Message | LLMResponse) -> tuple[str, list[Payload]]:
    text = said_in(one) if isinstance(one, Message) else one.content or ""
    return text, [(call.name, call.arguments) for call in one.tool_calls]
