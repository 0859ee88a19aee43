r"""Secrets that are known by a name before them: `password: …`, `--token …`, `"clientSecret": "…"`, `curl -u me:…`.

Three questions are answered, each in one place. Is it the name of a secret (`kind_of`)? Is the text after it a value,
or a type, an expression or a placeholder (`_judge`)? Where does the value end (`_QUOTED_VALUE`, `_BARE_VALUE`)? For
names that have other uses too (`token`, `key`, `auth`) the value has to look like a secret. Invariants: a pattern here
searches a bounded part of the text for each place at which it begins, and every place is tried once; no mask replaces a
quote or a backslash, so that JSON text stays JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal

from trace_recorder.storage.redaction.candidates import Beginnings, Look
from trace_recorder.storage.redaction.commands import command_sign
from trace_recorder.storage.redaction.name_kinds import LONGEST_LOOK, SCHEMES, Kind, is_strange, kind_of

Span = tuple[int, int]

_QUOTE = r"\\{0,7}[\"'`]"
_SPACE = r"[ \t]{0,20}"
_SEPARATOR = (
    rf"(?:(?P<close>{_QUOTE})?(?P<bracket>\])?{_SPACE}"
    rf"(?:(?P<assign>=>|:=|\?=|=|:)|(?P<comma>,)|(?P<xml>>)|(?P<pair>,?(?:(?:\s|\\{{1,7}}[nrt]|[+>|-]){{0,20}}|\s{{0,3}}\n[^\n\"'\\]{{0,60}}?)(?:{_QUOTE})?value(?:{_QUOTE})?\s{{0,3}}[:=]))"
    rf"{_SPACE}|(?P<blank>[ \t]{{1,4}}(?:is[ \t]|was[ \t])?))"
)
_OPEN = rf"(?P<open>{_QUOTE})?(?P<scheme>{SCHEMES} {{1,3}})?"
_STEM = r"(?P<stem>pass(?:word|wd|phrase|code)?|pwd|pw|secrets?|token|key|auth(?:orization)?|credentials?|creds?|cookie|sig(?:nature)?)"  # noqa: E501 - a pattern is read in one piece
_REST = r"(?P<rest>[_-]?(?:base|data|token|key|2|new|old|current|prod|dev|test|value)?)"
_NAMED = re.compile(
    rf"{_STEM}{_REST}{_SEPARATOR}{_OPEN}",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"[A-Za-z0-9_.-]{0,60}+")
"""The letters of a name before its stem, read backwards, so that one try finds them."""
_QUOTED_VALUE = re.compile(r"[^\s\"'`\\<>\0-\x1f]++")
_QUOTED_LOOK = re.compile(rf"[^\s\"'`\\<>\0-\x1f]{{1,{LONGEST_LOOK}}}+")
_BARE_LOOK = re.compile(rf"[^\s\"'`\\<>,;&|(){{}}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]{{1,{LONGEST_LOOK}}}+")
_BARE_VALUE = re.compile(r"[^\s\"'`\\<>,;&|(){}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]++")
_REST_OF_LINE = re.compile(r"[^\"'`\\\r\n<>]{8,}+")
_PATHS = ("/", "./", "~/", "../")
_SHORTEST = 4

_PLACE_FOR_ONE = re.compile(
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
_COOKIES = re.compile(r"(?:[\w.-]{1,60}+=[^\s;]{0,60}+; ?){0,8}[\w.-]{1,60}+=(?=[^\s;\d]{0,60}\d)[^\s;=]{8}")
_WORDS = re.compile(r"[A-Za-z][-A-Za-z_.:/~+=@ ]*+")
_EXPRESSION = re.compile(
    r"[A-Za-z_$][A-Za-z_$0-9]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z_$0-9]*+)+|[A-Za-z_$][A-Za-z_$]*\d{0,2}|.*[=!<>]=.*|.*[+*] ?[a-z_]+"  # noqa: E501 - a pattern is read in one piece
)
_HASH = re.compile(
    r"(?:sha\d+[:-])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})|[0-9a-f]{8}-[0-9a-f]{4}-.*", re.IGNORECASE
)
_SYMBOL = re.compile(r"[!@#$%^&*+=~?]")


def is_secret_member(name: str, value: str, is_known: Callable[[str], bool]) -> bool:
    """Whether the value of a member of JSON is secret by the member's name."""
    kind = kind_of(name)
    if kind is None:
        return False
    if kind == "cookie":
        return "[REDACTED" not in value and _COOKIES.match(value) is not None
    said = _SCHEME.sub("", value.strip(), count=1)
    return is_known(said) or (re.search(r"\s", said) is None and _judge(kind, name, said, "quoted"))


