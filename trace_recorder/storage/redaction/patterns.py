r"""Finds secrets by their own form: makes patterns, and a quick look before them, of the rows in `key_forms.py`.

Invariants: every pattern is a prefix of a few letters, then parts of bounded length, then at most one possessive
repeat as its end. So an attempt at one place takes bounded time or ends in a match, and all of them take linear time,
whatever the text. `signs` gives a place in every text in which a row finds something.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trace_recorder.storage.redaction.candidates import SHORTEST, Look
from trace_recorder.storage.redaction.key_forms import AFTER_TEXT, WITH_BEGINNING, WITH_MIDDLE

_WORD = "A-Za-z0-9_"
_UNMISTAKABLE = ("AIza", "AKIA", "ASIA", "dapi")
"""Letters that may follow a slash; others occur in images that are written in base64."""

_BREAK = r"(?:\\{1,7}[nr]|[\r\n])"
_PEM_LINE = rf"(?>(?:\\{{1,7}}[nrt]|[\r\n\t +>|]){{0,12}})(?:[A-Za-z0-9+/=]{{12,}}+|[A-Za-z-]{{3,12}}: [A-Za-z0-9,-]{{1,60}}+|[A-Za-z0-9+/=]{{1,11}}+(?=\s{{0,3}}(?:{_BREAK}|\Z)))"  # noqa: E501 - a pattern is read in one piece
PEM_LONGEST = 20_000
"""The END of a private key is searched for in this many characters after its BEGIN."""
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:(?>(?:[^\"<-]|-(?!----)){{1,{PEM_LONGEST}}})-----END [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----"
    rf"|(?=(?:[^\n\"<]{{0,80}}{_BREAK}){{0,4}}?[ \t+>|]{{0,8}}[A-Za-z0-9+/=]{{12}})(?>(?:{_PEM_LINE})*))"
)
PEM_BEGIN = "-----BEGIN "


@dataclass(frozen=True)
class Shape:
    """One pattern, texts of which each of its secrets has one, and the mask, for the group `secret` if there is one."""

    what: str
    signs: tuple[str, ...]
    regex: str
    grouped: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when a text has one of the signs: to compile all of them delays every import."""
        return re.compile(self.regex)

    def mask(self, text: str) -> str:
        """Return a text with every secret of this shape masked."""
        if not any(sign in text for sign in self.signs):
            return text
        mask = f"[REDACTED:{self.what}]"
        if not self.grouped:
            return self.pattern.sub(mask, text)
        return self.pattern.sub(
            lambda found: found[0][: found.start(1) - found.start()] + mask + found[0][found.end(1) - found.start() :],
            text,
        )


def _boundary(prefix: str, length: int) -> str:
    r"""The text where a secret with this prefix may begin, in front of the last `length` characters.

    It is no word, except for an escape of JSON, of a URL or of a terminal, as its last letter is no word.
    """
    at = f".{{{length}}}"
    within = "+/" if prefix == "sk-" or (prefix.isalnum() and prefix not in _UNMISTAKABLE) else ""
    after_plus = rf"|(?<=[\s>\"]\+{at})|(?<=\A\+{at})|(?<=\\n\+{at})" if within else ""
    return (
        rf"(?:(?<![{_WORD}{within}]{at})|(?<=\\[bfnrt]{at})|(?<=(?:%[0-9A-F]{{2}}|[0-9;\[][0-9]m){at})"
        rf"|(?<=\\u[0-9A-Fa-f]{{4}}{at}){after_plus})"
    )


def _shapes() -> Iterator[Shape]:
    yield Shape("private-key", (PEM_BEGIN,), _PEM)
    for what, beginnings, follows, _ in WITH_BEGINNING:
        for prefix in beginnings.split():
            yield Shape(what, (prefix,), re.escape(prefix) + _boundary(prefix, len(prefix)) + follows)
    for what, middle, before, _, follows, _ in WITH_MIDDLE:
        start = rf"(?:(?<![{_WORD}-])|(?<=\\[bfnrt])|(?<=[0-9;\[][0-9]m))"
        yield Shape(what, (middle,), f"{start}{before}{re.escape(middle)}{follows}")
    for what, beginning, follows, _ in AFTER_TEXT:
        yield Shape(what, (beginning,), re.escape(beginning) + follows, grouped=True)


SHAPES = tuple(_shapes())
BEGINNINGS = tuple(sorted({prefix for _, some, _, _ in WITH_BEGINNING for prefix in some.split() if len(prefix) > 2}))
"""How the secrets of the table begin."""

