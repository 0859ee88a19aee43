"""Judges the names of values, and whether the value after a name is a secret.

`kind_of` judges a name by its end, in any spelling: `clientSecret` and `CLIENT_SECRET` count as the same name.
`is_secret_value` judges the value. A secret is not a type, a version, an expression, a word or a placeholder. After a
name with other uses (`token`, `key`, `auth`), a secret must look like a key (`is_strange`). Invariant: judging one
value takes a few operations on a bounded text. Otherwise a hostile text with very many names and values would take too
long.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from string import ascii_lowercase
from typing import Literal

from trace_recorder.lazy_patterns import lazy_pattern

Kind = Literal["strong", "weak", "cookie"]
Notation = Literal["quoted", "variable", "line", "sentence", "bare"]
"""How a value is written after its name.

"quoted" is in quotes. "variable" is assigned to a variable, or in the query of a URL. "line" is in a setting or after
an option. "sentence" is after a colon in a sentence. "bare" is inside other text, such as an expression.
"""
SCHEMES = (
    "(?:Bearer|Basic|Token|Api-?Key|Key|Negotiate|Digest|OAuth|Bot|SSWS|GenieKey|Splunk|sso-key|DeepL-Auth-Key"
    "|Klaviyo-API-Key)"
)
"""Matches the word before a credential in a header: an authorization scheme, or a word that a service uses instead."""


def _ends(first: str, last: str) -> tuple[str, ...]:
    return tuple(map("".join, product(first.split(), last.split())))


_SECRET_NAME_ENDS = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "secret", "secretkey", "secretkeybase"),
    *_ends("account access private signing encryption master subscription storage", "key"),
    *_ends("api access refresh auth bearer session security id oauth personal private", "token"),
    *("authorization", "authorizationtoken", "clientkeydata", "sharedaccesskey", "authkey"),
)
"""The ends of names that are always names of secrets. Names are compared without hyphens and underscores."""
_STRONG = (
    *_SECRET_NAME_ENDS,
    *_ends("client bot user app webhook github gitlab slack npm pypi hf vault deploy service admin login", "token"),
    *_ends("license deploy app service integration", "key"),
)
"""The ends of names whose values are secrets, unless the values are words, types or placeholders."""
_WEAK = ("token", "key", "auth", "credential", "credentials", "cred", "creds", "signature", "sig", "secret", "secrets")
"""The ends of names that are used for secrets and for other values.

A value after such a name is a secret only if it looks like a key.
"""
_NO_SECRET = (
    *_ends(
        "public primary foreign sort partition cache idempotency object row dict hash group index lookup map"
        " storageaccount route i18n unique composite natural registry host context msg message shortcut query",
        "key",
    ),
    *_ends(
        "next prev previous page continuation pagination sync eos bos pad unk sep cls mask special added image start"
        " end stop begin first last max min num total prompt completion csrfmeta cancel cancellation lex",
        "token",
    ),
    *("bypass", "compass", "monkey", "hotkey"),
)
_NO_SECRET_ALONE = lazy_pattern(
    r"turkey|hockey|jockey|donkey|whiskey|keyword|surpass|encompass|author|sha\d+", re.IGNORECASE
)
_UPPER = ("_KEY", "_TOKEN", "_SECRET", "_SECRETS", "_AUTH", "_CREDENTIAL", "_CREDENTIALS")
"""The ends of names in capitals whose values are secrets. Environment variables have such names."""
_COMPOUND = lazy_pattern(r"(?:x_)?(?:[a-z]+_){0,3}api_key|(?:x_)?(?:[a-z]+_){1,3}token")
_CAMEL = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = str.maketrans("", "", "_-")
_LONGEST_NAME = 60
_ABOUT_A_SECRET = lazy_pattern(
    r"(?:is|has|had|no|not|use|uses|show|hide|forgot|forgotten|reset|change|toggle|require|requires|required|need|needs|allow"
    r"|enable|disable|invalid|wrong|missing|incorrect|weak|expired|enter)[_-]",
    re.IGNORECASE,
)
"""Matches the beginnings of names such as `forgot_password`. The value of such a name is a text about a secret."""

LONGEST_JUDGED = 400
"""This many characters at the beginning of a value decide whether it is a secret. The whole value is masked."""
LONGEST_SAMPLE = 128
"""Letters and digits are counted in this many characters at the beginning of a value."""
_CLASSES = bytes.maketrans(
    bytes(range(256)), b" " * 48 + b"0" * 10 + b" " * 7 + b"A" * 26 + b" " * 6 + b"a" * 26 + b" " * 133
)
"""Translates each digit to `0`, each capital to `A`, each small letter to `a`, and other characters to a blank."""
_STEPS = (b"aA", b"a0", b"0a", b"0A", b"A0", b"AAa", b"aAA")
"""The changes between small letters, capitals and digits, except for a capital that begins a word.

