"""Keys for SDKs that require one before they send anything. A replay sends nothing, so any key will do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_PLACEHOLDER = "none-is-needed-for-a-replay"
_PROVIDERS = "ANTHROPIC ARK AZURE_OPENAI CO DEEPSEEK DOUBAO GEMINI GOOGLE GROQ MISTRAL OPENAI OPENROUTER TOGETHER XAI"
_OTHER_NAMES = {
    "ANTHROPIC_API_KEY": "ANTHROPIC_AUTH_TOKEN",
    "ARK_API_KEY": "DOUBAO_API_KEY",
    "AZURE_OPENAI_API_KEY": "AZURE_OPENAI_AD_TOKEN",
    "DOUBAO_API_KEY": "ARK_API_KEY",
    "GEMINI_API_KEY": "GOOGLE_API_KEY",
    "GOOGLE_API_KEY": "GEMINI_API_KEY",
}
"""For some variables, another variable that may have the key of the same SDK."""


def missing_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return placeholders for the variables of keys that an environment lacks.

    If another variable has the key of the same SDK, the SDK might prefer a placeholder to that key. So there is no
    placeholder then.
    """
    names = [f"{provider}_API_KEY" for provider in _PROVIDERS.split()]
    return {name: _PLACEHOLDER for name in names if environment.keys().isdisjoint({name, _OTHER_NAMES.get(name, name)})}


@contextmanager
def placeholder_keys() -> Iterator[None]:
    """Set the variables of missing keys in this process, until the block ends."""
    added = missing_keys(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        for name, key in added.items():
            if os.environ.get(name) == key:
                del os.environ[name]
