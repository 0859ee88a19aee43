"""Whether the text after the name of a secret is a secret: no type, version, expression, word or placeholder.

For names that have other uses too (`token`, `key`, `auth`) the value has to look like a key. Invariant: a judgement
reads the first `LONGEST_LOOK` characters of a value at most.
"""

from __future__ import annotations

import re
from typing import Literal

from trace_recorder.storage.redaction.name_kinds import LONGEST_LOOK, Kind, is_strange

Form = Literal["quoted", "variable", "line", "bare"]
"""How a value is written after its name."""

SHORTEST = 4
SHORTEST_WEAK = 16
"""A value after a name that has other uses too has at least this many characters."""
_PATHS = ("/", "./", "~/", "../")
PLACE_FOR_ONE = re.compile(
    r"\[REDACTED|[$<{%@#]|\*{2}|\.{2}|x{3}|_{3}|-{2}|(?:your|my|some|the|insert|enter|change|replace|put|example|sample|dummy"
    r"|fake|placeholder|redacted|todo|none|null|nil|undefined|true|false|optional|required|env|os|process|self|this|args"
    r"|config|settings|options|opts|params|request|req|ctx|secrets|vault|var|data|input|lm-studio|ollama|not-needed|empty)"
    r"(?:\b|[-_.])|an?(?:[-_.]|\Z)|foo|bar|baz|test|passw|secret|token|api[-_]?key|hunter2?\Z|(.)\1*\Z",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-f]{1,100}")
_PREFIX_OF_KEY = re.compile(r"(?:an?|secret|token|test|api[-_]?key)[-_]", re.IGNORECASE)
_TYPE = re.compile(
    r"(?:u?int|float|bytes?|str(?:ing)?|utf|bool(?:ean)?|char|varchar|text|any|object|list|dict|number|none|sha|md|base|b|aes"
    r"|rsa|hmac|ed|es|hs|rs)[-_\d]*(?:\.[A-Za-z_]++)*",
    re.IGNORECASE,
)
_VERSION = re.compile(r"v?\d+(?:[._]\d++)+")
_DOTTED = re.compile(r"[A-Za-z_$]\w*(?:(?:\.|->|::)[A-Za-z_$]\w*+)+")
_WORDS = re.compile(r"[A-Za-z][-A-Za-z_.:/~+=@ ]*+")
_EXPRESSION = re.compile(
    r"[A-Za-z_$][A-Za-z_$0-9]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z_$0-9]*+)+|[A-Za-z_$][A-Za-z_$]*\d{0,2}|.*[=!<>]=.*|.*[+*] ?[a-z_]+"  # noqa: E501 - a pattern is read in one piece
)
_HASH = re.compile(
    r"(?:sha\d+[:-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})|[0-9a-f]{8}-[0-9a-f]{4}-.*", re.IGNORECASE
)
_SYMBOL = re.compile(r"[!@#$%^&*+=~?]")
_DIGIT = re.compile(r"\d")
_OPERATOR = re.compile(r"[=*+?]")
_CAMEL = re.compile(r"[a-z][A-Z]")
_CONSONANTS = re.compile(r"[A-Z]{2}|[b-df-hj-np-tv-z]{4}")


def is_secret_value(kind: Kind, name: str, value: str, form: Form) -> bool:  # noqa: PLR0911 - one rule a line
    """Whether the text after the name of a secret is one; `form` is how it is written there."""
    look = value[:LONGEST_LOOK]
    if len(value) < SHORTEST:
        return False
    if kind == "weak":  # what is no key at all is the most frequent case, and the cheapest to see
        return _is_strange_value(name, look, form) and not _is_no_value(name, look, form)
    if _is_no_value(name, look, form):
        return False
    if _WORDS.fullmatch(look):
        is_no_word = form == "variable" or is_strange(look, 8) or (form == "quoted" and _is_no_word(look))
        return len(look) >= 8 and look.isalpha() and is_no_word
    if look.startswith(_PATHS) and not is_strange(look, 30):
        return False
    has_digit = _DIGIT.search(look) is not None
    if form == "bare":
        return has_digit and len(look) >= 6 and (is_strange(look, 8) or _has_symbol(look))
    if len(look) < 8:
        return has_digit and not (look.isdigit() and form == "line")
    return has_digit or _SYMBOL.search(look) is not None


def _is_no_value(name: str, look: str, form: Form) -> bool:
    """Whether it is a placeholder, a type, a version, a URL or an expression."""
    if _is_placeholder(look) or ("{" in look and "}" in look) or look.lower() == name.lower():
        return True
    if look.endswith("...") or "xxxx" in look.lower() or "://" in look:
        return True
    if _TYPE.fullmatch(look) or _VERSION.fullmatch(look):
        return True
    return form != "quoted" and _DOTTED.fullmatch(look) is not None and not is_strange(look, 20)


def _is_placeholder(look: str) -> bool:
    """Whether a value stands for a secret; a key may begin with such a word (`secret_`, `test_`)."""
    found = PLACE_FOR_ONE.match(look)
    if found is None:
        return False
    word = _PREFIX_OF_KEY.match(look)
    rest = look[word.end() :] if word else ""
    return not (is_strange(rest, 20) or (len(rest) >= 32 and _HEX.fullmatch(rest)))


def _is_strange_value(name: str, look: str, form: Form) -> bool:
    """Whether a value looks like a key, if its name alone does not decide that."""
    if form != "variable" and name.lower().endswith(("sig", "signature")):
        return False  # signatures of reasoning are no secrets; those of URLs give access
    if not is_strange(look, SHORTEST_WEAK) or ":" in look or look.startswith(_PATHS):
        return False
    return form == "variable" or not name.lower().endswith("key") or _HASH.fullmatch(look) is None


def _has_symbol(look: str) -> bool:
    """Whether an unquoted value has a symbol as passwords do, and is no expression."""
    return _SYMBOL.search(look) is not None and _OPERATOR.search(look) is None and _EXPRESSION.fullmatch(look) is None


def _is_no_word(value: str) -> bool:
    """Whether letters alone are no word: they have capitals among small ones, or are more than words have."""
    return len(value) > 20 or (_CAMEL.search(value) is not None and _CONSONANTS.search(value) is not None)
