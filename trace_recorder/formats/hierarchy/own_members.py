"""The members that our view writes into the free `metadata` and `info` of the SDK's tree, and that its reader reads."""

from __future__ import annotations

from typing import Literal, TypedDict

from trace_recorder.values.messages import Payload

Termination = Literal["ENV_DONE", "MAX_STEPS", "TRUNCATION", "ERROR", "TIMEOUT", "NONE"]
"""Why a run ended, as the SDK names it. "NONE" means that the reason is unknown."""


class HierarchyMetadata(TypedDict, total=False):
    """The `metadata` of a message: what the form has no place for. An answer has the members of its call too."""

    interaction_id: Payload
    """Only our view names the call of an answer, so this member shows that a tree is ours."""
    timestamp: Payload
    agent: Payload
    agent_id: Payload
    model: Payload
    duration_seconds: Payload
    complete: Payload
    """False if the answer is incomplete, and otherwise absent."""
    other_answers: Payload
    replayed_from: Payload
    shown_to_model: Payload
    """False for a tool result that no request has, and otherwise absent."""
    name: Payload
    parts: Payload
    """The parts of the content that are not text."""
    extra: Payload
    original_role: Payload
    """The role of the message, if the form does not know it."""


class StepInfo(TypedDict, total=False):
    """The `info` of a step."""

    turn: Payload
    """The number of the exchange between the user and the agent, counted from 1."""
    agent: Payload
    agent_id: Payload
    interaction_ids: Payload
    step_numbers: Payload
    """The numbers of the steps that the agent recorded."""
