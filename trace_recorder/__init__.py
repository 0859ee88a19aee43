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
from trace_recorder.attach.validation import validate
from trace_recorder.errors import (
    AlreadyFinalizedError,
    AnswerError,
    BoundClientError,
    ClientError,
    EmptyTrajectoryError,
    MessageFormatError,
    MissingExtraError,
    MissingKeyError,
    PushError,
    RecorderStateError,
    RenderingError,
    StreamNotFinishedError,
    TraceRecorderError,
    TrajectoryFormatError,
    TrajectoryPathError,
    UnknownProviderError,
    UnsupportedClientError,
)
from trace_recorder.imports.loader import load
from trace_recorder.recording.context import Step
from trace_recorder.storage.redaction.redactor import Redactor, default_redactor
from trace_recorder.values.llm_interaction import Attempt, LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, ToolCall, ToolResult, Usage
from trace_recorder.values.trajectory import AgentStep, Gap, Reward, Trajectory

__all__ = [
    "AgentStep",
    "AlreadyFinalizedError",
    "AnswerError",
    "Attempt",
    "BoundClientError",
    "ClientError",
    "EmptyTrajectoryError",
    "Gap",
    "LLMInteraction",
    "LLMResponse",
    "Message",
    "MessageFormatError",
    "MissingExtraError",
    "MissingKeyError",
    "PushError",
    "RecorderStateError",
    "Redactor",
    "RenderingError",
    "Reward",
    "Step",
    "StreamNotFinishedError",
    "ToolCall",
    "ToolResult",
    "TraceRecorderError",
    "Trajectory",
    "TrajectoryFormatError",
    "TrajectoryPathError",
    "TrajectoryRecorder",
    "UnknownProviderError",
    "UnsupportedClientError",
    "Usage",
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
    "validate",
    "wrap",
]
