"""Secrets out, at the single place where records are written.

A redactor is a function of a text that returns it with the secrets in it masked. Invariants: masking is
deterministic and idempotent; what is masked says so ("[REDACTED:openai-key]"); of JSON, the strings are masked, one
by one and decoded, and nothing else is touched, so that it stays JSON with its structure and its numbers as they
were spelled. Prose is left alone: only the shapes of keys are looked for, members whose names say that they are
secret, and values that are known to be (the client's own key, the environment's *_API_KEY, *_TOKEN, *_SECRET,
*_PASSWORD). Signatures of reasoning and encrypted content have none of these shapes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from trace_recorder.json_text import COLON, STRING

Redactor = Callable[[str], str]

# Where a secret may begin: not in the middle of a word, but right behind an escape of JSON, whose last letter is none.
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
_END = r"(?![A-Za-z0-9_-])"

_SHAPES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # (what it is, texts of which every such secret contains one, its shape), those first that others may touch
    (
        "private-key",
        ("PRIVATE KEY-----",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"]{1,20000}?-----END [A-Z ]*PRIVATE KEY-----",
    ),
    (
        "url-password",
        ("://", ":\\/\\/"),
        r"(?:(?<=://)|(?<=:\\/\\/))(?!\[REDACTED)[^\s/:@\"\\]*:(?!\[REDACTED)[^\s/@\"\\]+(?=@)",
    ),
    ("anthropic-key", ("sk-ant-",), _START + r"sk-ant-[A-Za-z0-9_-]{16,}"),
    ("openai-key", ("sk-",), r"(?<![+/-])" + _START + r"sk-(?!ant-)(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}"),
    ("google-key", ("AIza",), _START + r"AIza[A-Za-z0-9_-]{35}" + _END),
    ("google-token", ("ya29.",), _START + r"ya29\.[A-Za-z0-9_-]{20,}"),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _START + r"gh[pousr]_[A-Za-z0-9]{36,}" + _END),
    ("github-token", ("github_pat_",), _START + r"github_pat_[A-Za-z0-9_]{30,}"),
    ("gitlab-token", ("glpat-",), _START + r"glpat-[A-Za-z0-9_-]{20,}"),
    ("slack-token", ("xox",), _START + r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("huggingface-token", ("hf_",), _START + r"hf_[A-Za-z0-9]{30,}" + _END),
    ("groq-key", ("gsk_",), _START + r"gsk_[A-Za-z0-9]{40,}" + _END),
    ("xai-key", ("xai-",), _START + r"xai-[A-Za-z0-9]{40,}" + _END),
    ("aws-key-id", ("AKIA", "ASIA"), _START + r"(?:AKIA|ASIA)[A-Z0-9]{16}" + _END),
    ("stripe-key", ("k_live_",), _START + r"[rs]k_live_[A-Za-z0-9]{20,}" + _END),
    ("bearer-token", ("earer ",), r"(?<=[Bb]earer )(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}=*"),
    ("jwt", ("eyJ",), _START + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "secret-member",  # of JSON that stands in a string
        ("uthorization", "pi_key", "piKey", "pi-key", "ccess_token", "efresh_token", "lient_secret", "ccess_key"),
        (
            r"(?<=\")(?P<name>(?:[Aa]uthorization(?:_token)?|(?:x-)?[Aa]pi[_-]?[Kk]ey|(?:access|refresh)_token"
            r"|client_secret|(?:aws_)?secret_access_key)\\?\"\s*:\s*\\?\")(?!\[REDACTED)[^\s\"\\]{8,}"
        ),
    ),
)
_SECRET_MEMBER = re.compile(
    r"authorization(_token)?|(x-)?api[_-]?key|(access|refresh)_token|client_secret|(aws_)?secret_access_key",
    re.IGNORECASE,
)
_SIGNS = tuple(sorted({sign for _, signs, _ in _SHAPES for sign in signs}))
_PATTERNS = tuple(
    ((r"\g<name>" if "(?P<name>" in shape else "") + f"[REDACTED:{what}]", signs, re.compile(shape))
    for what, signs, shape in _SHAPES
)

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
    for mask, signs, pattern in _PATTERNS:
        if any(sign in text for sign in signs):
            text = pattern.sub(mask, text)
    return text


class Redaction:
    """The redactors of one run, and the secrets that it has learned. `redact=None` turns all of it off."""

    def __init__(
        self, redact: Redactor | Sequence[Redactor] | None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._redactors = () if redact is None else (redact,) if callable(redact) else tuple(redact)
        self._looks_at_all = any(redactor is not default_redactor for redactor in self._redactors)
        self._seen: set[str] = set()
        self._secrets: tuple[str, ...] = ()
        self._pattern = re.compile(r"(?!)")
        self.learn(value for name, value in environment.items() if _SECRET_NAME.search(name))

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on wherever they appear, longest first. Shorter than 8 characters: not."""
        new = {secret for secret in secrets if secret not in self._seen}
        if not new or not self._redactors:
            return
        self._seen |= new
        known = {*self._secrets, *(spelled for one in new if _is_secret(one) for spelled in _spellings(one))}
        self._secrets = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))
        self._pattern = re.compile("|".join([re.escape(_MASK) + "|" + _ANY_MASK, *map(re.escape, self._secrets)]))

    def mask_plain(self, text: str) -> str:
        """Mask a text that is not JSON, or one string of it."""
        if any(secret in text for secret in self._secrets):
            text = self._pattern.sub(lambda found: found[0] if found[0].startswith("[REDACTED:") else _MASK, text)
        for redactor in self._redactors:
            text = redactor(text)
        return text

    def mask(self, text: str) -> str:
        """Mask the strings of JSON text. A redactor of the user's sees values only, not the names of members."""
        if not self._redactors or not (self._looks_at_all or self._may_hold_secrets(text)):
            return text
        name = ""

        def literal(found: re.Match[str]) -> str:
            nonlocal name
            value: str = json.loads(found[0])
            if COLON.match(text, found.end()):
                name = value
                masked = default_redactor(value) if default_redactor in self._redactors else value
            elif _SECRET_MEMBER.fullmatch(name) and _may_be_key(value) and _is_value(text, found.start()):
                masked = value if value.startswith("[REDACTED:") else "[REDACTED:secret-member]"
            else:
                masked = value if _PLACEHOLDER.fullmatch(value) else self.mask_plain(value)
            return found[0] if masked == value else json.dumps(masked, ensure_ascii=False)

        return STRING.sub(literal, text)

    def mask_stream(self, text: str) -> str:
        """Mask a stream's text, line by line: the strings of what is JSON in a line, or else the line."""
        if not self._redactors or not (self._looks_at_all or self._may_hold_secrets(text)):
            return text
        return "".join(self._mask_line(line) for line in _LINES.findall(text))

    def _mask_line(self, line: str) -> str:
        begin = _JSON_BEGIN.search(line)
        if begin is None:
            return line if _FIELD.match(line) else self.mask_plain(line)
        try:
            json.loads(line[begin.start() :])
        except (ValueError, RecursionError):
            return self.mask_plain(line)
        return line[: begin.start()] + self.mask(line[begin.start() :])

    def _may_hold_secrets(self, text: str) -> bool:
        """Whether to look at every string: a sign or a secret is there, or might be, spelled with escapes."""
        return "\\u" in text or "\\/" in text or any(sign in text for sign in (*_SIGNS, *self._secrets))


_MASK = "[REDACTED:known-secret]"
_ANY_MASK = r"\[REDACTED:[a-z-]+\]"
_PLACEHOLDER = re.compile(r"@string:\d+")
_JSON_BEGIN = re.compile(r"[{\[]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_FIELD = re.compile(r"(?:event|id|retry|:|\s*$)")


def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as it is, and as JSON spells it: it may stand in JSON that stands in a string."""
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


def _is_secret(value: str) -> bool:
    return len(value) >= _SHORTEST_SECRET and value.lower() not in _PLACEHOLDERS


def _may_be_key(value: str) -> bool:
    return _is_secret(value) and " " not in value


def _is_value(text: str, start: int) -> bool:
    """Whether what starts here is the value of the member whose name came last."""
    return text[:start].rstrip(" \t\n\r").endswith(":")


def clean_url(url: str) -> str:
    """A URL without user, password and query, but for parameters that are known to be harmless."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _HARMLESS_PARAMETERS]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))
