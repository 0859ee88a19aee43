"""Lists the texts of a run for searches: prompts, answers, tool calls, and results of tools.

Each distinct text is listed once, where it occurs first. The command `grep` searches these texts, and the index stores
them. Secrets in them are masked, as in the run's files. This module does not import prices, because a search for texts
does not need them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from trace_recorder.catalog.searched_values import SearchPlace, TextInRun
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.message_table import MadeOnce
from trace_recorder.values.messages import LLMResponse, Message, ToolCall
from trace_recorder.values.trajectory import Trajectory

_TextOfStep = Callable[[SearchPlace, str, str], TextInRun]
"""A function that makes a text of one step from its place, its kind and the text itself."""


def texts_of(trajectory: Trajectory) -> Iterator[TextInRun]:
    """Yield the distinct texts of a run in the order in which they came."""
    return (text for _, text in texts_of_parts(trajectory))


def texts_of_parts(trajectory: Trajectory) -> Iterator[tuple[StepOrCall, TextInRun]]:
    """Yield the distinct texts of a run, each with the step or call in which it occurs first."""
    return _SeenTexts().of(trajectory)


class _SeenTexts:
    """Lists the texts of one run, each once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._new: list[Message] = []
        self._once = MadeOnce.by(self._new.append)

    def of(self, trajectory: Trajectory) -> Iterator[tuple[StepOrCall, TextInRun]]:
        """Yield the texts in the order in which they came, each with its step or call."""
        for part in steps_and_calls(trajectory):
            for text in self._part(part):
                if text.text and text.text not in self._seen:
                    self._seen.add(text.text)
                    yield part, text

    def _part(self, part: StepOrCall) -> Iterator[TextInRun]:
        text_of_step = partial(TextInRun, part.step_number)
        for message in self._new_messages(part):
            if message.role == "tool":
                yield text_of_step("tools", "result", plain_text(message.content))
            else:
                yield text_of_step("prompts", message.role, plain_text(message.content))
            yield text_of_step("prompts", "thought", message.reasoning or "")
            yield from _calls(text_of_step, message.tool_calls)
        if part.response is not None:
            yield from _answer(text_of_step, part.response)
        if part.call and part.call.error:
            yield text_of_step("answers", "error", f"{part.call.error.type}: {part.call.error.message}")
        if part.step:
            yield from _calls(text_of_step, part.tool_calls)
        for result in part.tool_results:
            yield text_of_step("tools", "result", plain_text(result.result))
            yield text_of_step("tools", "failed", plain_text(result.error))

    def _new_messages(self, part: StepOrCall) -> Sequence[Message]:
        """Return the messages in the prompt of `part` that are in no earlier prompt."""
        self._new.clear()
        prompt: Sequence[Message] | None = None
        if part.call:
            prompt = part.call.input_messages
        elif part.step:
            prompt = part.step.llm_messages
        self._once.of(prompt or ())
        return [*self._new]


def _answer(text_of_step: _TextOfStep, response: LLMResponse) -> Iterator[TextInRun]:
    yield text_of_step("answers", "thought", response.reasoning or "")
    yield text_of_step("answers", "answer", response.content or "")
    for choice in response.choices[1:]:
        yield text_of_step("answers", f"choice {choice.index}", choice.content or "")
    yield from _calls(text_of_step, response.tool_calls)


def _calls(text_of_step: _TextOfStep, calls: Iterable[ToolCall]) -> Iterator[TextInRun]:
    for call in calls:
        yield text_of_step("tools", f"call of {call.name}", json.dumps(call.arguments, ensure_ascii=False))
