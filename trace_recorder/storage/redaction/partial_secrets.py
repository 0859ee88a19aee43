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

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.first_look import COMMAND_WORDS, STEMS
from trace_recorder.storage.redaction.json_members import open_field
from trace_recorder.storage.redaction.key_forms import HASH_BEGINNINGS
from trace_recorder.storage.redaction.name_kinds import SCHEMES
from trace_recorder.storage.redaction.name_patterns import SIGNS
from trace_recorder.storage.redaction.patterns import BEGINNINGS, PEM_LONGEST, PRIVATE_KEYS

LONGEST = PEM_LONGEST + 100
"""This many characters at the end of a text are examined."""
LONGEST_WORD = 4096

_WORD_BACKWARDS = lazy_pattern(rf"[!#-&*+\-./0-:<=?-_a-~]{{1,{LONGEST_WORD}}}+")
_LONGEST_BEFORE = 100
"""At most this many characters before a name, in its line, wait together with the name."""
_QUOTES = r"(?:\\{0,7}[\"'`\])]){0,3}"
_EMPHASIS_END = r"(?:\*{1,3}|__?|<(?:/[a-z]{0,6}>?)?)?"
"""Matches a part of the end of an emphasised name, as in `**Password**: x` or `<b>Password:</b> x`."""
_NAME = rf"(?:{'|'.join(STEMS)})[A-Za-z0-9_-]{{0,24}}"
_PAIR = rf",?\s{{0,20}}{_QUOTES}(?:value{_QUOTES}[ \t]{{0,20}}[:=]?|v?a?l?u?)"
"""Matches a part of the text between the string of a member "name" and the string of the member "value" after it."""
_NAMED = lazy_pattern(
    rf"{_NAME}{_QUOTES}{_EMPHASIS_END}"
    rf"(?:[ \t]{{0,20}}(?:{SIGNS}|[>,]|(?:is|was):?){_EMPHASIS_END}|{_PAIR})?"
    rf"[ \t]{{0,20}}{_QUOTES}(?:{SCHEMES}[ ]{{0,3}})?[!#-&*+\-./0-:,;=?-_a-~\u00c0-\u052f]{{0,{LONGEST_WORD}}}\Z",
    re.IGNORECASE,
)
_ALONE = lazy_pattern(
    rf"{_NAME}[ \t]{{0,20}}[:=>][ \t]{{0,20}}(?:{SCHEMES} {{1,3}})?[a-z-]{{4,200}}+"
    r"(?:[ \t]{1,20}|</[A-Za-z0-9_.-]{0,60})\Z",
    re.IGNORECASE,
)
"""Matches the name of a secret, with a value of small letters that may be alone in its line or XML element."""
_LINE = lazy_pattern(
    rf"(?:{'|'.join(COMMAND_WORDS)}|docker|podman|[Cc]ookie)"
    r"(?:[^\n]|(?<=\\)\n){0,500}\Z|(?:setx?|setenv|ENV)(?:[ \t]{1,20}-g?x)?(?:[ \t]{1,20}[A-Za-z0-9_-]{0,60})?\Z"
    r"|login\s{1,4}\S{1,64}\s{1,20}(?:p[a-z]{0,7}(?:\s{1,4}\S{0,200})?)?\Z"
    r"|[A-Za-z_]{1,40}\((?:\\{0,7}[\"'`][A-Za-z0-9_-]{0,60})?\Z"
)
_BEARER = lazy_pattern(rf"[Bb]earer {{1,3}}[A-Za-z0-9._~+/%=-]{{0,{LONGEST_WORD}}}\Z")
_METHODS = "|".join(re.escape(beginning) for beginning in HASH_BEGINNINGS if len(beginning) > len("$sha1"))
_HASH = lazy_pattern(rf"(?:{_METHODS})[!#-~]{{0,400}}\Z")
"""Matches the hash of a password.

The hash may have commas between its parameters. A word of `_WORD_BACKWARDS` has no commas.
"""
_WORDS_OF_NAMES = (*STEMS, "bearer")
_LINE_WORDS = (*COMMAND_WORDS, "docker", "podman", "cookie", "set", "env", "(")
_PATTERNS = (
    (STEMS, _NAMED),
    (STEMS, _ALONE),
    (_LINE_WORDS, _LINE),
    (("bearer ",), _BEARER),
    (("$",), _HASH),
)
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
        if not any(map(low.__contains__, words)):
            continue
        match = pattern.search(text, first)
        if match is not None:
            begin = max(0, match.start() - _LONGEST_BEFORE)
            start = min(start, max(begin, text.rfind("\n", begin, match.start()) + 1))
    opened = open_field(text)
    if opened >= 0:
        start = min(start, opened)
    for literal, begins, ends in PRIVATE_KEYS:
        begin = text.rfind(literal)
        if 0 <= begin < start and len(text) - begin <= PEM_LONGEST and begins.match(text, begin):
            end = ends.search(text, begin)
            if end is None or end.end() > start:
                start = begin
    return len(text) - start


_OPENERS = (*COMMAND_WORDS, "docker", "podman", "set", "define", "machine", "is", "was")
_BEGINNINGS = sorted((*BEGINNINGS, *_OPENERS))
_WORD = lazy_pattern(r"([A-Z]?[a-z]+)([.,;!?)]{0,3})")


def _is_harmless(word: str) -> bool:
    """Return whether a word has small letters only, and can begin neither a key nor the name of a secret."""
    whole = _WORD.fullmatch(word)
    if whole is None:
        return False
    word = whole[1]
    if len(word) < 3 or word.startswith(BEGINNINGS):
        return False
    at = bisect_left(_BEGINNINGS, word)
    if "".join(_BEGINNINGS[at : at + 1]).startswith(word) or word.startswith(_OPENERS):
        return False
    low = word.lower()
    if any(stem in low for stem in _WORDS_OF_NAMES):
        return False
    if whole[2]:  # after punctuation, the word does not continue as the name of a secret
        return True
    return not any(low.endswith(stem[:n]) for stem in _WORDS_OF_NAMES for n in range(1, len(stem)))
