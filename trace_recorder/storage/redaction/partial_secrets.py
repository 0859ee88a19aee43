"""Finds the beginning of a possible secret at the end of a text that will be continued, such as a part of a stream.

The last word may become a key, a URL with a password, or the name of a secret. A word of small letters is harmless,
unless a key or the name of a secret may begin with these letters. A value after the name of a secret, the flags of a
command, and a private key may be incomplete too. The caller writes such an end of the text only together with the text
that follows. Invariant: the length of this end is bounded. A word or a key that is longer than any secret does not
wait.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from trace_recorder.storage.redaction.json_members import open_field
from trace_recorder.storage.redaction.name_kinds import SCHEMES
from trace_recorder.storage.redaction.patterns import BEGINNINGS, PEM_BEGIN, PEM_LONGEST, PPK_BEGIN

LONGEST = PEM_LONGEST + 100
"""This many characters at the end of a text are examined."""
LONGEST_WORD = 4096

_WORD_BACKWARDS = re.compile(rf"[!#-&*+\-./0-:<=?-_a-~]{{1,{LONGEST_WORD}}}+")
_LINE_BEFORE = re.compile(r"[^\n]{0,100}\Z")
_QUOTES = r"(?:\\{0,7}[\"'`\])]){0,3}"
_EMPHASIS_END = r"(?:\*{1,3}|__?|<(?:/[a-z]{0,6}>?)?)?"
"""Matches a part of the end of an emphasised name, as in `**Password**: x` or `<b>Password:</b> x`."""
_NAMED = re.compile(
    r"(?:pass(?:word|wd|phrase|code)?|pwd|pw|secrets?|token|key|auth(?:orization)?|credentials?|creds?|cookie|sig)"
    rf"[A-Za-z0-9_-]{{0,14}}{_QUOTES}{_EMPHASIS_END}(?:[ \t]{{0,20}}(?:=>|:=|\?=|[:=>,]|(?:is|was):?){_EMPHASIS_END}|,?\s{{0,20}}{_QUOTES}(?:value{_QUOTES}[ \t]{{0,20}}[:=]?|v?a?l?u?))?"  # noqa: E501 - a pattern is easier to read on one line
    rf"[ \t]{{0,20}}{_QUOTES}(?:{SCHEMES}[ ]{{0,3}})?[!#-&*+\-./0-:,;=?-_a-~]{{0,{LONGEST_WORD}}}\Z",  # noqa: E501 - a pattern is easier to read on one line
    re.IGNORECASE,
)
_ALONE = re.compile(
    r"(?:pass(?:word|wd|phrase|code)?|pwd|pw|secret|token|key|authorization)[A-Za-z0-9_-]{0,14}"
    rf"[ \t]{{0,20}}[:=>][ \t]{{0,20}}(?:{SCHEMES} {{1,3}})?[a-z-]{{4,200}}+"
    r"(?:[ \t]{1,20}|</[A-Za-z0-9_.-]{0,60})\Z",
    re.IGNORECASE,
)
"""Matches the name of a secret, with a value of small letters that may be alone in its line or XML element."""
_LINE = re.compile(
    r"(?:curl|sshpass|mysql|redis-cli|docker|podman|login|[Cc]ookie)"
    r"(?:[^\n]|(?<=\\)\n){0,500}\Z|(?:setx?|setenv|ENV)(?:[ \t]{1,20}-g?x)?(?:[ \t]{1,20}[A-Za-z0-9_-]{0,60})?\Z"
    r"|login\s{1,4}\S{1,64}\s{1,20}(?:p[a-z]{0,7}(?:\s{1,4}\S{0,200})?)?\Z"
    r"|[A-Za-z_]{1,40}\((?:\\{0,7}[\"'`][A-Za-z0-9_-]{0,60})?\Z"
)
_KEYS = (
    (
        PEM_BEGIN,
        re.compile(r"-----BEGIN (?:[A-Z0-9 ]{0,30}\Z|[A-Z0-9 ]{0,30}PRIVATE)"),
        re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"),
    ),
    (PPK_BEGIN, re.compile(r"Private-Lines: "), re.compile(r"Private-MAC: ")),
)
"""The formats of private keys.

Each format has a text that the first line contains, the pattern of the first line, and the pattern of the last line.
"""
_BEARER = re.compile(rf"[Bb]earer {{1,3}}[A-Za-z0-9._~+/%=-]{{0,{LONGEST_WORD}}}\Z")
_HASH = re.compile(r"\$(?:argon2|pbkdf2|scrypt|bcrypt)[!#-~]{0,400}\Z")
"""Matches the hash of a password.

The hash may have commas between its parameters. A word of `_WORD_BACKWARDS` has no commas.
"""
_STEMS = ("pass", "pw", "secret", "token", "key", "auth", "cred", "cookie", "sig", "bearer")
_LINE_WORDS = ("curl", "sshpass", "mysql", "redis-cli", "docker", "podman", "login", "cookie", "set", "env", "(")
_PATTERNS = ((_STEMS, _NAMED), (_STEMS, _ALONE), (_LINE_WORDS, _LINE), (("bearer ",), _BEARER), (("$",), _HASH))
"""Pairs of words and a pattern.

The pattern is tried only if the end of the text has one of the words, because a pattern that does not match is slow.
"""
_SEARCHED_CHARS = 600
"""The search by `_PATTERNS` begins this many characters before the last word of the text."""


def unfinished(text: str) -> int:
    """Return how many characters at the end of a text may belong to a secret that is not complete yet."""
    word = _WORD_BACKWARDS.match(text[: -LONGEST_WORD - 1 : -1])
    start = len(text)
    if word is not None and word.end() < LONGEST_WORD and not _is_harmless(word[0][::-1]):
        start -= word.end()
    first = max(0, start - _SEARCHED_CHARS)
    low = text[first:].lower()
    for words, pattern in _PATTERNS:
        match = pattern.search(text, first) if any(map(low.__contains__, words)) else None
        if match is not None:
            before = _LINE_BEFORE.search(text, max(0, match.start() - 100), match.start())
            start = min(start, before.start() if before else match.start())
    opened = open_field(text)
    start = min(start, opened) if opened >= 0 else start
    for sign, key, key_end in _KEYS:
        begin = text.rfind(sign)
        if 0 <= begin < start and len(text) - begin <= PEM_LONGEST and key.match(text, begin):
            end = key_end.search(text, begin)
            start = begin if end is None or end.end() > start else start
    return len(text) - start


_OPENERS = ("curl", "mysql", "sshpass", "redis", "docker", "podman", "login", "set", "define", "machine", "is", "was")
_BEGINNINGS = sorted((*BEGINNINGS, *_OPENERS))
_WORD = re.compile(r"([A-Z]?[a-z]+)([.,;!?)]{0,3})")


def _is_harmless(word: str) -> bool:
    """Return whether a word has small letters only, and can begin neither a key nor the name of a secret."""
    whole = _WORD.fullmatch(word)
    word = whole[1] if whole is not None else ""
    if len(word) < 3 or word.startswith(BEGINNINGS):
        return False
    at = bisect_left(_BEGINNINGS, word)
    if "".join(_BEGINNINGS[at : at + 1]).startswith(word) or word.startswith(_OPENERS):
        return False
    low = word.lower()
    if any(stem in low for stem in _STEMS):
        return False
    ends = whole is not None and whole[2]  # after punctuation, the word does not continue as the name of a secret
    return bool(ends) or not any(low.endswith(stem[:n]) for stem in _STEMS for n in range(1, len(stem)))
