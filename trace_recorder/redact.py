"""Secrets out, at the single place where records are written.

A redactor is a function of a text that returns it with the secrets in it masked. Invariants: masking is
deterministic and idempotent; what is masked says so ("[REDACTED:openai-key]"); of JSON, the strings are masked, one
by one and decoded, and nothing else is touched, so that it stays JSON with its structure and its numbers as they
were spelled. Prose is left alone: only the shapes of keys are looked for (`secret_shapes.py`), members whose names say
that they are secret, and values that are known to be (the client's own key, the environment's *_API_KEY, *_TOKEN,
*_SECRET, *_PASSWORD). Signatures of reasoning and encrypted content have none of these shapes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from trace_recorder.guard import attempt
from trace_recorder.json_text import COLON, STRING
from trace_recorder.secret_shapes import SECRET_MEMBER, SECRET_VALUE, mask_shapes, may_begin, may_hold, unescaped
from trace_recorder.spelled import Part

Redactor = Callable[[str], str]

_SECRET_NAME = re.compile(
    r"(?:(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|ACCESS_?KEY|PRIVATE_?KEY)(?:$|_)|PGPASSWORD)"
    r"(?!.*(?:_|^)(?:FILE|PATH|DIR|URL|URI|HOST|ENDPOINT|NAME|ARN|TYPE|LIMIT)$)",
    re.IGNORECASE,
)
"""Variables of the environment that hold a secret, and not where one is to be found."""
_SHORTEST_SECRET = 8
_TELLING = 3
"""From this many letters on a word is the beginning of a secret that is known."""
_PLACEHOLDERS = frozenset(
    {"lm-studio", "not-needed", "not-used", "no-key-required", "sk-no-key-required", "placeholder", "anything"}
)
"""What people write where a key is asked for and none is needed; masking it would maim prose."""
_SECRET_PARAMETER = re.compile(r"key|token|secret|sig|password|auth|credential", re.IGNORECASE)
_HARMLESS_PARAMETERS = frozenset({"api-version", "alt", "beta", "$alt"})


def default_redactor(text: str) -> str:
    """Mask what has the shape of a key or token of a well-known provider, and passwords in URLs.

    Works on plain text and on JSON text alike: no shape crosses a string's end.
    """
    return mask_shapes(text)


class Redaction:
    """The redactors of one run, and the secrets that it has learned. `redact=None` turns all of it off."""

    def __init__(
        self, redact: Redactor | Sequence[Redactor] | None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._redactors = () if redact is None else (redact,) if callable(redact) else tuple(redact)
        self._looks_at_all = any(redactor is not default_redactor for redactor in self._redactors)
        self._seen: set[str] = set()
        self._secrets: tuple[str, ...] = ()
        self._traces: set[str] = set()
        self._pattern = re.compile(r"(?!)")
        self.learn(value for name, value in environment.items() if _SECRET_NAME.search(name))

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on wherever they appear, longest first. Shorter than 8 characters: not."""
        new = {stripped for secret in secrets if (stripped := secret.strip()) not in self._seen}
        if not new or not self._redactors:
            return
        self._seen |= new
        self._traces |= {_trace(secret) for secret in new if _is_secret(secret)}
        known = {*self._secrets, *(spelled for one in new if _is_secret(one) for spelled in _spellings(one))}
        self._secrets = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))
        self._pattern = re.compile("|".join([re.escape(_MASK) + "|" + _ANY_MASK, *map(re.escape, self._secrets)]))

    def mask_plain(self, text: str) -> str:
        """Mask a text that is not JSON, or one string of it."""
        text = self._mask_known(text)
        for redactor in self._redactors:
            masked = redactor(text)
            if not isinstance(masked, str):
                raise TypeError(f"the redactor {redactor!r} returned {type(masked).__name__}, and has to return a str")
            text = masked if _encodes(masked) or not _encodes(text) else masked.encode("utf-8", "replace").decode()
        return text

    def mask_gap(self, text: str) -> str:
        """Mask what is said of a failure; where it is a redactor that fails, with what this package knows itself."""
        return attempt(lambda: self.mask_plain(text), lambda _: mask_shapes(self._mask_known(text)))

    def mask_name(self, text: str) -> str:
        """Mask a name, past a redactor of the user's: what has the shape of a key, or is known, long, and no word."""
        if any(secret in text and _is_no_word(secret) for secret in self._secrets):
            text = self._mask_known(text)
        return mask_shapes(text) if default_redactor in self._redactors else text

    def _apart(self, name: str, names: dict[str, str]) -> str:
        """Mask a member's name; names that differ stay apart, so that no member is lost."""
        masked = self.mask_name(name)
        if masked == name:
            return name
        return names.setdefault(name, f"{masked} {len(names) + 1}" if masked in names.values() else masked)

    def _mask_known(self, text: str) -> str:
        if any(secret in text for secret in self._secrets):
            return self._pattern.sub(lambda found: found[0] if found[0].startswith("[REDACTED:") else _MASK, text)
        return text

    def mask(self, text: str) -> tuple[str, int]:
        """Mask the strings of JSON text; return it with the number of secrets that were in it.

        A redactor of the user's sees values only, not the names of members. A string that it changed counts as one.
        """
        if not self.sees(text):
            return text, 0
        name, count = "", 0
        names: dict[str, str] = {}

        def literal(found: re.Match[str]) -> str:
            nonlocal name, count
            value: str = json.loads(found[0])
            if COLON.match(text, found.end()):
                name = value
                masked = self._apart(value, names)
            elif SECRET_MEMBER.fullmatch(name) and _may_be_key(value) and _is_value(text, found.start()):
                masked = "[REDACTED:secret-member]"
            else:
                masked = value if _PLACEHOLDER.fullmatch(value) else self.mask_plain(value)
            if masked == value:
                return found[0]
            count += masks_in(value, masked)
            return json.dumps(masked, ensure_ascii=not _encodes(masked))

        return STRING.sub(literal, text), count

    def mask_all(self, texts: list[str]) -> list[tuple[str, int]]:
        """Mask several JSON texts, each as `mask` does."""
        return [self.mask(text) for text in texts] if self.sees("\n".join(texts)) else [(text, 0) for text in texts]

    def sees(self, text: str) -> bool:
        """Whether to look at every string: a sign or a secret is there, or may be, spelled with escapes."""
        return self._looks_at_all or self._sees_secrets(text)

    def _sees_secrets(self, text: str) -> bool:
        if not self._redactors:
            return False
        plainer = unescaped(text)
        return may_hold(plainer) or any(trace in plainer for trace in self._traces)

    def mask_stream(self, data: bytes, *, last: bool = True) -> tuple[bytes, int, int]:
        """Mask a part of a stream; return it with the number of secrets that were in it, and of how many bytes it is.

        If it is not the `last`, events at its end are left out in which a model may begin to spell a secret.
        """
        if not self._redactors:
            return data, 0, len(data)
        part = Part(data.decode("utf-8", "surrogateescape"))
        waiting = 0 if last else part.unfinished(self._opens)
        if waiting:
            part = Part(part.text[:-waiting])
            data = part.text.encode("utf-8", "surrogateescape")
        text, spelled = part.mask(self._sees_secrets, self._mask_secrets)
        masked, count = self._mask_lines(text)
        return masked.encode("utf-8", "surrogateescape"), spelled + count, len(data)

    def _mask_lines(self, text: str) -> tuple[str, int]:
        """Mask line by line: the strings of what is JSON in a line, or else the line."""
        if not self.sees(text):
            return text, 0
        masked = [self._mask_line(line) for line in _LINES.findall(text)]
        return "".join(line for line, _ in masked), sum(count for _, count in masked)

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask what is known, or has the shape of a secret, in bytes that are no UTF-8, and so will stand in base64."""
        try:
            data.decode()
        except UnicodeDecodeError:
            return self._mask_secrets(data.decode("latin-1")).encode("latin-1", "replace") if self._redactors else data
        return data

    def _opens(self, word: str) -> bool:
        """Whether a word may be the beginning of a secret, or a secret that goes on."""
        return may_begin(word) or any(
            word.endswith(secret[:length])
            for secret in self._secrets
            for length in range(_TELLING, min(len(secret), len(word) + 1))
        )

    def _mask_secrets(self, text: str) -> str:
        """Mask what is known to be secret, and what has the shape of it, past a redactor of the user's."""
        text = self._mask_known(text)
        return mask_shapes(text) if default_redactor in self._redactors else text

    def _mask_line(self, line: str) -> tuple[str, int]:
        if not self.sees(line):
            return line, 0
        begin = _JSON_BEGIN.search(line)
        if begin is not None and _is_json(line[begin.start() :]):
            masked, count = self.mask(line[begin.start() :])
            return line[: begin.start()] + masked, count
        field = begin is None and _FIELD.match(line)
        masked = self._mask_secrets(line) if field else self.mask_plain(line)
        return masked, masks_in(line, masked)