The changes are counted in a text that was translated by `_CLASSES`, because this costs a twentieth of a search by a
pattern.
"""

_FOLLOWING = (
    "aabcdfgiklmnprstuvwxyz baeijlorsuy cacehiklorstuy dacdeilmnorstu eabcdefghiklmnopqrstuvwxyz facefilortu"
    " gaeghilnorsu haeiortu iabcdefgklmnoprstuvxz jaeosu kaeilostu lacdeilmostuvy mabeimopsu nacdefgiklmnoprstuvy"
    " oabcdfgijklmnoprstuvw padehiloprstuy qu rabcdefgiklmnoprstuvy sacefhiklmnopstuy tacdefhilmnoprstuvwy"
    " uabcdegilmnoprst vaeio waeinos xeipt yaeilmnpst zaeio"
)
"""Each letter with the letters that usually follow it in words.

In words that occur in three or more files of packages of PyPI and npm, these 315 pairs are 96 % of all pairs of
letters. In random letters, about half of all pairs are among these 315.
"""
_COMMON = frozenset(row[0] + letter for row in _FOLLOWING.split() for letter in row[1:])
_RARE = frozenset(map("".join, product(ascii_lowercase, repeat=2))) - _COMMON


@lru_cache(maxsize=4096)
def kind_of_name(name: str) -> Kind | None:
    """Return the kind of a name, or None if the name is not used for secrets.

    A "strong" name is always the name of a secret. A "weak" name is used for secrets and for other values. A "cookie"
    is a header with cookies.
    """
    name = name.rstrip("0123456789_-")[-_LONGEST_NAME:].lstrip("-")
    low = name.lower()
    flat = low.translate(_SEPARATORS)
    if low in ("cookie", "set-cookie"):
        return "cookie"
    if flat.replace(".", "").endswith(_NO_SECRET) or _NO_SECRET_ALONE.fullmatch(name):
        return None
    if (
        flat.endswith(_STRONG)
        or low.endswith("apikey")
        or (name.isupper() and (name.endswith(_UPPER) or name == "TOKEN"))
    ):
        return "strong"
    for short in ("pass", "pw"):
        if flat.endswith(short):
            return "strong" if _is_apart(name, len(short)) else None
    if not flat.endswith(_WEAK):
        return None
    spelled = _CAMEL.sub("_", name).replace("-", "_").lower()
    return "strong" if _COMPOUND.fullmatch(spelled) else "weak"


def _is_apart(name: str, length: int) -> bool:
    """Return whether the last `length` letters of a name are a separate word."""
    before = name[-length - 1 : -length]
    return not before or before in "_.-" or (name[-length].isupper() and not before.isupper())


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether the string of a field with this name is a secret, whatever the string looks like."""
    flat = name.rstrip("0123456789_-")[-_LONGEST_NAME:].lower().translate(_SEPARATORS)
    return flat.endswith((*_SECRET_NAME_ENDS, "apikey")) and _ABOUT_A_SECRET.match(_CAMEL.sub("_", name)) is None


def is_strange(value: str, shortest: int = 16) -> bool:
    """Return whether a text looks like a key: long, and with mixed letters and digits, or letters that form no word."""
    sample = value[:LONGEST_SAMPLE]
    if len(sample) < shortest or len(set(sample)) < 8:
        return False
    classes = sample.encode("latin-1", "replace").translate(_CLASSES)
    steps = sum(map(classes.count, _STEPS))
    if steps >= 3 and 5 * steps >= len(sample):
        return True
    if not (sample.islower() or sample.isupper()):
        return False  # names such as `DBClusters` have abbreviations, whose letters are rare pairs too
    low = sample.lower()
    steps += sum(map(_RARE.__contains__, map(str.__add__, low, low[1:])))
    return steps >= 3 and 5 * steps >= len(sample)


