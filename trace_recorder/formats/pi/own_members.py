"""The members that our views write into sessions in addition to pi's own, and that the readers read back."""

from __future__ import annotations

HARNESS = "trace-recorder"
"""The `harness` of sessions that our own views write."""
TOOLS_ENTRY = "teich-available-tools"
"""The `customType` of a line with the tools that the model was offered."""
AGENT = "agent"
AGENT_ID = "agentId"
PARENT_AGENT_ID = "parentAgentId"
TASK = "task"
INTERACTION = "interactionId"
"""The member of an answer with the id of its call."""
ORIGIN = "replayedFrom"
"""The member with the origin and the usage of an answer that a replay gave."""
