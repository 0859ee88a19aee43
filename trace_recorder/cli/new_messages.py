"""The new messages of a prompt: calls repeat the conversation, and people want to read each message once.

A prompt is compared with an earlier one of its chain of calls (`views/conversations/call_chains.py`): of the last few,
the one with which it has the most messages in common. Of its other messages, the model's own answer and the tool
results have been shown before. What is left is new. What two prompts begin with is shared, and not compared.

A message that was changed in any way, but for cache marks, is shown (`views/content/distinct_messages.py`).
"""

from __future__ import annotations

import operator
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from trace_recorder.cli.text_layout import pluralize, text_of
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolResult
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.views.content.distinct_messages import DistinctMessages, messages_beyond
from trace_recorder.views.content.parts import text_of as said_in

MAX_EARLIER_PROMPTS = 8
"""With how many earlier prompts of its chain a prompt is compared: of two forks, it continues the more similar one."""


@dataclass(frozen=True, slots=True)
class _EarlierPrompt:
    """A prompt that was shown: its name, its messages, and its answer."""

    name: str
    messages: SharedSequence[Message]
    answer: LLMResponse | None


_NONE = _EarlierPrompt("", SharedSequence(), None)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A prompt compared with an earlier one, `before`.

    `common` is how many messages both have, `left` how many only the earlier one has; `beyond` has only the new one.
    """

    before: _EarlierPrompt
    common: int
    beyond: list[Message]
    left: int

    @property
    def rank(self) -> tuple[int, int]:
        """The more messages both have in common, the higher; of two equals, that of the shorter one is higher."""
        return self.common, -len(self.before.messages)


@dataclass(frozen=True, slots=True)
class NewMessages:
    """The new messages of a prompt, and a summary of the others."""

    summary: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with its answer.

    It is compared with the prompts of the first of its `runs`, and remembered in all of them. A prompt that `refers` to
    an earlier one does not repeat it; `continues` is the name of that one where the request itself says which it is.
    """

    name: str
    runs: Sequence[Hashable]
    messages: Sequence[Message]
    answer: LLMResponse | None
    refers: bool = False
    continues: str = ""


class Prompts:
    """Finds the new messages of each prompt of a run, one prompt after another."""

    def __init__(self) -> None:
        self._earlier: dict[Hashable, deque[_EarlierPrompt]] = defaultdict(lambda: deque(maxlen=MAX_EARLIER_PROMPTS))
        self._results: set[tuple[str, str]] = set()
        self._distinct = DistinctMessages()

    def add_shown_results(self, results: Iterable[ToolResult]) -> None:
        """Remember tool results that have been shown."""
        self._results.update((one.call_id, text_of(one.error or one.result)) for one in results)

    def find_prompt_with_answer(self, run: Hashable, answer: LLMResponse) -> str | None:
        """Return the name of the prompt, of the last ones of a chain or of an agent, that has this answer."""
        earlier = reversed(self._earlier[run])
        return next((one.name for one in earlier if one.answer and _said(answer) == _said(one.answer)), None)

    def news(self, prompt: Prompt) -> NewMessages:
        """Return the new messages of a prompt, and remember it."""
        messages = SharedSequence.of(prompt.messages)
        best = self._most_similar(messages, self._earlier[prompt.runs[0]])
        for run in prompt.runs:
            self._earlier[run].append(_EarlierPrompt(prompt.name, messages, prompt.answer))
        known, new = self._known_and_new(best)
        count = pluralize(len(messages), "message") + (f" continuing {prompt.continues}" if prompt.continues else "")
        summary = ": ".join(filter(None, (count, known)))
        gone = best.left if best.common and not prompt.refers else 0
        return NewMessages(summary + (f"; {gone} of {best.before.name} gone" if gone else ""), new)

    def _most_similar(self, messages: SharedSequence[Message], earlier: Sequence[_EarlierPrompt]) -> _Comparison:
        """Compare a prompt with earlier ones, and return the comparison with the most similar, of equals the newest.

        One that cannot be more similar, since it is too short, is not compared.
        """
        best: _Comparison | None = None
        for one in reversed(earlier):
            if best is None or (min(len(messages), len(one.messages)), -len(one.messages)) > best.rank:
                found = self._compare(messages, one)
                best = found if best is None or found.rank > best.rank else best
        return best or _Comparison(_NONE, 0, [*messages], 0)

    def _compare(self, messages: SharedSequence[Message], before: _EarlierPrompt) -> _Comparison:
        begin = messages.shared_length(before.messages)
        beyond, left = messages_beyond(messages[begin:], before.messages[begin:], self._distinct.number_of)
        return _Comparison(before, len(messages) - len(beyond), beyond, left)

    def _known_and_new(self, found: _Comparison) -> tuple[str, list[Message]]:
        """Describe the messages of a prompt that were shown before, and return the others."""
        before, beyond, common = found.before, found.beyond, found.common
        is_answer = [_repeats(message, before.answer) for message in beyond]
        is_shown = [(message.call_id or "", text_of(message.content)) in self._results for message in beyond]
        known = map(operator.or_, is_answer, is_shown)
        new = [message for message, is_known in zip(beyond, known, strict=True) if not is_known]
        results = sum(is_shown)
        answer = "its answer" if common else f"the answer of {before.name}"
        parts = [
            *([f"{common} as in {before.name}"] * (common > 0)),
            *([answer] * any(is_answer)),
            *([f"{pluralize(results, 'result')} shown above"] * (results > 0)),
        ]
        parts += [f"{len(new)} new"] * bool(new and parts)
        return ", ".join(parts), new


def _repeats(message: Message, answer: LLMResponse | None) -> bool:
    """Whether a message is the model's own answer, sent back to it."""
    return answer is not None and message.role == "assistant" and _said(message) == _said(answer)


def _said(one: Message | LLMResponse) -> tuple[str, list[Payload]]:
    text = said_in(one) if isinstance(one, Message) else one.content or ""
    return text, [(call.name, call.arguments) for call in one.tool_calls]