# ── the value ────────────────────────────────────────────────────────────────────────────────────────────────────────

SHORTEST = 4
SHORTEST_WEAK = 16
"""A value after a "weak" name is a secret only if it has at least this many characters."""
_PATHS = ("/", "./", "~/", "../")
PLACEHOLDER = lazy_pattern(
    r"\[redacted|\[%|[$<{%@#]|\*{2}|\.{2}|x{3}|_{3}|-{2}|(?:your|my|some|the|insert|enter|change|replace|put|example|sample|dummy"
    r"|fake|placeholder|redacted|todo|none|null|nil|undefined|true|false|optional|required|env|os|process|self|this|args"
    r"|config|settings|options|opts|params|request|req|ctx|secrets|vault|var|data|input|lm-studio|ollama|not-needed|empty)"
    r"(?:\b|[-_.])|an?(?:[-_.]|\Z)|foo|bar|baz|test|passw|secret|token|api[-_]?key|(.)\1*\Z",
)
"""Matches the beginning of a placeholder for a secret, such as `your-key`.

The text must be in lower case, because a pattern that ignores case would take twice as long.
"""
_HEX = lazy_pattern(r"[0-9a-f]{1,100}")
_PREFIX_OF_KEY = lazy_pattern(r"(?:an?|secret|token|test|api[-_]?key)[-_]")
_TYPE = lazy_pattern(
    r"(?:u?int|float|bytes?|str(?:ing)?|utf|bool(?:ean)?|char|varchar|text|any|object|list|dict|number|none|sha|md|base|b|aes"
    r"|rsa|hmac|ed|es|hs|rs)[-_\d]*(?:\.[a-z_]++)*",
)
_VERSION = lazy_pattern(r"v?\d+(?:[._]\d++)+")
_DOTTED = lazy_pattern(r"[A-Za-z_$]\w*(?:(?:\.|->|::)[A-Za-z_$]\w*+)+")
_WORDS = lazy_pattern(r"[A-Za-z][-A-Za-z_.:/~+=@ ]*+")
_SMALL_WORD = lazy_pattern(r"[a-z]{4,}(?>(?:-[a-z]++)*)")
_MENTIONS_SECRET = lazy_pattern(r"pass|secret|token|key|auth|cred|jwt|bearer")
_DESCRIBES_SECRET = lazy_pattern(
    r"(?:pass(?:word|wd)?|secrets?|token|key|auth|creds?|credentials?|ref)\Z"
    r"|(?:^|-)(?:pass(?:word|wd)?|secret|token|key|auth|fake|example|your|read|write)(?:-|\Z)"
    r"|^(?:missing|invalid|valid|hidden|unset|(?:un)?changed|unknown|wrong|incorrect|expired|(?:dis|en)abled|provided|removed)\Z"
)
"""Matches a word that may follow a secret's name but is not a secret.

The word mentions secrets or describes their state, as in `password: expired`, or is a permission, as in
`id-token: write`. The word may also be a placeholder, as in `secret: any-example`, or refer to a secret, as in
`secret: vault-ref`.
"""
_EXPRESSION = lazy_pattern(
    r"[A-Za-z_$][A-Za-z_$0-9]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z_$0-9]*+)+|[A-Za-z_$][A-Za-z_$]*\d{0,2}|.*[=!<>]=.*|.*[+*] ?[a-z_]+"  # noqa: E501 - a pattern is easier to read on one line
)
_HASH = lazy_pattern(
    r"(?:sha\d+[:-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})|[0-9a-f]{8}-[0-9a-f]{4}-.*", re.IGNORECASE
)
_SYMBOL = lazy_pattern(r"[!@#$%^&*+=~?]")
_DIGIT = lazy_pattern(r"\d")
_OPERATOR = lazy_pattern(r"[=*+?]")
_CAPITAL_INSIDE = lazy_pattern(r"[a-z][A-Z]")
_CONSONANTS = lazy_pattern(r"[A-Z]{2}|[b-df-hj-np-tv-z]{4}")


