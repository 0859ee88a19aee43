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
    "imports.foreign",
    "FORMAT",
    {
        "aider": "aider",
        "aider-llm": "aider:REQUESTS",
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
        "session-traces": "pi_session:SESSION_TRACES",
        "openclaw": "pi_session:OPENCLAW",
        "pi": "pi_session",
        "inspect-ai": "inspect_ai.log",
        "otlp": "otlp",
        "otel-console": "otlp:CONSOLE",
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
        "tau2-bench": "tau_bench:TAU2",
        "verifiers": "verifiers",
        "verifiers-results": "verifiers:RESULTS",
        "opencode": "opencode.sessions",
        "openhands-completions": "openhands_v1:COMPLETIONS",
        "cline": "cline",
        "sharegpt": "training_rows:SHAREGPT",
        "invariant": "invariant",
        "hierarchy": "hierarchy",
        "harbor-traces": "training_rows:HARBOR",
        "anthropic-history": "plain_conversations:ANTHROPIC_HISTORY",
        "chat-messages": "plain_conversations:CHAT_MESSAGES",  # tried after the formats whose files contain such lists
        "atif": "documents:ATIF",
        "trae-agent": "documents:TRAE_AGENT",
        "document": "documents:DOCUMENT",
    },
)
"""The formats of other tools (`ImportFormat` of `imports/foreign/formats.py`), in the order in which they are tried."""

EXPORT_FORMATS: Records[Any] = Records(
    "",
    "FORMAT",
    {
        "atif": "views.atif.document",
        "hierarchy": "views.hierarchy.document",
        "inspect": "views.inspect.log",
        "invariant": "views.invariant",
        "openai": "views.training.openai_finetuning",
        "otlp": "views.otlp.spans",
        "parquet": "tables.parquet",
        "session-traces": "views.session_traces",
        "toolbrain": "views.toolbrain.turns",
        "traces": "views.pi_sessions",
        "trae": "views.trae",
        "trl": "views.training.trl",
    },
)
"""The formats that `export` writes (`views/export_format.py`)."""
