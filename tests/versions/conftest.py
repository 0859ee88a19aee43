"""A fixture for all shapes of clients: the environment has neither a proxy nor settings."""

from __future__ import annotations

import os

import pytest

_SETTINGS = ("OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(_SETTINGS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