def is_credential(scheme: str, value: str, *, is_alone: bool) -> bool:
    """Return whether the text after an authorization scheme, such as `Bearer`, is a credential.

    If `is_alone` is True, nothing follows the text.
    """
    if len(value) < 8 or PLACEHOLDER.match(value.lower()):
        return False
    if _DIGIT.search(value) is not None or is_strange(value[:LONGEST_JUDGED], 12):
        return True
    return is_alone and scheme == "bearer" and value.isalpha() and _MENTIONS_SECRET.search(value.lower()) is None


def is_secret_value(kind: Kind, name: str, value: str, notation: Notation, *, is_alone: bool = False) -> bool:  # noqa: PLR0911 - one rule on each line
    """Return whether the text after the name of a secret is a secret.

    `notation` is how the value is written. If `is_alone` is True, nothing else follows the value in its line or in its
    element of XML.
    """
    sample = value[:LONGEST_JUDGED]
    if len(value) < SHORTEST:
        return False
    if kind == "weak":  # first the cheapest check, which most of these values fail: whether they look like a key
        return _is_strange_value(name, sample, notation) and not is_no_value(name, sample, notation)
    if is_no_value(name, sample, notation):
        return False
    if is_alone and _SMALL_WORD.fullmatch(sample):
        return _DESCRIBES_SECRET.search(sample) is None
    if _WORDS.fullmatch(sample):
        is_random = is_strange(sample, 8) and _MENTIONS_SECRET.search(sample.lower()) is None
        is_no_word = notation == "variable" or is_random or (notation == "quoted" and _is_no_word(sample))
        return len(sample) >= 8 and sample.isalpha() and is_no_word
    if sample.startswith(_PATHS) and not is_strange(sample, 30):
        return False
    has_digit = _DIGIT.search(sample) is not None
    if notation in {"sentence", "bare"}:
        is_word = notation == "bare" or _OPERATOR.search(sample) is not None
        return has_digit and len(sample) >= 6 and (not is_word or is_strange(sample, 8) or _has_symbol(sample))
    if len(sample) < 8:
        return has_digit and not (sample.isdigit() and notation == "line")
    return has_digit or _SYMBOL.search(sample) is not None


def is_no_value(name: str, sample: str, notation: Notation) -> bool:
    """Return whether a value is a placeholder, a type, a version, a URL or an expression."""
    low = sample.lower()
    if _is_placeholder(sample, low) or ("{" in sample and "}" in sample) or name.lower().endswith(low):
        return True
    if sample.isupper() and _MENTIONS_SECRET.search(low) and not is_strange(sample):
        return True
    if sample.endswith("...") or "xxxx" in low or "://" in sample:
        return True
    if _TYPE.fullmatch(low) or _VERSION.fullmatch(low):
        return True
    may_be_dotted = notation != "quoted" and ("." in sample or "->" in sample or "::" in sample)
    return may_be_dotted and _DOTTED.fullmatch(sample) is not None and not is_strange(sample, 20)


def _is_placeholder(sample: str, low: str) -> bool:
    """Return whether a value is a placeholder for a secret. A key may begin with such a word (`secret_`, `test_`)."""
    if PLACEHOLDER.match(low) is None:
        return False
    word = _PREFIX_OF_KEY.match(low)
    rest = sample[word.end() :] if word else ""
    return not (is_strange(rest, 20) or (len(rest) >= 32 and _HEX.fullmatch(rest)))


def _is_strange_value(name: str, sample: str, notation: Notation) -> bool:
    """Return whether a value after a "weak" name looks like a key."""
    if notation != "variable" and name.lower().endswith(("sig", "signature")):
        return False  # a signature of reasoning is not a secret; a signature in a URL gives access
    if not is_strange(sample, SHORTEST_WEAK) or ":" in sample or sample.startswith(_PATHS):
        return False
    return notation == "variable" or not name.lower().endswith("key") or _HASH.fullmatch(sample) is None


def _has_symbol(sample: str) -> bool:
    """Return whether an unquoted value has a symbol, as passwords have, and is not an expression."""
    if _SYMBOL.search(sample) is None or _OPERATOR.search(sample) is not None:
        return False
    return _EXPRESSION.fullmatch(sample) is None


def _is_no_word(value: str) -> bool:
    """Return whether letters are not a word: there are capitals among small letters, or more than 20 letters."""
    return len(value) > 20 or (_CAPITAL_INSIDE.search(value) is not None and _CONSONANTS.search(value) is not None)
