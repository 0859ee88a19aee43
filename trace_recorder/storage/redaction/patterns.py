r"""The regular expressions of secrets that are recognised by their form, built from the rows of `key_forms.py`.

Invariant: every pattern is a prefix of a few letters, then parts of bounded length, then at most one possessive repeat
as its end. So an attempt at one position takes bounded time or ends in a match, and all attempts together take linear
time in any text. `key_finder.py` chooses the positions of a text at which the patterns are tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.key_forms import (
    AFTER_ID,
    AFTER_TEXT,
    HASH_BEGINNINGS,
    WITH_BEGINNING,
    WITH_MIDDLE,
)

_WORD = "A-Za-z0-9_"
_ESCAPES = (r"\\[bfnrt]", "%[0-9A-F]{2}", r"[0-9;\[][0-9]m", r"\\u[0-9A-Fa-f]{4}")
"""Match escapes that end in letters or digits, such as `%2F`."""
_LINE_BEGINS = (r"\A[+-]", r"[\s>\"][+-]", r"\\n[+-]")
"""Match the sign that a diff has before a line."""
_BREAK = r"(?:\\{1,7}[nr]|[\r\n])"
_PEM_LINE = rf"(?>(?:\\{{1,7}}[nrt]|[\r\n\t +>|]){{0,12}})(?:[A-Za-z0-9+/=]{{12,}}+|[A-Za-z-]{{3,12}}: [A-Za-z0-9,-]{{1,60}}+|[A-Za-z0-9+/=]{{1,11}}+(?=\s{{0,3}}(?:{_BREAK}|\Z)))"  # noqa: E501 - a pattern is easier to read on one line
PEM_LONGEST = 20_000
"""The END of a private key is looked for in at most this many characters after its BEGIN."""
_PEM_BEGINS = r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE"
_PEM_END = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_PEM = (
    rf"{_PEM_BEGINS} KEY(?: BLOCK)?-----"
    rf"(?:(?>(?:[^\"<-]|-(?!----)){{1,{PEM_LONGEST}}}){_PEM_END}"
    rf"|(?=(?:[^\n\"<]{{0,80}}{_BREAK}){{0,4}}?[ \t+>|]{{0,8}}[A-Za-z0-9+/=]{{12}})(?>(?:{_PEM_LINE})*))"
)
_PEM_BEGIN = "-----BEGIN "
_PPK_BEGIN, _PPK_END = "Private-Lines: ", "Private-MAC: "
_PPK = (
    rf"{_PPK_BEGIN}[0-9]{{1,4}}"
    rf"((?>(?:[^\"<P]|P(?!rivate-)){{1,{PEM_LONGEST}}})(?={_PPK_END})"
    rf"|(?=[ \r]{{0,2}}{_BREAK}[ \t+>|]{{0,8}}[A-Za-z0-9+/=]{{12}})(?>(?:{_PEM_LINE})*))"
)
"""Matches a private key of PuTTY: its lines, up to the following checksum."""


class PrivateKeyFormat(NamedTuple):
    """A format of private keys.

    `literal` is a text that the first line contains. `begins` matches the first line, and `ends` the last line.
    """

    literal: str
    begins: re.Pattern[str]
    ends: re.Pattern[str]


PRIVATE_KEYS = (
    PrivateKeyFormat(
        _PEM_BEGIN, lazy_pattern(rf"{_PEM_BEGINS}|{_PEM_BEGIN}[A-Z0-9 ]{{0,30}}\Z"), lazy_pattern(_PEM_END)
    ),
    PrivateKeyFormat(_PPK_BEGIN, lazy_pattern(_PPK_BEGIN), lazy_pattern(_PPK_END)),
)
"""The formats of private keys. In a text that may go on, the first line may be incomplete."""


@dataclass(frozen=True, eq=False)
class SecretForm:
    """The form of one kind of secret.

    `what` is the name in the form's mask. `literal` is a text that each such secret contains, or that is right before
    it. `regex` matches the secret. If `grouped` is True, the secret is only the first group of `regex`. If the literal
    is in the middle of the secret, `up_to_literal` matches the secret up to the end of the literal, and `from_literal`
    matches it from the literal on.
    """

    what: str
    literal: str
    regex: str
    grouped: bool = False
    from_literal: str = ""
    up_to_literal: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when a text has the literal. Compiling all patterns would delay every import."""
        return re.compile(self.regex)

    @cached_property
    def literal_pattern(self) -> re.Pattern[str]:
        """The compiled `from_literal` if the literal is in the middle of the secret, and otherwise `pattern`."""
        if not self.from_literal:
            return self.pattern
        return re.compile(self.from_literal)

    @cached_property
    def _begin_pattern(self) -> re.Pattern[str]:
        return re.compile(self.up_to_literal)

    def secret_at(self, text: str, position: int) -> tuple[int, int] | None:
        """Return the span of the secret whose literal is at a position of a text, or None if there is no secret."""
        if not self.up_to_literal:
            match = self.pattern.match(text, position)
            return None if match is None else match.span(self.grouped)
        behind = self.literal_pattern.match(text, position)
        if behind is None:
            return None
        first, end = max(0, position - _LONGEST_BEFORE), position + len(self.literal)
        begin = self._begin_pattern.search(text, first, end)
        if begin is None:
            return None
        return begin.start(), behind.end()