_SCHEME = re.compile(rf"{SCHEMES} {{1,3}}", re.IGNORECASE)
Form = Literal["quoted", "variable", "line", "bare"]


def _judge(kind: Kind, name: str, value: str, form: Form) -> bool:  # noqa: PLR0911 - one rule a line
    """Whether the text after the name of a secret is one; `form` is how it is written there."""
    look = value[:LONGEST_LOOK]
    if len(value) < _SHORTEST:
        return False
    if kind == "weak":  # what is no key at all is the most frequent case, and the cheapest to see
        return _is_strange_value(name, look, form) and not _is_no_value(name, look, form)
    if _is_no_value(name, look, form):
        return False
    if _WORDS.fullmatch(look):
        is_no_word = is_strange(look, 8) or form == "variable" or (form == "quoted" and _is_no_word(look))
        return len(look) >= 8 and look.isalpha() and is_no_word
    if look.startswith(_PATHS) and not is_strange(look, 30):
        return False
    has_digit = any(map(str.isdigit, look))
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
    found = _PLACE_FOR_ONE.match(look)
    if found is None:
        return False
    word = _PREFIX_OF_KEY.match(look)
    rest = look[word.end() :] if word else ""
    return not (is_strange(rest, 20) or (len(rest) >= 32 and _HEX.fullmatch(rest)))


def _is_strange_value(name: str, look: str, form: Form) -> bool:
    """Whether a value looks like a key, if its name alone does not decide that."""
    if name.lower().endswith(("sig", "signature")) and form != "variable":
        return False  # signatures of reasoning are no secrets; those of URLs give access
    is_hash = form != "variable" and name.lower().endswith("key") and _HASH.fullmatch(look) is not None
    return is_strange(look) and not is_hash and ":" not in look and not look.startswith(_PATHS)


def _has_symbol(look: str) -> bool:
    """Whether an unquoted value has a symbol as passwords do, and is no expression."""
    is_operator = re.search(r"[=*+?]", look) is not None
    return _SYMBOL.search(look) is not None and not is_operator and _EXPRESSION.fullmatch(look) is None


def _is_no_word(value: str) -> bool:
    """Whether letters alone are no word: they have capitals among small ones, or are more than words have."""
    return len(value) > 20 or (
        re.search(r"[a-z][A-Z]", value) is not None and re.search(r"[A-Z]{2}|[b-df-hj-np-tv-z]{4}", value) is not None
    )


def secrets_by_name(text: str, places: list[int], is_known: Callable[[str], bool]) -> Iterator[Span]:
    """Return where secrets follow their names, at the `places` of the text that `signs` gives.

    `is_known` says whether a value is a known secret.
    """
    done = 0
    for at in sorted(places):
        found = _NAMED.match(text, at) if at >= done else None
        span = _value_of(text, found, is_known) if found else None
        if span is not None:
            yield span
            done = span[1]


def _value_of(text: str, found: re.Match[str], is_known: Callable[[str], bool]) -> Span | None:
    """Return where the secret after a name is; None if there is none."""
    if text.rfind("[REDACTED:", max(0, found.start() - 40), found.start()) > text.rfind(
        "]", max(0, found.start() - 40), found.start()
    ):
        return None  # it is the name of a mask
    begin = _name_begins(text, found.start())
    name = text[begin : found.start()] + found["stem"] + found["rest"]
    kind = kind_of(name)
    if kind == "cookie":
        return _cookies(text, found) if found["assign"] else None
    form = _form(text, begin, found, name)
    if kind is None or form is None:
        return None
    said = _said(text, found)
    if is_known(said):
        is_secret = True
    elif found["scheme"]:
        is_secret = len(said) >= 8 and not _PLACE_FOR_ONE.match(said) and any(map(str.isdigit, said))
    else:
        is_secret = _judge(kind, name, said, form)
    return (found.end(), _end_of(text, found, len(said))) if is_secret else None


def _end_of(text: str, found: re.Match[str], looked: int) -> int:
    """Return where a secret ends after the characters that were examined: it may be longer than these."""
    if looked < LONGEST_LOOK:
        return found.end() + looked
    value = (_QUOTED_VALUE if found["open"] else _BARE_VALUE).match(text, found.end())
    return value.end() if value else found.end() + looked


