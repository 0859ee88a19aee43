"""Addresses of values in a run, such as `llm_3.prompt[2]`: what `show` prints as ids, and then members of the document.

| address | value |
|---|---|
| `task`, `final_result`, `error`, `metadata`, `annotations`, `rewards` | a member of the document |
| `llm_3` | the call with this id |
| `llm_3.prompt`, `llm_3.prompt[2]`, `llm_3.prompt[-1]` | the messages of its prompt, counted from 0 |
| `llm_3.answer`, `llm_3.answer.reasoning` | its answer, with text, thinking and tool calls |
| `tool_4.arguments`, `tool_4.result` | what the fourth recorded tool got and returned; also by the id of its call |
| `step_2.reflection` | a member of the step with this number |

`.name` goes on to a member, and `[2]` to an element. `prompt` and `answer` are other names of the document's
`input_messages` and `response`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trace_recorder.errors import RedactionRuleError
from trace_recorder.facts import ToolCallFact, ToolResultFact
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.tool_uses import ToolUse, tool_uses
from trace_recorder.values.trajectory import Trajectory

_ADDRESS = re.compile(r"(?P<root>\w+)(?P<rest>(?:\.[\w-]+|\[-?\d+\])*)")
_PART = re.compile(r"\.([\w-]+)|\[(-?\d+)\]")
_ALIASES = {"prompt": "input_messages", "answer": "response"}
_ROOTS = ("task", "final_result", "error", "metadata", "annotations", "rewards")
_IDS = frozenset(
    {
        *("role", "type", "id", "call_id", "name", "model", "provider", "api", "finish_reason", "timestamp", "state"),
        *("interaction_id", "execution_id", "step_id", "agent_id", "parent_agent_id", "parent_execution_id"),
    }
)
"""The members whose texts are no content: they stay."""


def check_address(address: str) -> None:
    """Raise RedactionRuleError if a text is not an address."""
    if _ADDRESS.fullmatch(address) is None:
        raise RedactionRuleError(
            f"{address!r} is not an address: give one such as llm_3.prompt[2], tool_4.result or task"
        )


def texts_at(run: Trajectory, journal: Path, address: str) -> list[str]:
    """Return the texts in the value at an address. Raises RedactionRuleError if the run has no such value.

    `journal` is the journal of the run, if it has one: only the journal has the ids of all tools.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return []
    value = _tool(journal, match["root"]) or _root(run, match["root"])
    for name, number in _PART.findall(match["rest"]):
        value = _part(value, name, number)
    if value is None:
        raise RedactionRuleError(
            f"the run has no {address}: `trace-recorder show` prints the ids of its calls and tools"
        )
    return [*dict.fromkeys(_texts(value))]


def _root(run: Trajectory, root: str) -> Payload:
    if root in _ROOTS:
        return run.to_document()[root] if root in {"rewards", "error"} else getattr(run, root)
    for call in run.llm_interactions:
        if call.interaction_id == root:
            return call.to_document()
    for step in run.agent_steps:
        if root == f"step_{step.step_number}":
            return step.to_document()
        for use in tool_uses(step.tool_calls, step.tool_results):
            if root in _ids_of(use):
                return {**_members(use.result), **_members(use.call)}
    return None


def _ids_of(use: ToolUse) -> set[str | None]:
    ids: set[str | None] = set()
    if use.call is not None:
        ids.add(use.call.call_id)
    if use.result is not None:
        ids |= {use.result.call_id, use.result.execution_id}
    return ids


def _members(value: ToolCall | ToolResult | None) -> dict[str, Payload]:
    return {} if value is None else value.to_document()


def _tool(journal: Path, root: str) -> dict[str, Payload]:
    """Return what the journal has of the tool with an id, or {} if it has no such tool."""
    members: dict[str, Payload] = {}
    if root.startswith("tool_") and journal.is_file():
        with journal.open("rb") as file:
            for line in file:
                for record in read_records(line):
                    fact = record.fact if isinstance(record, Record) else None
                    if isinstance(fact, ToolCallFact) and fact.execution_id == root:
                        members |= {"arguments": fact.arguments}
                    elif isinstance(fact, ToolResultFact) and fact.execution_id == root:
                        members |= {"result": fact.result, "error": fact.error}
    return members


def _part(value: Payload, name: str, number: str) -> Payload:
    if number:
        position = int(number)
        if isinstance(value, list) and -len(value) <= position < len(value):
            return value[position]
        return None
    if not isinstance(value, dict):
        return None
    return value.get(name, value.get(_ALIASES.get(name, name)))


def _texts(value: Payload) -> Iterator[str]:
    """Yield the texts in a value, without those that are ids or words of the format."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            if name not in _IDS:
                yield from _texts(member)
    elif isinstance(value, list):
        for element in value:
            yield from _texts(element)
