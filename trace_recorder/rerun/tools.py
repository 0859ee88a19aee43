"""The recorded results of tools. Each result is used once, for an equal call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache

from trace_recorder.errors import ReplayMismatchError
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
    """The recorded tool executions, each of which is used once. `left` are the unused ones, `given` the used ones."""

    def __init__(
        self,
        executions: list[RecordedTool],
        name: str,
        mask: Callable[[Payload], Payload],
        claim: Claim = lambda _: True,
    ) -> None:
        self._left = list(executions)
        self._name = name
        self._mask = mask
        self._claim = claim
        self.given: list[RecordedTool] = []

    @property
    def left(self) -> list[RecordedTool]:
        """Return the executions that no call has used yet, in the order in which they began."""
        return [*self._left]

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
        among: Callable[[RecordedTool], bool] = lambda _: True,
    ) -> Outcome | None:
        """Return the outcome of a tool for these arguments, or None. Only executions that `among` accepts are used.

        Raises ReplayMismatchError if the result is not on file.
        """
        for tool in self._equal(name, arguments):
            if among(tool):
                self._left.remove(tool)
                if self._claim(tool.begin.seq):
                    self.given.append(tool)
                    return self._outcome(tool)
        return None

    def knows(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Whether an unused execution has these arguments."""
        return bool(self._equal(name, arguments))

    def mismatch(self, name: str, arguments: Mapping[str, object]) -> ReplayMismatchError:
        """Explain why a call has no result."""
        return ReplayMismatchError(self._explained(name, self._mask(to_jsonable(arguments))))

    def _equal(self, name: str, arguments: Mapping[str, object]) -> list[RecordedTool]:
        live = self._mask(to_jsonable(arguments))
        return [one for one in self._left if one.name == name and fits(one.arguments, live)]

    def _outcome(self, tool: RecordedTool) -> Outcome:
        if tool.ending is None:
            raise ReplayMismatchError(f"{self._name} ends while the tool {tool.name} runs: its result is not on file.")
        data = tool.ending.data
        items = tuple(data["result"]) if "yielded" in data and isinstance(data["result"], list) else None
        result = data.get("returned") if items is not None else data.get("result")
        error = data.get("error")
        return Outcome(result, _exception(error) if isinstance(error, dict) else None, items)

    def _explained(self, name: str, live: Payload) -> str:
        called = f"{name}({json.dumps(live, ensure_ascii=False)[:400]})"
        same = [one for one in self._left if one.name == name]
        if not same:
            return f"{self._name} has no result for {called}: no call of this tool is left. tools='live' runs tools."
        changed = "\n  ".join(differences(same[0].arguments, live))
        return f"{self._name} has no result for {called}. The next call of this tool was recorded with:\n  {changed}"


def _exception(error: Mapping[str, Payload]) -> Exception:
    """Return an exception of the recorded class if Python has it, or else a ReplayedToolError with that class name."""
    name, message = str(error.get("type")), str(error.get("message"))
    return builtin_exception(name, message) or _replayed_class(name)(name, message)


@cache
def _replayed_class(name: str) -> type[ReplayedToolError]:
    """Return a class of this name, so that a recording of the replay has the same class name."""
    return type(name, (ReplayedToolError,), {"__module__": __name__})
