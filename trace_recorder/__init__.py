"""Records what an AI agent does: every LLM call, tool call, step and failure, as JSON files that survive `kill -9`.

    with TrajectoryRecorder(task="fix the failing test") as recorder:
        client = recorder.wrap(OpenAI())
        run_my_agent(client)

PYTEST_DONT_REWRITE: this word tells pytest not to rewrite the `assert` statements of this package. Without the word,
pytest warns if the package was imported before pytest began.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trace_recorder.version import __version__

if TYPE_CHECKING:
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
    from trace_recorder.catalog.index import open_index
    from trace_recorder.catalog.matching import load_all
    from trace_recorder.errors import (
        AlreadyFinalizedError,
        AnswerError,
        BoundClientError,
        ClientError,
        EmptyTrajectoryError,
        MessageFormatError,
        MissingExtraError,
        MissingKeyError,
        PriceFileError,
        PushError,
        QueryError,
        RecorderStateError,
        RedactionRuleError,
        RenderingError,
        ReplayMismatchError,
        RetentionError,
        RulesError,
        SharingError,
        StreamNotFinishedError,
        TraceRecorderError,
        TrajectoryFormatError,
        TrajectoryPathError,
        UnknownProviderError,
        UnreadableRunsError,
        UnsupportedClientError,
    )
    from trace_recorder.exporters.otlp import otlp
    from trace_recorder.figures.comparison.trajectory_diff import diff
    from trace_recorder.figures.groups import compare
    from trace_recorder.formats.any_file import load
    from trace_recorder.reading.validate import validate
    from trace_recorder.recording.context import Step
    from trace_recorder.rerun.forking import Fork
    from trace_recorder.rerun.matching import results_in_any_order
    from trace_recorder.rerun.replayer import Replay
    from trace_recorder.rerun.tools import ReplayedToolError
    from trace_recorder.retention.pruning import prune
    from trace_recorder.retention.redaction import RedactedRun, redact
    from trace_recorder.storage.redaction.redactor import Redactor
    from trace_recorder.storage.redaction.secret_matches import SecretMatch
    from trace_recorder.storage.redaction.text_masking import default_redactor
    from trace_recorder.tables.frames import to_arrow, to_dataframe
    from trace_recorder.tables.ray_data import read_runs
    from trace_recorder.values.llm_interaction import Attempt, LLMInteraction
    from trace_recorder.values.messages import LLMResponse, Message, ToolCall, ToolResult, Usage
    from trace_recorder.values.trajectory import AgentStep, Gap, Reward, Trajectory
    from trace_recorder.viewer.one_file import display

    fork = Fork
    replay = Replay

__all__ = [
    "AgentStep",
    "AlreadyFinalizedError",
    "AnswerError",
    "Attempt",
    "BoundClientError",
    "ClientError",
    "EmptyTrajectoryError",
    "Fork",
    "Gap",
    "LLMInteraction",
    "LLMResponse",
    "Message",
    "MessageFormatError",
    "MissingExtraError",
    "MissingKeyError",
    "PriceFileError",
    "PushError",
    "QueryError",
    "RecorderStateError",
    "RedactedRun",
    "RedactionRuleError",
    "Redactor",
    "RenderingError",
    "Replay",
    "ReplayMismatchError",
    "ReplayedToolError",
    "RetentionError",
    "Reward",
    "RulesError",
    "SecretMatch",
    "SharingError",
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
    "UnreadableRunsError",
    "UnsupportedClientError",
    "Usage",
    "__version__",
    "agent",
    "annotate",
    "async_http_client",
    "compare",
    "current_recorder",
    "default_redactor",
    "diff",
    "display",
    "fork",
    "http_client",
    "instrument",
    "load",
    "load_all",
    "open_index",
    "otlp",
    "prune",
    "read_runs",
    "redact",
    "replay",
    "results_in_any_order",
    "reward",
    "step",
    "to_arrow",
    "to_dataframe",
    "tool",
    "tool_call",
    "uninstrument",
    "unwrap",
    "validate",
    "wrap",
]

_MODULES = {
    "attach.current": (
        "agent",
        "annotate",
        "async_http_client",
        "current_recorder",
        "http_client",
        "reward",
        "step",
        "tool",
        "tool_call",
        "unwrap",
        "wrap",
    ),
    "attach.instrument": (
        "instrument",
        "uninstrument",
    ),
    "attach.recorder": ("TrajectoryRecorder",),
    "catalog.index": ("open_index",),
    "catalog.matching": ("load_all",),
    "reading.validate": ("validate",),
    "errors": (
        "AlreadyFinalizedError",
        "AnswerError",
        "BoundClientError",
        "ClientError",
        "EmptyTrajectoryError",
        "MessageFormatError",
        "MissingExtraError",
        "MissingKeyError",
        "PriceFileError",
        "PushError",
        "QueryError",
        "RecorderStateError",
        "RedactionRuleError",
        "SharingError",
        "RenderingError",
        "ReplayMismatchError",
        "RetentionError",
        "RulesError",
        "StreamNotFinishedError",
        "TraceRecorderError",
        "TrajectoryFormatError",
        "TrajectoryPathError",
        "UnknownProviderError",
        "UnreadableRunsError",
        "UnsupportedClientError",
    ),
    "exporters.otlp": ("otlp",),
    "formats.any_file": ("load",),
    "recording.context": ("Step",),
    "retention.redaction": ("RedactedRun", "redact"),
    "rerun.forking": ("Fork",),
    "rerun.replayer": ("Replay",),
    "rerun.matching": ("results_in_any_order",),
    "rerun.tools": ("ReplayedToolError",),
    "storage.redaction.redactor": ("Redactor",),
    "storage.redaction.secret_matches": ("SecretMatch",),
    "storage.redaction.text_masking": ("default_redactor",),
    "retention.pruning": ("prune",),
    "tables.frames": (
        "to_arrow",
        "to_dataframe",
    ),
    "tables.ray_data": ("read_runs",),
    "values.llm_interaction": (
        "Attempt",
        "LLMInteraction",
    ),
    "values.messages": (
        "LLMResponse",
        "Message",
        "ToolCall",
        "ToolResult",
        "Usage",
    ),
    "values.trajectory": (
        "AgentStep",
        "Gap",
        "Reward",
        "Trajectory",
    ),
    "viewer.one_file": ("display",),
    "figures.comparison.trajectory_diff": ("diff",),
    "figures.groups": ("compare",),
}
"""The public names of each module. A module is imported when one of its names is first used."""
_ALIASES = {"fork": "Fork", "replay": "Replay"}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing the package is quick."""
    module = _MODULE_OF.get(_ALIASES.get(name, name))
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"trace_recorder.{module}"), _ALIASES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
