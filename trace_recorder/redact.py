"""Secrets out, at the single place where records are written.

A redactor is a function of a text that returns it with the secrets in it masked. Invariants: masking is
deterministic and idempotent, what is masked says so ("[REDACTED:openai-key]"), and a record that was valid JSON
stays so. Prose is left alone: only the shapes of keys are looked for, and values that are known to be secret (the
client's own key, the environment's *_API_KEY, *_TOKEN, *_SECRET, *_PASSWORD). Signatures of reasoning and
encrypted content have none of these shapes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from trace_recorder.conversation import Payload

Redactor = Callable[[str], str]

_SHAPES: tuple[tuple[str, str, str], ...] = (
    # (what it is, a text that every such secret contains, its shape)
    ("anthropic-key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    ("openai-key", "sk-", r"(?<![A-Za-z0-9_+/-])sk-(?!ant-)[A-Za-z0-9_-]{20,}"),
    ("google-key", "AIza", r"\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("google-token", "ya29.", r"\bya29\.[A-Za-z0-9_-]{20,}"),
    ("github-token", "gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("github-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    ("gitlab-token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("slack-token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{30,}\b"),
    ("groq-key", "gsk_", r"\bgsk_[A-Za-z0-9]{40,}\b"),
    ("xai-key", "xai-", r"\bxai-[A-Za-z0-9]{40,}\b"),
    ("aws-key-id", "A", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("stripe-key", "_live_", r"\b[rs]k_live_[A-Za-z0-9]{20,}\b"),
    ("bearer-token", "earer ", r"(?<=[Bb]earer )(?!\[REDACTED)[A-Za-z0-9._~+/-]{20,}=*"),
    ("jwt", "eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("private-key", "PRIVATE KEY-----", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]+-----END [A-Z ]*PRIVATE KEY-----"),
    ("url-password", "://", r"(?<=://)(?!\[REDACTED)[^\s/:@\"\\]*:(?!\[REDACTED)[^\s/@\"\\]+(?=@)"),
)
_PATTERNS = tuple((f"[REDACTED:{what}]", sign, re.compile(shape)) for what, sign, shape in _SHAPES)

_SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_?KEY)(?:$|_)", re.IGNORECASE)
_SHORTEST_SECRET = 8
_PLACEHOLDERS = frozenset(
    {"lm-studio", "not-needed", "not-used", "no-key-required", "sk-no-key-required", "placeholder", "anything"}
)
"""What people write where a key is asked for and none is needed; masking it would maim prose."""
_HARMLESS_PARAMETERS = frozenset({"api-version", "alt", "beta", "$alt"})


def default_redactor(text: str) -> str:
    """Mask what has the shape of a key or token of a well-known provider, and passwords in URLs.

    Works on plain text and on JSON text alike: no shape crosses a string's end.
    """
    for mask, sign, pattern in _PATTERNS:
        if sign in text:
            text = pattern.sub(mask, text)
    return text


class Redaction:
    """The redactors of one run, and the secrets that it has learned. `redact=None` turns all of it off."""

    def __init__(
        self, redact: Redactor | Sequence[Redactor] | None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._redactors = () if redact is None else (redact,) if callable(redact) else tuple(redact)
        self._secrets: tuple[str, ...] = ()
        self.learn(value for name, value in environment.items() if _SECRET_NAME.search(name))

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on wherever they appear, longest first. Shorter than 8 characters: not."""
        known = set(self._secrets)
        for secret in secrets:
            if len(secret) >= _SHORTEST_SECRET and secret.lower() not in _PLACEHOLDERS:
                known.update((secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]))
        if self._redactors and len(known) > len(self._secrets):
            self._secrets = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))

    def mask(self, text: str) -> str:
        """Mask JSON text. A redactor other than the default one sees the strings in it, one by one, decoded."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, "[REDACTED:known-secret]")
        for redactor in self._redactors:
            text = redactor(text) if redactor is default_redactor else _mask_strings(redactor, text)
        return text

    def mask_plain(self, text: str) -> str:
        """Mask text that is not JSON, such as a raw stream."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, "[REDACTED:known-secret]")
        for redactor in self._redactors:
            text = redactor(text)
        return text


def _mask_strings(redactor: Redactor, text: str) -> str:
    return json.dumps(_masked(redactor, json.loads(text)), ensure_ascii=False, separators=(",", ":"))


def _masked(redactor: Redactor, value: Payload) -> Payload:
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, list):
        return [_masked(redactor, element) for element in value]
    if isinstance(value, dict):
        return {name: _masked(redactor, element) for name, element in value.items()}
    return value


def clean_url(url: str) -> str:
    """A URL without user, password and query, but for parameters that are known to be harmless."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _HARMLESS_PARAMETERS]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))