def _said(text: str, found: re.Match[str]) -> str:
    """Return the value after a name; empty if it is one of several words, a number of JSON, or a function's name."""
    value = (_QUOTED_LOOK if found["open"] else _BARE_LOOK).match(text, found.end())
    if value is None or value[0][0] in ":,]}" or "[REDACTED" in value[0]:
        return ""
    behind = text[value.end() : value.end() + 1]
    if found["open"]:
        return "" if behind.isspace() else value[0]
    is_json = found["close"] and _JSON_SCALAR.fullmatch(value[0])
    return "" if is_json or (behind and behind in "([{") else value[0].rstrip(".:")


def _name_begins(text: str, stem: int) -> int:
    """Return where the name with this stem begins: the text before it may be an escape that ends in letters."""
    before = _BEFORE.match(text[max(0, stem - 60) : stem][::-1])
    begin = stem - before.end() if before else stem
    if text[begin - 1 : begin] == "\\" and text[begin : begin + 1] in ("n", "r", "t", "b", "f"):
        return begin + 1
    escape = _ESCAPE.match(text, begin, stem) if text[begin - 1 : begin] in ("[", "%", ";", "\\") else None
    return escape.end() if escape else begin


_ESCAPE = re.compile(r"(?<=[\[;])[0-9]{1,3}m|(?<=%)[0-9A-Fa-f]{2}|(?<=\\)u[0-9A-Fa-f]{4}")


def _cookies(text: str, found: re.Match[str]) -> Span | None:
    if not _COOKIES.match(text, found.end()):
        return None  # the line is read only if cookies begin it: a long line may have many names
    line = _REST_OF_LINE.match(text, found.end())
    return line.span() if line and _COOKIES.match(line[0]) and "[REDACTED" not in line[0][:400] else None


def _form(text: str, begin: int, found: re.Match[str], name: str) -> Form | None:
    """Return how a value is written after its name; None if no value is there."""
    before = text[max(0, begin - 60) : begin]
    if found["blank"]:
        return _behind_blank(before, name, found["blank"])
    if found["comma"]:
        is_list = name.startswith("--") or _CALLED.search(before)
        return "quoted" if found["close"] and found["open"] and is_list else None
    if found["xml"]:
        return "line" if before.endswith("<") else None
    if found["open"] or found["scheme"]:
        return "quoted"
    if (
        found["pair"]
        or found["close"]
        or _LINE_BEGINS.search(before)
        or (before[-1:] in ("'", '"', " ") and "-" in name)
    ):
        return "variable" if name.isupper() and found["assign"] else "line"
    return _assigned(before, name) if text[found.end() - 1] == "=" else "bare"


def _assigned(before: str, name: str) -> Form:
    """Return how a value after an equals sign is written: of a variable, parameter or setting, or an expression."""
    if name.isupper() or re.search(r"[;?&]\Z|--\Z", before):
        return "variable"
    is_setting = name[:1].islower() and (not before or before[-1] in "\n \t[+m\"'`|>nrt")
    return "line" if is_setting and not re.search(r"[(,][^)\n]*\Z", before) else "bare"


def _behind_blank(before: str, name: str, blank: str) -> Form | None:
    """Command lines (`--password x`), netrc, `setx NAME x`, `ENV NAME x`, and "the password is x"."""
    if before.endswith("--") or name.startswith("-") or re.search(r"(?:\A|\s)-\Z", before):
        return "line"
    if _SET_BEFORE.search(before):
        return "line"
    return "bare" if re.search(r"is |was ", blank) else None


_SET_BEFORE = re.compile(
    r"(?:login[ \t]{1,4}[^\s\\]{1,64}(?:[ \t]|(?:\n|\\{1,7}n)(?:[^\n\"'\\]{0,40}?[ \t+])??)"
    r"|(?:setx|set -g?x|(?<![A-Za-z])set|ENV|setenv)[ \t])[ \t]{0,19}\Z"
)
"""A command that sets a variable; the user of a .netrc, whose password may be in the next line."""
_CALLED = re.compile(r"[A-Za-z_]\(\\{0,7}[\"'`]\Z")
_LINE_BEGINS = re.compile(r"(?:\A|[\n\r+>|\"'`-]|\\n|\[[0-9;]{1,8}m)[ \t-]{0,60}\Z")
_JSON_SCALAR = re.compile(r"[-+\d.eE]+|true|false|null")

