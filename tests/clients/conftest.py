"""The environment of the clients' tests: no keys, no proxies, and only the URLs that a test sets."""

from __future__ import annotations

import os
import re

import pytest

_OURS = re.compile(r"_PROXY$|^(OPENAI|AZURE|ARK|DOUBAO|OPENROUTER|ANTHROPIC|GEMINI|GOOGLE|OLLAMA)_", re.IGNORECASE)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if _OURS.search(name)]:
        monkeypatch.delenv(name)