# ── the quick look ───────────────────────────────────────────────────────────────────────────────────────────────────

_MARKS = "-_."
_LONG = (
    rf"(?=[A-Za-z0-9_+/=.-]{{{SHORTEST}}})"
    r"(?=[A-Za-z_+/=.-]{0,80}[0-9]|[A-Z_+/=.-]{0,80}[a-z][a-z_+/=.-]{0,80}[A-Z])"
)
"""What follows a mark in a key, and seldom in anything else."""


_RARE = re.compile("[~|A-Z]")
"""Characters that are rare enough to be searched for alone."""


def _signs() -> tuple[re.Pattern[str], tuple[tuple[str, re.Pattern[str]], ...]]:
    """Return one pattern for the shapes that contain a mark or a rare character, which begins each match, and for
    each of the other shapes a text that has to be there and a pattern that begins with it.

    In either case a whole secret has to be there, so that a text without one is not searched twice.
    """
    by_mark: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
    alone = [(middle, rf"(?<={last}{re.escape(middle)}){follows}") for _, middle, _, last, follows, _ in WITH_MIDDLE]
    alone += [(beginning, follows) for _, beginning, follows, _ in AFTER_TEXT if " " not in beginning]
    for _, some, follows, _ in WITH_BEGINNING:
        for prefix in some.split():
            at = max(prefix.rfind(mark) for mark in _MARKS)
            if at < 0:
                alone.append((prefix, _boundary(prefix, len(prefix)) + follows))
            else:
                by_mark[prefix[at]].append((prefix, at, follows))
    by_character: dict[str, list[str]] = defaultdict(list)
    for mark, rows in by_mark.items():
        by_character[mark].append(_behind_mark(mark, rows))
    others: list[tuple[str, re.Pattern[str]]] = []
    for text, follows in alone:
        found = _RARE.search(text) or _MARK.search(text)
        if found is None:
            others.append((text, re.compile(re.escape(text) + follows, re.ASCII)))
            continue
        behind = rf"(?<={re.escape(text[: found.end()])})" if found.start() else ""
        by_character[found[0]].append(f"{behind}{re.escape(text[found.end() :])}{follows}")
    options = "|".join(f"{re.escape(one)}(?:{'|'.join(some)})" for one, some in by_character.items())
    return re.compile(options, re.ASCII), tuple(others)


def _behind_mark(mark: str, rows: Sequence[tuple[str, int, str]]) -> str:
    """Return what has to stand behind a mark, and before it: the place of the mark in each prefix, and what follows.

    Prefixes with the mark in the same place share the text before them: half of a pattern's time to compile is that.
    """
    groups: dict[tuple[int, str], list[tuple[str, str]]] = defaultdict(list)
    for prefix, at, follows in rows:
        groups[at, _boundary(prefix, at + 1)].append((prefix, follows))
    options = []
    for (at, boundary), some in groups.items():
        first = "".join(sorted({prefix[0] for prefix, _ in some}))
        each = (f"(?<={re.escape(p[: at + 1])}){re.escape(p[at + 1 :])}{follows}" for p, follows in some)
        options.append(f"(?<=[{first}].{{{at}}}){boundary}(?:{'|'.join(each)})")
    last = "".join(sorted({re.escape(prefix[at - 1]) for prefix, at, _ in rows}))
    return rf"(?<=[{last}]{re.escape(mark)}){_LONG}(?:{'|'.join(options)})"


_MARK = re.compile(f"[{_MARKS}]")
_SIGN, _OTHER_SIGNS = _signs()


_PLACED_SIGNS = (
    (PEM_BEGIN, re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE")),
    *((begin, re.compile(re.escape(begin) + follows, re.ASCII)) for _, begin, follows, _ in AFTER_TEXT if " " in begin),
)
"""Those of several words."""


def signs(look: Look) -> list[int]:
    """Return where in a text a secret of the table may be."""
    plain, words = look.plain, look.words
    places: list[int] = []
    for gate, pattern in _PLACED_SIGNS:
        if gate in plain:
            places += [found.start() for found in pattern.finditer(plain)]
    if words:
        if _SIGN.search(words):
            places += [look.place(found.start()) for found in _SIGN.finditer(words)]
        for gate, pattern in _OTHER_SIGNS:
            if gate in words:
                places += [look.place(found.start()) for found in pattern.finditer(words)]
    return places
