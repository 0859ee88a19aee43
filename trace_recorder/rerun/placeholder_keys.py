"""Keys for SDKs that require one before they send anything. A replay sends nothing, so any key will do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_PROVIDERS = "ANTHROPIC ARK AZURE_OPENAI DEEPSEEK GEMINI GOOGLE GROQ MISTRAL OPENAI OPENROUTER TOGETHER XAI"
PLACEHOLDER_KEYS: Mapping[str, str] = {
    f"{provider}_API_KEY": "none-is-needed-for-a-replay" for provider in _PROVIDERS.split()
}


@contextmanager
def placeholder_keys() -> Iterator[None]:
    """Set the variables of keys in this process, until the block ends. A variable that is set stays as it is."""
    added = {name: key for name, key in PLACEHOLDER_KEYS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, key in added.items():
            if os.environ.get(name) == key:
                del os.environ[name]
