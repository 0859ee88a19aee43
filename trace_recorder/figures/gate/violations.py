"""What breaks a rule, and the texts that say how two values differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.value_changes import ValueChange, changes, marked_words, shortened

MAX_CHANGES = 10
"""At most this many changes of one value are listed. The others are counted."""


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A part of a run that breaks a rule. `step` is the number of the step in the live run, if there is one."""

    rule: str
    message: str
    step: int | None = None

    def __str__(self) -> str:
        if self.step is None:
            return f"{self.rule}: {self.message}"
        return f"{self.rule}: step {self.step}: {self.message}"

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return without_none(**asdict(self))


def of_agent(name: str | None) -> str:
    """Return the beginning of a message about an agent with a name, or an empty text."""
    if name is None:
        return ""
    return f"agent {name}: "


def value_text(value: Payload) -> str:
    """Return a value as JSON, shortened."""
    return shortened(json.dumps(value, ensure_ascii=False))


def change_lines(before: Payload, after: Payload, name: str) -> Iterator[str]:
    """Yield what is different in a value compared with that of the good run. `name` is the name of the whole value."""
    all_changes = [*changes(before, after)]
    for change in all_changes[:MAX_CHANGES]:
        path = f"{name}{'.' * bool(change.path and not change.path.startswith('['))}{change.path}"
        yield f"{path}: {_change(change)}"
    if len(all_changes) > MAX_CHANGES:
        yield f"{name}: {len(all_changes) - MAX_CHANGES} more changes"


def _change(change: ValueChange) -> str:
    if change.kind == "removed":
        return f"is missing; it is {value_text(change.before)} in the golden run"
    if change.kind == "added":
        return f"{value_text(change.after)}, and the golden run has none"
    if isinstance(change.before, str) and isinstance(change.after, str):
        return marked_words(change.before, change.after)
    return f"{value_text(change.after)}, and {value_text(change.before)} in the golden run"
