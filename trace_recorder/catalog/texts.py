"""Lists the texts of a run for searches: prompts, answers, tool calls, and results of tools.

Each distinct text is listed once, where it occurs first. The command `grep` searches these texts, and the index stores
them. Secrets in them are masked, as in the run's files. This module does not import prices, because a search for texts
does not need them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from trace_recorder.catalog.searched_values import Place, TextInRun
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.message_table import MadeOnce
from trace_recorder.values.messages import LLMResponse, Message, ToolCall
from trace_recorder.values.trajectory import Trajectory


def texts_of(trajectory: Trajectory) -> Iterator[TextInRun]:
    """Yield the distinct texts of a run in the order in which they came."""
    return _SeenTexts().of(trajectory)


class _SeenTexts:
    """Lists the texts of one run, each once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._new: list[Message] = []
        self._once = MadeOnce.by(self._new.append)

    def of(self, trajectory: Trajectory) -> Iterator[TextInRun]:
        """Yield the texts in the order in which they came."""
        for part in steps_and_calls(trajectory):
            for place, where, text in self._part(part):
                if text and text not in self._seen:
                    self._seen.add(text)
                    yield part.step_number, place, where, text

    def _part(self, part: StepOrCall) -> Iterator[tuple[Place, str, str]]:
        for message in self._new_messages(part):
            place: Place = "tools" if message.role == "tool" else "prompts"
            yield place, "result" if message.role == "tool" else message.role, plain_text(message.content)
            yield "prompts", "thought", message.reasoning or ""
            yield from _calls(message.tool_calls)
        if part.response is not None:
            yield from _answer(part.response)
        error = part.call.error if part.call else None
        yield "answers", "error", f"{error.type}: {error.message}" if error else ""
        if part.step:
            yield from _calls(part.tool_calls)
        for result in part.tool_results:
            yield "tools", "result", plain_text(result.result)
            yield "tools", "failed", plain_text(result.error)

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


def _answer(response: LLMResponse) -> Iterator[tuple[Place, str, str]]:
    yield "answers", "thought", response.reasoning or ""
    yield "answers", "answer", response.content or ""
    for choice in response.choices[1:]:
        yield "answers", f"choice {choice.index}", choice.content or ""
    yield from _calls(response.tool_calls)


def _calls(calls: Iterable[ToolCall]) -> Iterator[tuple[Place, str, str]]:
    return (("tools", f"call of {call.name}", json.dumps(call.arguments, ensure_ascii=False)) for call in calls)
