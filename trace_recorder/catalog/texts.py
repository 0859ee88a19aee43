"""Lists the texts of a run for searches: prompts, answers, tool calls, and results of tools.

Each distinct text is listed once, where it occurs first. The command `grep` searches these texts, and the index stores
them. Secrets in them are masked, as in the run's files. This module does not import prices, because a search for texts
does not need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from trace_recorder.catalog.searched_values import SearchPlace, TextInRun
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.message_table import MadeOnce
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall
from trace_recorder.values.trajectory import Trajectory

_arguments_text = make_json_writer(", ", ": ")


def texts_of(trajectory: Trajectory) -> Iterator[TextInRun]:
    """Yield the distinct texts of a run in the order in which they came."""
    return (text for _, text in texts_of_parts(trajectory))


def texts_of_parts(trajectory: Trajectory) -> Iterator[tuple[StepOrCall, TextInRun]]:
    """Yield the distinct texts of a run, each with the step or call in which it occurs first."""
    return _SeenTexts().of(trajectory)


class _SeenTexts:
    """Lists the texts of one run, each once."""

    def __init__(self) -> None:
        self._seen = {""}
        self._arguments: dict[int, Payload] = {}
        """The arguments that were listed, by their ids. A call and its step share them."""
        self._texts: list[TextInRun] = []
        self._new: list[Message] = []
        self._once = MadeOnce.by(self._new.append)

    def of(self, trajectory: Trajectory) -> Iterator[tuple[StepOrCall, TextInRun]]:
        """Yield the texts in the order in which they came, each with its step or call."""
        for part in steps_and_calls(trajectory):
            self._add_texts(part)
            yield from zip(repeat(part), self._texts, strict=False)
            self._texts.clear()

    def _add_texts(self, part: StepOrCall) -> None:
        step = part.step_number
        for message in self._new_messages(part):
            if message.role == "tool":
                self._add(step, "tools", "result", plain_text(message.content))
            else:
                self._add(step, "prompts", message.role, plain_text(message.content))
            if message.reasoning:
                self._add(step, "prompts", "thought", message.reasoning)
            if message.tool_calls:
                self._add_calls(step, message.tool_calls)
        if part.response is not None:
            self._add_answer(step, part.response)
        if part.call and part.call.error:
            self._add(step, "answers", "error", f"{part.call.error.type}: {part.call.error.message}")
        if part.step:
            self._add_calls(step, part.tool_calls)
        for result in part.tool_results:
            self._add(step, "tools", "result", plain_text(result.result))
            if result.error:
                self._add(step, "tools", "failed", plain_text(result.error))

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

    def _add(self, step: int | None, place: SearchPlace, kind: str, text: str) -> None:
        if text not in self._seen:
            self._seen.add(text)
            self._texts.append(TextInRun(step, place, kind, text))

    def _add_answer(self, step: int | None, response: LLMResponse) -> None:
        if response.reasoning:
            self._add(step, "answers", "thought", response.reasoning)
        if response.content:
            self._add(step, "answers", "answer", response.content)
        for choice in response.choices[1:]:
            self._add(step, "answers", f"choice {choice.index}", choice.content or "")
        self._add_calls(step, response.tool_calls)

    def _add_calls(self, step: int | None, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            arguments = call.arguments
            if id(arguments) not in self._arguments:
                self._arguments[id(arguments)] = arguments
                self._add(step, "tools", f"call of {call.name}", _arguments_text(arguments))
