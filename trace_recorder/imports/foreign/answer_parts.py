"""The answers of a model, for streams of events that state texts, thoughts, tools and results one by one.

Such a stream does not say where an answer ends. A new answer begins with the first part that follows a result of a
tool; where results come while an answer still goes on, the format says which parts begin one.
"""

from __future__ import annotations

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.run import Call
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall


class AnswerParts:
    """The parts of the answer that is open, and the results of its tools. `close` makes a call of them."""

    def __init__(self, history: AgentHistory) -> None:
        self.history = history
        self.has_tools = False
        self.has_results = False
        self._begin()

    def _begin(self) -> None:
        self.has_tools = self.has_results = False
        self._time: str | None = None
        self._blocks = Blocks()
        self._calls: list[ToolCall] = []
        self._others: list[Payload] = []
        self._results: list[tuple[Message, str]] = []

    def add_text(self, text: str | None, time: str = "") -> None:
        """Add a text of the answer."""
        self._note(time)
        self._blocks.add_text(text)

    def add_reasoning(self, text: str | None, time: str = "") -> None:
        """Add a thought of the answer."""
        self._note(time)
        self._blocks.add_reasoning(text)

    def add_other(self, part: Payload, time: str = "") -> None:
        """Add a part of the answer that has no text."""
        self._note(time)
        self._blocks.add_other(len(self._others))
        self._others.append(part)

    def add_call(self, call: ToolCall, time: str = "") -> None:
        """Add a call of a tool."""
        self._note(time)
        self.has_tools = True
        self._blocks.add_call()
        self._calls.append(call)

    def add_result(self, result: Message, time: str = "") -> None:
        """Add the result of a tool, which the next call sees."""
        self.has_results = True
        self._results.append((result, time))

    def _note(self, time: str) -> None:
        self._time = time if self._time is None else self._time

    def close(self) -> Call | None:
        """Make a call of the answer that is open, and add the results of its tools; return None if nothing is open."""
        call = None
        if self._time is not None:
            response = LLMResponse(
                self._blocks.all_text(),
                reasoning=self._blocks.all_reasoning(),
                tool_calls=tuple(self._calls),
                extra={"content": self._others} if self._others else {},
                interleaved=self._blocks.interleaved(self._calls),
            )
            call = self.history.call(self._time, response)
        for result, time in self._results:
            self.history.add(result, time)
        self._begin()
        return call
