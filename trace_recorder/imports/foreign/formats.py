"""The formats of other tools that are read: which one a file has, by its content, and the runs in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NoReturn, Protocol

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.guard import try_call
from trace_recorder.imports.foreign.layout import journal_lines
from trace_recorder.imports.foreign.run import (
    UNANSWERED,
    UNSEEN,
    Annotation,
    Call,
    Exchange,
    ForeignRun,
    Kept,
    Missing,
    Step,
    ToolRun,
)
from trace_recorder.imports.foreign.source import Source
from trace_recorder.storage.redaction.text_masking import default_redactor

__all__ = ("FORMATS", "Format", "Source", "format_of", "journal_lines", "read_runs")

FORMATS = {
    "aider": "aider_chat",
    "aider-llm": "aider_llm",
    "har": "har",
    "vcr": "cassette",
    "claude-tap": "claude_tap",
    "codex-exec": "codex_exec",
    "gemini-stream": "gemini_stream",
    "openai-batch": "openai_batch",
    "litellm": "litellm",
    "atof": "atof",
    "managed-agents": "managed_agents",
    "qwen": "qwen",
    "iflow": "iflow",
    "claude-code": "claude_code",
    "traex": "traex",
    "codex": "codex",
    "gemini-cli": "gemini_cli",
    "droid": "droid",
    "kimi": "kimi",
    "copilot": "copilot",
    "copilot-chat": "copilot_chat",
    "hermes": "hermes",
    "cursor": "cursor",
    "grok": "grok",
    "grok-updates": "grok_updates",
    "amp": "amp",
    "goose": "goose",
    "session-traces": "session_traces",
    "openclaw": "openclaw",
    "pi": "pi_session",
    "inspect-ai": "inspect_ai.log",
    "otlp": "otlp",
    "otel-console": "span_console",
    "phoenix": "phoenix",
    "mlflow": "mlflow",
    "langfuse": "langfuse",
    "langsmith": "langsmith",
    "llm": "llm.logs",
    "chatgpt": "chatgpt",
    "continue": "continue_session",
    "mini-swe-agent": "mini_swe_agent",
    "swe-agent": "swe_agent",
    "openhands-v0": "openhands_v0",
    "openhands": "openhands_v1",
    "tau-bench": "tau_bench",
    "tau2-bench": "tau2_bench",
    "verifiers": "verifiers_trace",
    "verifiers-results": "verifiers_results",
    "opencode": "opencode.sessions",
    "openhands-completions": "openhands_completions",
    "cline": "cline",
    "sharegpt": "sharegpt",
    "invariant": "invariant",
    "hierarchy": "hierarchy",
    "harbor-traces": "harbor_traces",
    "anthropic-history": "anthropic_history",
    "chat-messages": "chat_messages",  # the last: other formats have such lists in them
}
"""The names of the formats, each with its module, in the order in which they are asked."""


class Format(Protocol):
    """A module that reads one format."""

    @staticmethod
    def recognizes(source: Source) -> bool:
        """Whether a file has this format, by its first lines or its document. Reads no more of it."""

    @staticmethod
    def read(source: Source) -> Iterator[ForeignRun]:
        """Yield the runs of a file. A part that cannot be read is a `Missing` event of its run.

        Raises TrajectoryFormatError if the file as a whole cannot be read.
        """


def format_of(source: Source) -> str | None:
    """Return the name of a file's format; None if it is none of them. Raises OSError, TrajectoryFormatError."""
    return next((name for name in FORMATS if try_call(partial(_module(name).recognizes, source), _is_not)), None)


def _is_not(error: Exception) -> bool:
    if isinstance(error, TrajectoryFormatError | OSError):
        raise error
    return False


def _module(name: str) -> Format:
    module: Format = import_module(f"trace_recorder.imports.foreign.{FORMATS[name]}")  # type: ignore[assignment]
    return module


def read_runs(source: Source) -> Iterator[ForeignRun]:
    """Yield the runs of a file of another tool. Raises TrajectoryFormatError where it is not readable, OSError."""
    found = format_of(source)
    if found is None:
        raise TrajectoryFormatError(
            f"{source.path} is in no format that is read{_as_document(source)}. docs/import.md lists the formats."
        )
    runs = iter(_module(found).read(source))
    while True:
        run = try_call(partial(next, runs, None), partial(_refuse, source.path, found))
        if run is None:
            return
        run.format = found
        run.identity = _without_secret_name(run.identity, source.path)
        run.source.setdefault("file", masked_name(source.path.name))
        if not _says_anything(run):
            run.events.append(
                Missing(what="every call and message", why=f"none was found in this file, read as {found}")
            )
        yield run


def _says_anything(run: ForeignRun) -> bool:
    """Whether a run has a call, a step, an execution or a message, or says already what is missing."""
    return any(
        isinstance(event, Call | Exchange | Step | ToolRun | Missing)
        or (isinstance(event, Kept) and event.what == UNSEEN)
        or (isinstance(event, Annotation) and event.key == UNANSWERED)
        for event in run.events
    )


def masked_name(name: str) -> str:
    """Return the name of a file with secrets masked, also one before a suffix, which would be taken for its end."""
    parts = ((name, "", ""), name.rpartition("."), name.partition("."))
    masked = (default_redactor(stem) + dot + suffix for stem, dot, suffix in parts)
    return next((found for found in masked if found != name), name)


def _without_secret_name(identity: str, path: Path) -> str:
    """Return an identity, which a format may have made of the file's name and a number, without a secret name."""
    for name in (path.name, path.name.removesuffix(path.suffix), path.name.partition(".")[0]):
        if name and (masked := masked_name(name)) != name:
            identity = identity.replace(name, masked)
    return identity


def _as_document(source: Source) -> str:
    return f": as one document, {source.why_no_document}" if source.why_no_document else ""


def _refuse(path: Path, name: str, error: Exception) -> NoReturn:
    if isinstance(error, TrajectoryFormatError | OSError):
        raise error
    raise TrajectoryFormatError(f"{path} cannot be read as {name}: {type(error).__name__}: {error}") from error
