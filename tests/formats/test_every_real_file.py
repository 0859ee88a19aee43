"""Every real file of another tool passes the same checks as our own runs: validation, and each export."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.exporting import check_exports
from tests.formats.files import DIRECTORY, check_run, real_files
from tests.searching import part_of
from trace_recorder import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import runs_in
from trace_recorder.formats.recognition import format_of

_EMPTY = ("2025-05-12_no-samples.json",)
"""Files in a known format that have no run."""


_TOOLS = (
    *("atif", "claude-code", "codex", "gemini-cli", "inspect", "langfuse", "langsmith", "llm", "mini-swe-agent"),
    *("mlflow", "opencode", "openhands-v0", "openhands-v1", "others", "otel", "phoenix", "pi", "swe-agent"),
    *("tau-bench", "trae-agent"),
)


@pytest.mark.parametrize("tool", _TOOLS)
def test_each_run_is_valid_and_can_be_exported(tool: str, tmp_path: Path) -> None:
    """CI reads half of the files of each tool."""
    read = 0
    known = [path for path in real_files(f"{tool}/**/*") if format_of(Source(path)) is not None]
    for path in part_of(known):
        if path.name in _EMPTY:
            with pytest.raises(TrajectoryFormatError, match="no sample"):
                next(runs_in(Source(path)))
            continue
        for run in runs_in(Source(path)):
            read += 1
            check_exports(check_run(run, tmp_path), tmp_path / "exports")
    assert read


FORMATS: dict[str, str | None] = {
    "README.md": None,
    "newest/README.md": None,
    "newest/truth.json": None,
    "newest/2026-11-28/README.md": None,
    "newest/2026-11-28/**/*.settings.json": None,
    "newest/deepseek-harness/*": None,
    "**/*.meta.json": None,
    "opencode/*/*/message/**/*": None,
    "opencode/*/*/part/**/*": None,
    "opencode/**/migration": None,
    "langfuse/*.chatml.json": None,
    "atif/phoenix/subagent_trajectories.json": None,
    "atif/**/*": "atif",
    "claude-code/**/*": "claude-code",
    "codex/**/*": "codex",
    "gemini-cli/**/*": "gemini-cli",
    "inspect/**/*": "inspect-ai",
    "langfuse/*.otlp.json": "otlp",
    "langfuse/*": "langfuse",
    "langsmith/sdk-tests/anthropic_managed*": "managed-agents",
    "langsmith/**/*": "langsmith",
    "llm/*": "llm",
    "mini-swe-agent/*": "mini-swe-agent",
    "mlflow/**/*": "mlflow",
    "newest/2026-11-28/*/*.messages.json": "cline-sessions",
    "newest/2026-11-28/cline-*/*": None,
    "newest/2026-11-28/claude-*/**/*": "claude-code",
    "newest/2026-11-28/antigravity-*": "antigravity",
    "newest/2026-11-28/cursor-*": "cursor",
    **{f"newest/2026-11-28/{name}-*/**/*": name for name in ("codex", "copilot", "droid", "kimi", "opencode", "pi")},
    "newest/2026-11-28/qwen-*/**/*": "qwen",
    "newest/chat/cline*": "cline-sessions",
    "newest/chat/litellm_proxy__*": "openhands-completions",
    "newest/claude-code-*/**/*": "claude-code",
    "newest/cli/gemini-cli-0.61.0.jsonl": "gemini-cli",
    "newest/cli/gemini-cli-0.61.0.stream.jsonl": "gemini-stream",
    "newest/cli/pi-*": "pi",
    "newest/cli/qwen-*": "qwen",
    "newest/codex-*/*": "codex",
    "newest/spans/*.otlp.json": "otlp",
    "newest/spans/console-*": "otel-console",
    "opencode/**/*": "opencode",
    "openhands-v0/*": "openhands-v0",
    "openhands-v1/fncall-llm-message.json": "chat-messages",
    "openhands-v1/**/*": "openhands",
    "otel/*.jsonl": "otel-console",
    "otel/*": "otlp",
    "phoenix/*": "phoenix",
    "pi/**/*": "pi",
    "swe-agent/*": "swe-agent",
    "tau-bench/*": "tau-bench",
    "trae-agent/*": "trae-agent",
    **{f"others/{name}/*": name for name in ("copilot", "cursor", "droid", "grok", "hermes", "iflow", "kimi")},
    **{f"others/{name}/*": name for name in ("openclaw", "qwen", "traex")},
}
"""The format of each real file, by patterns. The first pattern that matches decides."""


@pytest.mark.parametrize("pattern", FORMATS)
def test_each_file_is_recognised_as_its_format_and_as_no_other(pattern: str) -> None:
    before = [*FORMATS][: [*FORMATS].index(pattern)]
    earlier = {path for other in before for path in DIRECTORY.glob(other)}
    found = {path.as_posix(): format_of(Source(path)) for path in real_files(pattern) if path not in earlier}
    assert found == dict.fromkeys(found, FORMATS[pattern])