_BEGIN = "[REDACTED:"
_MASK = "[REDACTED:known-secret]"
_ANY_MASK = r"\[REDACTED:[a-z-]+\]"
_ESCAPABLE = re.compile(r"[^ !#-&(-.0-\[\]-~]")
_PLACEHOLDER = re.compile(r"@string:\d+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON_BEGIN = re.compile(r"[{\[]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_FIELD = re.compile(r"(?:event|id|retry|:|\s*$)")


def masks_in(text: str, masked: str) -> int:
    """How many secrets have been masked in a text; what a redactor of the user's changed in it counts as one."""
    return 0 if masked == text else max(1, masked.count(_BEGIN) - text.count(_BEGIN))


def _spellings(secret: str) -> set[str]:
    """A secret as it is, as Python's repr has it, and as JSON spells it once and twice."""
    once = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    twice = {json.dumps(spelled, ensure_ascii=False)[1:-1] for spelled in once}
    return {secret, repr(secret)[1:-1], repr(secret.encode())[2:-1], *once, *twice}


def _trace(secret: str) -> str:
    """The longest part of a secret that JSON spells in one way only; what has none is looked for everywhere."""
    return max(_ESCAPABLE.split(secret), key=len)


def _is_secret(value: str) -> bool:
    return len(value) >= _SHORTEST_SECRET and value.lower() not in _PLACEHOLDERS


def _is_no_word(secret: str) -> bool:
    """Whether a secret is none of the words by which a reader knows a member."""
    return len(secret) >= 16 and any(map(str.isdigit, secret))


def _may_be_key(value: str) -> bool:
    return _is_secret(value) and _BEGIN not in value and SECRET_VALUE.fullmatch(value) is not None


def _is_value(text: str, start: int) -> bool:
    """Whether what starts here is the value of the member whose name came last."""
    while text[start - 1] in " \t\n\r":
        start -= 1
    return text[start - 1] == ":"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _encodes(text: str) -> bool:
    """Whether no half of a surrogate pair stands in a text, as one that was cut off has it."""
    return text.isascii() or not _SURROGATE.search(text)


@lru_cache(maxsize=256)
def clean_url(url: str) -> str:
    """A URL without user, password and query, but for parameters that are known to be harmless."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _HARMLESS_PARAMETERS]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))


@lru_cache(maxsize=256)
def url_secrets(url: str) -> tuple[str, ...]:
    """The password and the keys in a URL, which `clean_url` leaves out: what else repeats them is masked."""
    parts = urlsplit(url)
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    return (unquote(password), *(value for name, value in parse_qsl(parts.query) if _SECRET_PARAMETER.search(name)))
