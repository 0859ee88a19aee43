r"""Finds secrets by their own form: makes patterns, and a quick look before them, of the rows in `key_forms.py`.

Invariants: every pattern is a prefix of a few letters, then parts of bounded length, then at most one possessive
repeat as its end. So an attempt at one place takes bounded time or ends in a match, and all of them take linear time,
whatever the text. `signs` gives a place in every text in which a row finds something.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from trace_recorder.storage.redaction.candidates import Look
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
    """One pattern, a text that each of its secrets has, and the mask, for the group of the pattern if it has one.

    `follows` is the pattern behind that text, and `boundary` where the text is; `is_prefix` if secrets begin with it.
    """

    what: str
    sign: str
    regex: str
    follows: str
    boundary: str = ""
    is_prefix: bool = False
    grouped: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when a text has the sign: to compile all of them delays every import."""
        return re.compile(self.regex)

    def mask(self, text: str) -> str:
        """Return a text with every secret of this shape masked."""
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
    yield Shape("private-key", PEM_BEGIN, _PEM, r"[A-Z0-9 ]{0,30}PRIVATE")
    for what, beginnings, follows, _ in WITH_BEGINNING:
        for prefix in beginnings.split():
            boundary = _boundary(prefix, len(prefix))
            yield Shape(what, prefix, re.escape(prefix) + boundary + follows, follows, boundary, is_prefix=True)
    for what, middle, before, last, follows, _ in WITH_MIDDLE:
        start = rf"(?:(?<![{_WORD}-])|(?<=\\[bfnrt])|(?<=[0-9;\[][0-9]m))"
        boundary = rf"(?<={last}{re.escape(middle)})"
        yield Shape(what, middle, f"{start}{before}{re.escape(middle)}{follows}", follows, boundary)
    for what, beginning, follows, _ in AFTER_TEXT:
        yield Shape(what, beginning, re.escape(beginning) + follows, follows, grouped=True)


SHAPES = tuple(_shapes())
BEGINNINGS = tuple(sorted({prefix for _, some, _, _ in WITH_BEGINNING for prefix in some.split() if len(prefix) > 2}))
"""How the secrets of the table begin."""

# ── the quick look ───────────────────────────────────────────────────────────────────────────────────────────────────

_MARK = re.compile("[-_.]")
_RARE = re.compile("[~|A-Z]")
"""Characters that are rare enough to be searched for alone."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """A text that secrets of a shape have, the position of its mark or rare character, and the number of the shape."""

    text: str
    at: int
    number: int

    @property
    def behind_mark(self) -> str:
        """What has to stand behind the mark: a bounded part of it, so that each mark can be tried by itself."""
        follows = _UNBOUNDED.sub(r"{\1}", SHAPES[self.number].follows).replace("=*+", "")
        return re.escape(self.text[self.at + 1 :]) + follows


_UNBOUNDED = re.compile(r"\{(\d+),\}\+")


def _marked() -> dict[str, list[_Sign]]:
    """Return the beginnings that have a mark, by their last mark and the character before it."""
    signs: dict[str, list[_Sign]] = defaultdict(list)
    for number, shape in enumerate(SHAPES):
        marks = [found.start() for found in _MARK.finditer(shape.sign)] if shape.is_prefix else []
        if marks:
            signs[shape.sign[marks[-1] - 1 : marks[-1] + 1]].append(_Sign(shape.sign, marks[-1], number))
    return signs


def _mark_pattern(signs: dict[str, list[_Sign]]) -> re.Pattern[str]:
    """Compile the pattern of a mark behind one of the beginnings, and before a long run."""
    by_mark: dict[str, list[str]] = defaultdict(list)
    for ending, some in signs.items():
        beginnings: dict[str, set[str]] = defaultdict(set)
        for sign in some:
            beginnings[sign.behind_mark].add(f"(?<={re.escape(sign.text[: sign.at + 1])})")
        options = (f"(?:{'|'.join(sorted(begins))}){behind}" for behind, begins in beginnings.items())
        by_mark[ending[1]].append(f"(?<={re.escape(ending)})(?={'|'.join(options)})")
    return re.compile("|".join(f"{re.escape(mark)}(?:{'|'.join(some)})" for mark, some in by_mark.items()), re.ASCII)


_BY_ENDING = _marked()
_MARKS = _mark_pattern(_BY_ENDING)


def _unmarked() -> tuple[re.Pattern[str], dict[str, list[_Sign]], tuple[tuple[str, re.Pattern[str], int], ...]]:
    """Return one pattern for the shapes with a rare character, which begins each match, and these by the character; and
    for each of the other shapes a text that has to be there, and a pattern that begins with it.

    In either case a whole secret has to be there, so that a text without one is not searched twice.
    """
    options: dict[str, list[str]] = defaultdict(list)
    signs: dict[str, list[_Sign]] = defaultdict(list)
    others: list[tuple[str, re.Pattern[str], int]] = []
    for number, shape in enumerate(SHAPES):
        if " " in shape.sign or (shape.is_prefix and _MARK.search(shape.sign)):
            continue
        text, follows = shape.sign, shape.boundary + shape.follows
        found = _RARE.search(text) or _MARK.search(text)
        if found is None:
            others.append((text, re.compile(re.escape(text) + follows, re.ASCII), number))
            continue
        behind = rf"(?<={re.escape(text[: found.end()])})" if found.start() else ""
        options[found[0]].append(f"{behind}{re.escape(text[found.end() :])}{follows}")
        signs[found[0]].append(_Sign(text, found.start(), number))
    pattern = "|".join(f"{re.escape(one)}(?:{'|'.join(some)})" for one, some in options.items())
    return re.compile(pattern, re.ASCII), signs, tuple(others)


_RARE_SIGN, _BY_CHARACTER, _OTHER_SIGNS = _unmarked()
_PLACED_SIGNS = tuple(
    (shape.sign, re.compile(re.escape(shape.sign) + shape.follows, re.ASCII), number)
    for number, shape in enumerate(SHAPES)
    if " " in shape.sign
)
"""Those of several words."""


def signs(look: Look) -> list[tuple[int, int]]:
    """Return where in a text a secret of the table may be, and the number of its shape in `SHAPES`."""
    plain, words = look.plain, look.words
    places: list[tuple[int, int]] = []
    for gate, pattern, number in _PLACED_SIGNS:
        if gate in plain:
            places += [(found.start(), number) for found in pattern.finditer(plain)]
    if not words:
        return places
    done = 0
    for found in _MARKS.finditer(words):
        mark = found.start()
        for sign in _BY_ENDING[words[mark - 1 : mark + 1]] if mark >= done else ():
            begin = mark - sign.at
            secret = SHAPES[sign.number].pattern.match(words, begin) if words.startswith(sign.text, begin) else None
            if secret is not None:
                places.append((look.place(mark), sign.number))
                done = max(done, secret.end())
    for found in _RARE_SIGN.finditer(words):
        at = found.start()
        places += [
            (look.place(at), sign.number)
            for sign in _BY_CHARACTER[found[0][0]]
            if words.startswith(sign.text, at - sign.at)
        ]
    for gate, pattern, number in _OTHER_SIGNS:
        if gate in words:
            places += [(look.place(found.start()), number) for found in pattern.finditer(words)]
    return places
