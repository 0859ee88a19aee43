"""What is new in a prompt: an agent's calls repeat the conversation, and people want to read each message once.

A prompt continues the earlier one, of the last few, with which it has the most messages in common. Of what it has
beyond that, the model's own answer and the tool results were shown where they arose. What is left is new. Marks for a
provider's cache move from call to call and make no message another.
"""

from __future__ import annotations

import json
import operator
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trace_recorder.cli.terminal import counted, text_of
from trace_recorder.conversation import LLMResponse, Message, Payload, ToolCall, ToolResult

REMEMBERED = 8
"""How many earlier prompts one may continue; sub-agents that take turns need more than one."""


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A prompt that was shown: whose it was, its messages, and the answer to it."""

    name: str
    keys: Counter[str]
    answer: LLMResponse | None


@dataclass(frozen=True, slots=True)
class News:
    """What a prompt brings: in a few words, and the messages that were not there before."""

    summary: str
    messages: list[Message]


class Prompts:
    """Takes the prompts of a run one after another, and says of each what is new."""

    def __init__(self) -> None:
        self._earlier: deque[_Earlier] = deque(maxlen=REMEMBERED)
        self._results: set[tuple[str, str]] = set()

    def results_shown(self, results: Iterable[ToolResult]) -> None:
        """Hear of tool results that people have seen."""
        self._results.update((one.call_id, text_of(one.error or one.result)) for one in results)

    def whose(self, answer: LLMResponse) -> str | None:
        """Whose answer this is, if it was given to one of the last prompts."""
        return next((one.name for one in reversed(self._earlier) if one.answer and _says(answer, one.answer)), None)

    def news(self, name: str, messages: Sequence[Message], answer: LLMResponse | None) -> News:
        """Take the prompt of `name`, which was answered so; say what is new in it."""
        keys = [_key(message) for message in messages]
        counts = Counter(keys)
        before = max(reversed(self._earlier), key=lambda one: (one.keys & counts).total(), default=None)
        self._earlier.append(_Earlier(name, counts, answer))
        if before is None or not before.keys & counts:
            return News(counted(len(messages), "message"), list(messages))
        left = before.keys.copy()
        beyond = []
        for key, message in zip(keys, messages, strict=True):
            if left[key]:
                left[key] -= 1
            else:
                beyond.append(message)
        return self._against(before, beyond, len(messages), left.total())

    def _against(self, before: _Earlier, beyond: list[Message], all_of_them: int, gone: int) -> News:
        echoes = [_repeats(message, before.answer) for message in beyond]
        shown = [(message.call_id or "", text_of(message.content)) in self._results for message in beyond]
        known = list(map(operator.or_, echoes, shown))
        new = [message for message, is_known in zip(beyond, known, strict=True) if not is_known]
        parts = [f"{all_of_them - len(beyond)} as in {before.name}"]
        parts += ["its answer"] if any(echoes) else []
        parts += [f"{counted(sum(shown), 'result')} shown above"] if any(shown) else []
        parts += [f"{len(new)} new"] if new else []
        lost = f"; {gone} of {before.name} gone" if gone else ""
        return News(f"{counted(all_of_them, 'message')}: {', '.join(parts)}{lost}", new)


def _key(message: Message) -> str:
    return json.dumps(_unmarked(message.to_document()), sort_keys=True)


def _unmarked(value: Payload) -> Payload:
    """Leave out marks for the cache, and what only they made: a text that stands as the only part, an empty extra."""
    if isinstance(value, list):
        parts = [_unmarked(part) for part in value]
        only = parts[0] if len(parts) == 1 else None
        return only["text"] if isinstance(only, dict) and only.keys() == {"type", "text"} else parts
    if isinstance(value, dict):
        members = {name: _unmarked(member) for name, member in value.items() if name != "cache_control"}
        return {name: member for name, member in members.items() if member != {}}
    return value


def _repeats(message: Message, answer: LLMResponse | None) -> bool:
    """Whether a message is the model's own answer, given back to it."""
    if answer is None or message.role != "assistant":
        return False
    return text_of(message.content) == (answer.content or "") and _calls(message.tool_calls) == _calls(
        answer.tool_calls
    )


def _says(answer: LLMResponse, other: LLMResponse) -> bool:
    return (answer.content, _calls(answer.tool_calls)) == (other.content, _calls(other.tool_calls))


def _calls(calls: Sequence[ToolCall]) -> list[Payload]:
    return [(call.name, call.arguments) for call in calls]
