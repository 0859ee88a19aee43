"""What holds for every framework: no settings of the environment's own, nothing sent home, their own warnings let be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.frameworks.judgement import Runs

_SETTINGS = ("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_", "LANGSMITH_", "LANGCHAIN_", "LITELLM_", "DSPY_")
_QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",  # its own tracer sends to api.openai.com
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks github.com for prices
    "LANGSMITH_TRACING": "false",
}
_WARNINGS: tuple[str, ...] = ()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let be what the frameworks warn of, recorded or not, here alone."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for warning in _WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """How the programs of a test are run: in a directory of its own."""
    for name in os.environ:
        if name.startswith(_SETTINGS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in {**_QUIET, "DSPY_CACHEDIR": str(tmp_path / "dspy")}.items():
        monkeypatch.setenv(name, value)
    return Runs(tmp_path, monkeypatch)
