"""What holds for every framework: no settings of the environment's own, no telemetry, and their own warnings let be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.frameworks.judgement import Runs

_SETTINGS = ("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_", "LANGSMITH_", "LANGCHAIN_", "LITELLM_", "DSPY_")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """How the programs of a test are run: in a directory of its own."""
    for name in os.environ:
        if name.startswith(_SETTINGS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return Runs(tmp_path, monkeypatch)
