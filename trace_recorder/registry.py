"""The dialects, and the readers and writers of other tools' formats, by name.

Each dialect or format is one record in a module. The module is imported when the record is first used. To add a record
to the package, add its module and a row here. If a module has several records, the row names the record after a colon.
A program adds its own record by one call: `DIALECTS.register(record)`, or `register_format(record)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar

R = TypeVar("R")


class Records(Mapping[str, R]):
    """Records by name, in the order in which they are tried: registered records first, then the package's own.

    If `part` is given, the values of the mapping are that member of each record.
    """

    def __init__(self, room: str, attribute: str, modules: Mapping[str, str], part: str | None = None) -> None:
        self._room = room
        self._attribute = attribute
        self._modules = modules
        self._part = part
        self._imported: dict[str, Any] = {}
        self._registered: dict[str, Any] = {}
        self.on_change: list[Callable[[], object]] = []
        """Functions that clear caches. They are called when a record is registered or unregistered."""

    def register(self, record: Any, name: str | None = None) -> None:
        """Add a record under a name, by default its own. Raises ValueError if the name is taken."""
        name = name or record.name
        self.refuse_taken(name)
        self._registered = {**self._registered, name: record}
        self._forget()

    def refuse_taken(self, name: str) -> None:
        """Raise ValueError if a name is taken."""
        if name in self:
            raise ValueError(f"{name!r} is registered already: give the record another name")

    def unregister(self, name: str) -> None:
        """Remove a registered record. A name that is not registered is ignored."""
        self._registered = {other: record for other, record in self._registered.items() if other != name}
        self._forget()

    def _forget(self) -> None:
        for forget in self.on_change:
            forget()

    def import_all(self) -> None:
        """Import all records now, so that no later use imports a module."""
        for name in self:
            self.record(name)

    def record(self, name: str) -> Any:
        """Return the whole record with this name. Its module is imported when the record is first used."""
        record = self._registered.get(name) or self._imported.get(name)
        if record is None:
            module_name, _, attribute = self._modules[name].partition(":")
            module = import_module(".".join(filter(None, ("trace_recorder", self._room, module_name))))
            record = self._imported[name] = getattr(module, attribute or self._attribute)
        return record

    def __getitem__(self, name: str) -> R:
        record = self.record(name)
        value: R = record if self._part is None else getattr(record, self._part)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._modules

    def __iter__(self) -> Iterator[str]:
        return chain(self._registered, self._modules)

    def __len__(self) -> int:
        return len(self._registered) + len(self._modules)


DIALECTS: Records[Any] = Records(
    "dialects",
    "DIALECT",
    {
        "openai-chat": "openai_chat",
        "openai-responses": "openai_responses",
        "anthropic-messages": "anthropic_messages",
        "google-generate": "google_generate",
        "google-code-assist": "google_generate:CODE_ASSIST",
        "ollama-chat": "ollama_chat",
        "openai-completions": "openai_completions",
        "embeddings": "embeddings",
        "google-interactions": "google_interactions",
        "ollama-generate": "ollama_generate",
        "cohere-chat": "cohere_chat",
        "images": "images",
        "rerank": "rerank",
        "bedrock-converse": "bedrock_converse",
        "bedrock-invoke": "bedrock_invoke",
        "openai-compaction": "openai_responses:COMPACTION",
        "openai-realtime": "openai_realtime",
        "speech": "speech",
        "transcriptions": "transcriptions",
        "moderations": "moderations",
        "vllm-generate": "vllm_generate",
        "sglang-generate": "sglang_generate",
        "llama-completion": "llama_completion",
        "manual": "manual",
    },
)
"""The wire dialects (`dialects/dialect.py`). If an address matches two dialects, the first dialect is used."""

IMPORT_FORMATS: Records[Any] = Records(
    "formats",
    "FORMAT",
    {
        "aider": "aider",
        "aider-llm": "aider:REQUESTS",
        "har": "har",
        "vcr": "cassette",
        "claude-tap": "claude_tap",
        "codex-exec": "codex.format:EXEC_STREAM",
        "gemini-stream": "gemini_stream",
        "openai-batch": "openai_batch",
        "litellm": "litellm",
        "agent-lightning": "agent_lightning",
        "atof": "spans.format:ATOF",
        "managed-agents": "managed_agents",
        "qwen": "qwen",
        "iflow": "iflow",
        "claude-code": "claude_code.format",
        "traex": "codex.format:TRAEX",
        "codex": "codex.format:CODEX",
        "gemini-cli": "gemini_cli",
        "kiro": "kiro.format",
        "droid": "droid",
        "droid-stream": "droid_stream",
        "kimi": "kimi",
        "copilot": "copilot",
        "copilot-chat": "copilot_chat",
        "hermes": "hermes",
        "cursor": "cursor",
        "cursor-database": "cursor_database",
        "antigravity": "antigravity",
        "windsurf": "windsurf",
        "grok": "grok",
        "grok-updates": "grok:UPDATES",
        "amp": "amp",
        "crush": "crush",
        "goose": "goose",
        "session-traces": "pi.format:SESSION_TRACES",
        "openclaw": "pi.format:OPENCLAW",
        "pi": "pi.format:PI",
        "inspect-ai": "inspect_ai.format",
        "otlp": "spans.format:OTLP",
        "otel-console": "spans.format:CONSOLE",
        "phoenix": "phoenix.format",
        "mlflow": "mlflow.format",
        "langfuse": "langfuse.format",
        "langsmith": "langsmith.format",
        "llm": "llm.format",
        "gptme": "gptme",
        "vibe": "vibe",
        "chatgpt": "chatgpt",
        "continue": "continue_session",
        "mini-swe-agent": "mini_swe_agent",
        "swe-agent": "swe_agent",
        "openhands-v0": "openhands_v0",
        "openhands": "openhands_v1",
        "tau-bench": "tau_bench",
        "tau2-bench": "tau_bench:TAU2",
        "verifiers": "verifiers.format",
        "verifiers-results": "verifiers.format:RESULTS",
        "opencode": "opencode.format",
        "openhands-completions": "openhands_v1:COMPLETIONS",
        "cline": "cline.format:TASKS",
        "cline-sessions": "cline.format:SESSIONS",
        "sharegpt": "training.format:SHAREGPT",
        "invariant": "invariant.format",
        "hierarchy": "hierarchy.format",
        "harbor-traces": "training.format:HARBOR",
        "anthropic-history": "plain_conversations:ANTHROPIC_HISTORY",
        "chat-messages": "plain_conversations:CHAT_MESSAGES",  # tried after the formats whose files contain such lists
        "atif": "atif.format",
        "trae-agent": "trae",
        "document": "own_documents",
    },
    part="reader",
)
"""How other tools' formats are read (`FormatReader` of `formats/format.py`), in the order in which they are tried."""

