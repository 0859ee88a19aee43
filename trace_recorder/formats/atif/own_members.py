"""The members of `extra` in which our view writes the facts for which ATIF has no member.

`writing_steps.py` writes them, and `reading_steps.py` and `members.py` read them back. All members are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

from trace_recorder.dialects.json_access import as_list
from trace_recorder.reading.document import read_value
from trace_recorder.values.messages import Payload

Value = TypeVar("Value")

TOOL_STEP_FLAG = "tools_alone"
"""The member of a step's `extra` that marks a tool step: a tool ran that no model asked for."""
UNNAMED_AGENT = "agent"
"""The name in ATIF of an agent without a name, because ATIF requires a name."""


class CallExtra(TypedDict, total=False):
    """The `extra` of the step of a call."""

    interaction_id: Payload
    requested_at: Payload
    step_number: Payload
    provider: Payload
    api: Payload
    model_asked_for: Payload
    response_id: Payload
    finish_reason: Payload
    audio_end_ms: Payload
    other_choices: Payload
    choice_extra: Payload
    response_extra: Payload
    parameters: Payload
    duration_seconds: Payload
    time_to_first_token_seconds: Payload
    stream: Payload
    run_inferred: Payload
    complete: Payload
    ended_by: Payload
    error: Payload
    attempts: Payload
    agent_steps: Payload
    """The steps that the agent recorded for the call (`AtifRecordedStep`)."""
    replayed_from: Payload


class AtifRecordedStep(TypedDict, total=False):
    """A step that the agent recorded. Other members of its object are the step's own `extra`."""

    step_number: Payload
    timestamp: Payload
    state: Payload
    reflection: Payload
    error: Payload
    duration_seconds: Payload


class ResultExtra(TypedDict, total=False):
    """The `extra` of a tool result."""

    success: Payload
    error: Payload
    result: Payload
    duration_seconds: Payload


SERVER_CALLS = "mcp"
"""The member of a result's `extra` with the calls of MCP servers, as the document has them.

It is not a `ResultExtra`: an imported run keeps it in the tool's message, because its results have no place for it.
"""


class AgentExtra(TypedDict, total=False):
    """The `extra` of the agent of a trajectory."""

    agent_id: Payload
    parent_agent_id: Payload
    built_in_tools: Payload
    """Tools that are not functions, as they were declared."""


CALL_EXTRA = frozenset(CallExtra.__annotations__)
RECORDED_STEP = frozenset(AtifRecordedStep.__annotations__)
RESULT_EXTRA = frozenset(ResultExtra.__annotations__)
AGENT_EXTRA = frozenset(AgentExtra.__annotations__)


def values_of_connections(kind: Callable[..., Value], documents: Payload) -> tuple[Value, ...]:
    """Return the MCP servers, the calls of servers, or the websockets, that our view wrote.

    Another tool may have a list of its own in this place. Its elements do not name a connection.
    """
    ours = (one for one in as_list(documents) if isinstance(one, dict) and "connection_id" in one)
    return tuple(read_value(kind, one) for one in ours)


def extra_of(element: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """Return the `extra` of a step, a result or an agent."""
    return element.get("extra") or {}
