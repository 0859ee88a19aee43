"""The dialects, the import formats and the export formats by name.

Each dialect or format is one record in a module. The module is imported when the record is first used. To add a record
to the package, add its module and a row here. If a module has several records, the row names the record after a colon.
A program adds its own record by one call: `DIALECTS.register(record)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar

R = TypeVar("R")


class Records(Mapping[str, R]):
    """Records by name, in the order in which they are tried: registered records first, then the package's own."""

    def __init__(self, room: str, attribute: str, modules: Mapping[str, str]) -> None:
        self._room = room
        self._attribute = attribute
        self._modules = modules
        self._imported: dict[str, R] = {}
        self._registered: dict[str, R] = {}
        self.on_change: list[Callable[[], object]] = []
        """Functions that clear caches. They are called when a record is registered or unregistered."""

    def register(self, record: R) -> None:
        """Add a record under its name. Raises ValueError if the name is taken."""
        name: str = record.name  # type: ignore[attr-defined]  # every record has a name
        if name in self:
            raise ValueError(f"{name!r} is registered already: give the record another name")
        self._registered = {**self._registered, name: record}
        self._forget()

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
            self[name]

    def __getitem__(self, name: str) -> R:
        record = self._registered.get(name) or self._imported.get(name)
        if record is None:
            module_name, _, attribute = self._modules[name].partition(":")
            module = import_module(".".join(filter(None, ("trace_recorder", self._room, module_name))))
            record = self._imported[name] = getattr(module, attribute or self._attribute)
        return record

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
        "speech": "speech",
        "transcriptions": "transcriptions",
        "moderations": "moderations",
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
        "codex-exec": "codex.exec_stream",
        "gemini-stream": "gemini_stream",
        "openai-batch": "openai_batch",
        "litellm": "litellm",
        "atof": "spans.atof",
        "managed-agents": "managed_agents",
        "qwen": "qwen",
        "iflow": "iflow",
        "claude-code": "claude_code.session",
        "traex": "codex.sessions:TRAEX",
        "codex": "codex.sessions",
        "gemini-cli": "gemini_cli",
        "droid": "droid",
        "kimi": "kimi",
        "copilot": "copilot",
        "copilot-chat": "copilot_chat",
        "hermes": "hermes",
        "cursor": "cursor",
        "grok": "grok",
        "grok-updates": "grok:UPDATES",
        "amp": "amp",
        "goose": "goose",
        "session-traces": "pi.reading:SESSION_TRACES",
        "openclaw": "pi.reading:OPENCLAW",
        "pi": "pi.reading",
        "inspect-ai": "inspect_ai.reading",
        "otlp": "spans.otlp_files",
        "otel-console": "spans.otlp_files:CONSOLE",
        "phoenix": "phoenix.reading",
        "mlflow": "mlflow.reading",
        "langfuse": "langfuse.reading",
        "langsmith": "langsmith.reading",
        "llm": "llm.logs",
        "chatgpt": "chatgpt",
        "continue": "continue_session",
        "mini-swe-agent": "mini_swe_agent",
        "swe-agent": "swe_agent",
        "openhands-v0": "openhands_v0",
        "openhands": "openhands_v1",
        "tau-bench": "tau_bench",
        "tau2-bench": "tau_bench:TAU2",
        "verifiers": "verifiers",
        "verifiers-results": "verifiers:RESULTS",
        "opencode": "opencode.sessions",
        "openhands-completions": "openhands_v1:COMPLETIONS",
        "cline": "cline",
        "sharegpt": "training.reading:SHAREGPT",
        "invariant": "invariant.reading",
        "hierarchy": "hierarchy.reading",
        "harbor-traces": "training.reading:HARBOR",
        "anthropic-history": "plain_conversations:ANTHROPIC_HISTORY",
        "chat-messages": "plain_conversations:CHAT_MESSAGES",  # tried after the formats whose files contain such lists
        "atif": "atif.reading:READER",
        "trae-agent": "trae:READER",
        "document": "own_documents",
    },
)
"""The formats of other tools (`ImportFormat` of `formats/import_format.py`), in the order in which they are tried."""

EXPORT_FORMATS: Records[Any] = Records(
    "",
    "FORMAT",
    {
        "atif": "formats.atif.writing",
        "hierarchy": "formats.hierarchy.writing",
        "inspect": "formats.inspect_ai.writing",
        "invariant": "formats.invariant.writing",
        "openai": "formats.training.openai_finetuning",
        "otlp": "formats.spans.writing.spans",
        "parquet": "tables.parquet",
        "session-traces": "formats.pi.session_traces",
        "toolbrain": "formats.toolbrain.turns",
        "traces": "formats.pi.writing",
        "trae": "formats.trae",
        "trl": "formats.training.trl",
    },
)
"""The formats that `export` writes (`formats/export_format.py`)."""