# ── the quick look ───────────────────────────────────────────────────────────────────────────────────────────────────

_STRANGE_SIGN = r"(?=[^\s\"'`\\<>0-9!@#$%^&*+~]{0,100}+[0-9!@#$%^&*+~])[^\s\"'`\\<>,;&|(){}\[\]]{4}"
_SCHEME_SIGN = r"(?:[a-z-]{3,15}+ {1,3}+)?"
_PAIR_SIGN = (
    r",?(?:(?:\s|\\{1,7}[nrt]|[+>|-]){0,20}|\s{0,3}(?:\n|\\{1,7}n)[^\n\"'\\]{0,60}?)"
    r"[\\\"'`]{0,9}value[\\\"'`]{0,9}\s{0,3}[:=]"
)
_ASSIGNED_SIGN = (
    r"[ \t]{0,20}+[\\\"'`]{0,9}"
    + _SCHEME_SIGN
    + rf"(?:{_STRANGE_SIGN}|[a-z][a-z_-]{{3}}|\\{{0,7}}[\"'`]?[a-z0-9]{{0,3}}\\)"
)
_VALUE_SIGN = (
    rf"(?:[a-z0-9_\-]{{0,14}}+(?:[\\\"'`\]]{{0,10}}[ \t]{{0,20}}+(?:=>|:=|\?=|=|:|>|{_PAIR_SIGN}){_ASSIGNED_SIGN}"
    r"|(?:[\\\"'`]{1,9},| is | was |[ \t])[ \t]{0,20}+[\\\"'`]{0,9}+"
    + _SCHEME_SIGN
    + rf"(?:{_STRANGE_SIGN}|[a-z]{{10}}))"
    + rf"|[a-z0-9_\-]{{0,14}}?(?=-|value){_PAIR_SIGN}{_ASSIGNED_SIGN})"
)
"""A value after a stem; the last form is that of a name that ends inside a word."""
_COOKIE_SIGN = r"cookie[\\\"']{0,9}[ \t]{0,3}[:=][ \t]{0,3}[\\\"']{0,9}[\w.-]{1,60}="


_SIGNS = tuple(
    (letters.split(), re.compile("|".join(some), re.ASCII))
    for letters, *some in (
        ("sec sig", rf"(?:secret|sig)(?={_VALUE_SIGN})"),
        ("tok key", rf"(?:token|key)(?!s[^a-z0-9_-])(?={_VALUE_SIGN})"),  # tokens and keys are counts and lists
        ("aut", rf"auth(?={_VALUE_SIGN})"),
        ("cre coo cur", command_sign("curl"), command_sign("cookies"), _COOKIE_SIGN, rf"cred(?={_VALUE_SIGN})"),
        ("pas", command_sign("sshpass", 3), rf"pass(?={_VALUE_SIGN})"),
        ("pw? s-c", command_sign("redis-cli", 4), rf"pw(?={_VALUE_SIGN})"),
        ("log", command_sign("login")),
        ("mys", command_sign("mysql")),
    )
)
"""Three letters, and what has to be where they are."""
_BEGINNINGS = Beginnings([letters for letters, _ in _SIGNS])
_MATCHES = tuple(pattern.match for _, pattern in _SIGNS)


def signs(look: Look) -> list[int]:
    """Return where in a text a secret may be that is recognised by its name."""
    places: list[int] = []
    low = ""
    for number, at in _BEGINNINGS.places(look.data):
        low = low or look.data.lower().decode("latin-1")
        found = _MATCHES[number](low, at)
        if found and (found.lastindex or _may_be_named(look.plain, at)):
            places.append(at)
    return places


def _may_be_named(plain: str, at: int) -> bool:
    """Whether a stem may be that of a secret's name; a cookie has none."""
    stem = _STEM_ALONE.match(plain, at)
    if stem is None or _NAME_ENDS.match(plain, at):
        return True
    end = _NAME_BEHIND.match(plain, at)
    return end is None or kind_of(plain[_name_begins(plain, at) : end.end()]) is not None


_STEM_ALONE = re.compile("pass|pw|secret|token|key|auth|cred|sig", re.IGNORECASE)
_NAME_ENDS = re.compile(rf"{_STEM}{_REST}(?=-|value)", re.IGNORECASE)
"""A name that ends before the word does."""
_NAME_BEHIND = re.compile("[A-Za-z0-9_-]++")