_LONGEST_BEFORE = 100
"""A secret begins at most this many characters before its literal."""


def _boundary(prefix: str) -> str:
    r"""Return a pattern that matches right after a prefix, if a secret may begin where the prefix begins.

    A letter or digit may be before the prefix only if it ends an escape of JSON, of a URL or of a terminal. A hyphen or
    plus sign may be the mark of a line in a diff. Otherwise these characters, and slashes, are probably inside base64,
    in which short prefixes occur by chance.
    """
    within = "-" if len(prefix) < 6 else ""
    if prefix.isalnum():
        within = "+/-" if "AA" in prefix else f"+{within}"
    return _not_inside(len(prefix), within)


@cache
def _not_inside(length: int, within: str) -> str:
    """Return a pattern for the place that is `length` characters after a beginning. `within` are letters of base64."""
    at = f".{{{length}}}"
    before = [rf"(?<![{_WORD}{within}]{at})", *(rf"(?<={end}{at})" for end in (*_ESCAPES, *_LINE_BEGINS))]
    return f"(?:{'|'.join(before)})"


def _forms() -> Iterator[SecretForm]:
    yield SecretForm("private-key", _PEM_BEGIN, _PEM, from_literal=_PEM_BEGINS)
    yield SecretForm("private-key", _PPK_BEGIN, _PPK, grouped=True, from_literal=rf"{_PPK_BEGIN}[0-9]")
    for what, beginnings, follows, _ in AFTER_ID:
        for prefix in beginnings.split():
            yield SecretForm(what, prefix, re.escape(prefix) + _boundary(prefix) + follows, grouped=True)
    for what, beginnings, follows, _ in WITH_BEGINNING:
        for prefix in beginnings.split():
            literals: tuple[str, ...] = (prefix,)
            if prefix == "$":  # a dollar sign alone is too frequent
                literals = HASH_BEGINNINGS
            for literal in literals:
                yield SecretForm(what, literal, re.escape(prefix) + _boundary(prefix) + follows)
    for what, middle, before, last, follows, _ in WITH_MIDDLE:
        start = "|".join([rf"(?<![{_WORD}-])", *(f"(?<={end})" for end in (*_ESCAPES, *_LINE_BEGINS))])
        text = re.escape(middle)
        yield SecretForm(
            what,
            middle,
            f"(?={before}{text})(?:{start}){before}{text}{follows}",
            from_literal=f"{text}(?<={last}{text}){follows}",
            up_to_literal=rf"(?:{start}){before}{text}\Z",
        )
    for what, beginning, follows, _ in AFTER_TEXT:
        yield SecretForm(what, beginning, re.escape(beginning) + follows, grouped=True)


FORMS = tuple(_forms())
BEGINNINGS = tuple(
    sorted({prefix for _, beginnings, _, _ in WITH_BEGINNING for prefix in beginnings.split() if len(prefix) > 2})
)
"""The beginnings of the secrets in `WITH_BEGINNING` that have more than two characters."""