EXPORT_FORMATS: Records[Any] = Records(
    "",
    "FORMAT",
    {
        "atif": "formats.atif.format",
        "hierarchy": "formats.hierarchy.format",
        "inspect": "formats.inspect_ai.format",
        "invariant": "formats.invariant.format",
        "openai": "formats.training.format:OPENAI",
        "otlp": "formats.spans.format:OTLP",
        "parquet": "tables.parquet",
        "session-traces": "formats.pi.format:SESSION_TRACES",
        "toolbrain": "formats.toolbrain.format",
        "traces": "formats.pi.format:PI",
        "trae": "formats.trae",
        "trl": "formats.training.format:TRL",
        "verifiers": "formats.verifiers.format",
    },
    part="writer",
)
"""How `export` writes runs in the formats of other tools (`FormatWriter` of `formats/format_writer.py`)."""


def register_format(record: Any) -> None:
    """Add a `Format` of a program. Raises ValueError if its name, or its name for `export`, is taken."""
    export_name = record.export_name or record.name
    if record.reader is not None:
        IMPORT_FORMATS.refuse_taken(record.name)
    if record.writer is not None:
        EXPORT_FORMATS.register(record, export_name)
    if record.reader is not None:
        IMPORT_FORMATS.register(record)


def unregister_format(record: Any) -> None:
    """Remove a `Format` that was registered. A format that is not registered is ignored."""
    IMPORT_FORMATS.unregister(record.name)
    EXPORT_FORMATS.unregister(record.export_name or record.name)
