"""The recorded results of tools. Each result is used once, for a call of the same tool with equal arguments.

A mask in recorded arguments equals any text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache

from trace_recorder.errors import ReplayMismatchError
from trace_recorder.facts import ABSENT
from trace_recorder.recording.stand_ins import Outcome
from trace_recorder.rerun.answers import builtin_exception
from trace_recorder.rerun.differences import differences
from trace_recorder.rerun.matching import Claim, fits
from trace_recorder.rerun.recorded import RecordedTool
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload


class ReplayedToolError(Exception):
    """Raised if a tool's recorded exception is not of a built-in class. `kind` is the name of the recorded class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RecordedTools:
    """The recorded executions of tools. Each execution is used once, and is in `used` after that.

    An execution that `claim` refuses, because another process has used it, is in neither `used` nor `unused`. `name` is
    the name of the recording in messages.
    """

    def __init__(
        self,
        executions: list[RecordedTool],
        name: str,
        mask: Callable[[Payload], Payload],
        claim: Claim = lambda _: True,
    ) -> None:
        self._unused = list(executions)
        self._name = name
        self._mask = mask
        self._claim = claim
        self.used: list[RecordedTool] = []

    @property
    def unused(self) -> list[RecordedTool]:
        """Return the executions that no call has used yet, in the order in which they began."""
        return [*self._unused]

    def take(self, name: str, arguments: Mapping[str, object]) -> Outcome:
        """Return the outcome of a tool for these arguments. Raises ReplayMismatchError if there is no outcome."""
        outcome = self.find(name, arguments)
        if outcome is None:
            raise self.mismatch(name, arguments)
        return outcome

    def find(
        self,
        name: str,
        arguments: Mapping[str, object],
        accepts: Callable[[RecordedTool], bool] = lambda _: True,
    ) -> Outcome | None:
        """Return the outcome of a tool for these arguments, or None. Only executions that `accepts` accepts are used.

        Raises ReplayMismatchError if the result is not on file.
        """
        for tool in self._equal(name, arguments):
            if accepts(tool):
                self._unused.remove(tool)
                if self._claim(tool.seq):
                    self.used.append(tool)
                    return self._outcome(tool)
        return None

    def knows(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Return whether an unused execution of this tool has these arguments."""
        return bool(self._equal(name, arguments))

    def mismatch(self, name: str, arguments: Mapping[str, object]) -> ReplayMismatchError:
        """Return a mismatch that says why a call has no result."""
        return ReplayMismatchError(self._mismatch_message(name, self._mask(to_jsonable(arguments))))

    def _equal(self, name: str, arguments: Mapping[str, object]) -> list[RecordedTool]:
        live = self._mask(to_jsonable(arguments))
        return [tool for tool in self._unused if tool.name == name and fits(tool.arguments, live)]

    def _outcome(self, tool: RecordedTool) -> Outcome:
        ended = tool.ended
        if ended is None:
            raise ReplayMismatchError(f"{self._name} ends while the tool {tool.name} runs: it has no recorded result.")
        error: Exception | None = None
        if ended.error is not None:
            kind, message = str(ended.error.get("type")), str(ended.error.get("message"))
            error = builtin_exception(kind, message) or _replayed_class(kind)(kind, message)
        if ended.yielded is None or not isinstance(ended.result, list):
            return Outcome(ended.result, error)
        if ended.returned is ABSENT:
            return Outcome(None, error, tuple(ended.result))
        return Outcome(ended.returned, error, tuple(ended.result))

    def _mismatch_message(self, name: str, live: Payload) -> str:
        call = f"{name}({json.dumps(live, ensure_ascii=False)[:400]})"
        of_tool = [tool for tool in self._unused if tool.name == name]
        if not of_tool:
            return f"{self._name} has no result for {call}: no call of this tool is left. tools='live' runs tools."
        changes = "\n  ".join(differences(of_tool[0].arguments, live))
        return f"{self._name} has no result for {call}. The next call of this tool was recorded with:\n  {changes}"


@cache
def _replayed_class(name: str) -> type[ReplayedToolError]:
    """Return a class of this name, so that a recording of the replay has the recorded class's name."""
    return type(name, (ReplayedToolError,), {"__module__": __name__})
