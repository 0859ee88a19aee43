"""Records what an AI agent does: every LLM call, tool call, step and failure, as JSON files that survive `kill -9`.

with TrajectoryRecorder(task="fix the failing test") as recorder:
    client = recorder.wrap(OpenAI())
    run_my_agent(client)
"""

from trace_recorder.attach.current import (
    agent,
    annotate,
    async_http_client,
    current_recorder,
    http_client,
    reward,
    step,
    tool,
    tool_call,
    unwrap,
    wrap,
)
from trace_recorder.attach.instrument import instrument, uninstrument
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.errors import (
    AlreadyFinalizedError,
    BoundClientError,
    RecorderStateError,
    TraceRecorderError,
    TrajectoryFormatError,
    TrajectoryPathError,
    UnsupportedClientError,
)
from trace_recorder.imports.load import load
from trace_recorder.storage.redaction.redactor import default_redactor
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import AgentStep, Trajectory

__all__ = [
    "AgentStep",
    "AlreadyFinalizedError",
    "BoundClientError",
    "LLMInteraction",
    "RecorderStateError",
    "TraceRecorderError",
    "Trajectory",
    "TrajectoryFormatError",
    "TrajectoryPathError",
    "TrajectoryRecorder",
    "UnsupportedClientError",
    "agent",
    "annotate",
    "async_http_client",
    "current_recorder",
    "default_redactor",
    "http_client",
    "instrument",
    "load",
    "reward",
    "step",
    "tool",
    "tool_call",
    "uninstrument",
    "unwrap",
    "wrap",
]
