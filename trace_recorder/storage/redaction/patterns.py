r"""Finds secrets by their own form. Patterns, and a quick look before them, are made from the rows of `key_forms.py`.

Invariants: every pattern is a prefix of a few letters, then parts of bounded length, then at most one possessive
repeat as its end. So an attempt at one place takes bounded time or ends in a match, and all of them take linear time,
whatever the text. `signs` gives a place in every text in which a row finds something.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from trace_recorder.storage.redaction.candidates import Look
from trace_recorder.storage.redaction.key_forms import AFTER_ID, AFTER_TEXT, WITH_BEGINNING, WITH_MIDDLE

_WORD = "A-Za-z0-9_"
_ESCAPES = (r"\\[bfnrt]", "%[0-9A-F]{2}", r"[0-9;\[][0-9]m", r"\\u[0-9A-Fa-f]{4}")
"""Escapes that end in letters or digits."""
_LINE_BEGINS = (r"\A[+-]", r"[\s>\"][+-]", r"\\n[+-]")
"""The sign that a diff has before a line."""
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
_PPK = (
    r"Private-Lines: [0-9]{1,4}"
    rf"((?>(?:[^\"<P]|P(?!rivate-)){{1,{PEM_LONGEST}}})(?=Private-MAC: )"
    rf"|(?=[ \r]{{0,2}}{_BREAK}[ \t+>|]{{0,8}}[A-Za-z0-9+/=]{{12}})(?>(?:{_PEM_LINE})*))"
)
"""A private key of PuTTY: its lines, up to the checksum behind them."""
PPK_BEGIN = "Private-Lines: "


@dataclass(frozen=True, eq=False)
class Shape:
    """The form of one kind of secret: what its mask says, a text that each such secret has, and its pattern.

    The pattern matches the secret, or has it as a group. `behind_sign` begins with the text, if the pattern does not.
    """

    what: str
    sign: str
    regex: str
    grouped: bool = False
    behind_sign: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when a text has the sign: to compile all of them delays every import."""
        return re.compile(self.regex)

    @cached_property
    def sign_pattern(self) -> re.Pattern[str]:
        """The pattern that begins with the sign."""
        return re.compile(self.behind_sign) if self.behind_sign else self.pattern

    def mask(self, text: str) -> str:
        """Return a text with every secret of this shape masked."""
        mask = f"[REDACTED:{self.what}]"
        if not self.grouped:
            return self.pattern.sub(mask, text)
        return self.pattern.sub(
            lambda found: found[0][: found.start(1) - found.start()] + mask + found[0][found.end(1) - found.start() :],
            text,
        )


def _boundary(prefix: str) -> str:
    r"""Return a pattern that follows the prefix of a secret, and checks the text before the prefix.

    A letter or digit may be before it only if it ends an escape of JSON, of a URL or of a terminal. A hyphen or plus
    sign may be the sign of a line in a diff. Others, and slashes, are letters of base64, in which short prefixes occur.
    """
    at = f".{{{len(prefix)}}}"
    within = "-" if len(prefix) < 6 else ""
    if prefix.isalnum():
        within = "+/-" if "AA" in prefix else f"+{within}"
    before = [rf"(?<![{_WORD}{within}]{at})", *(rf"(?<={one}{at})" for one in (*_ESCAPES, *_LINE_BEGINS))]
    return f"(?:{'|'.join(before)})"


def _shapes() -> Iterator[Shape]:
    yield Shape("private-key", PEM_BEGIN, _PEM, behind_sign=r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE")
    yield Shape("private-key", PPK_BEGIN, _PPK, grouped=True)
    for what, beginnings, follows, _ in AFTER_ID:
        for prefix in beginnings.split():
            yield Shape(what, prefix, re.escape(prefix) + _boundary(prefix) + follows, grouped=True)
    for what, beginnings, follows, _ in WITH_BEGINNING:
        for prefix in beginnings.split():
            yield Shape(what, prefix, re.escape(prefix) + _boundary(prefix) + follows)
    for what, middle, before, last, follows, _ in WITH_MIDDLE:
        start = "|".join([rf"(?<![{_WORD}-])", *(f"(?<={one})" for one in (*_ESCAPES, *_LINE_BEGINS))])
        text = re.escape(middle)
        yield Shape(
            what,
            middle,
            f"(?={before}{text})(?:{start}){before}{text}{follows}",
            behind_sign=f"{text}(?<={last}{text}){follows}",
        )
    for what, beginning, follows, _ in AFTER_TEXT:
        yield Shape(what, beginning, re.escape(beginning) + follows, grouped=True)


SHAPES = tuple(_shapes())
BEGINNINGS = tuple(sorted({prefix for _, some, _, _ in WITH_BEGINNING for prefix in some.split() if len(prefix) > 2}))
"""How the secrets of the table begin."""

# ── the quick look ───────────────────────────────────────────────────────────────────────────────────────────────────

_MARKS = "-_."
_LONG = (
    r"(?=[A-Za-z0-9_+/=.-]{10})(?![a-z]{2,10}=)"
    r"(?=[A-Za-z_+/=.-]{0,80}+[0-9]|[A-Z_+/=.-]{0,80}+[a-z][a-z_+/=.-]{0,80}+[A-Z])"
)
"""The text behind a mark in a key, which is rare in other texts."""
_LESS_RARE = f"{_MARKS}/|"
"""Literals that are found by such a character are searched for with all that follows them."""
_IN_WORDS = re.compile("[A-Za-z0-9+/_.=~:|@%!-]+")
"""A literal of such characters is in one of the words that `Look` copies, or begins right before one."""
_WORD_PART = re.compile(r"[A-Za-z0-9+/_.=~:|@%!-]{1,400}+")
MAX_TRIES = 32
"""So many places are tried in 400 characters of one word: what has more of them is made of beginnings of keys alone."""
_HEAD = 8
"""A literal without a rare character is looked for in this many characters before a long run, and after its begin."""


class _Finder:
    """Finds where the literals of shapes are, and tries the pattern of a shape only there.

    One search finds a rare character of a literal with the rest of it, or the mark at its end with the two characters
    before. So a further shape costs next to nothing, in texts without its literal and at import.
    """

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._numbers = {shape: number for number, shape in enumerate(shapes)}
        self._of_several_words: list[Shape] = []
        self._of_runs: list[Shape] = []
        self._whole: dict[str, list[tuple[int, Shape]]] = defaultdict(list)
        """By a character in the literals that are searched for with all that follows: its place, and the shape."""
        self._rare: dict[str, list[tuple[int, Shape]]] = defaultdict(list)
        """By the rare character: its place in the literal, and the shape."""
        self._ending: dict[str, list[tuple[int, Shape]]] = defaultdict(list)
        """By the mark at the end and the character before: the mark's place in the literal, and the shape."""
        options: dict[str, list[str]] = defaultdict(list, {mark: [] for mark in _MARKS})  # the most frequent first
        for shape in shapes:
            text, at = shape.sign, _place(shape)
            rest = re.escape(text[at + 1 :]) + (f"(?<={re.escape(text)})" if at > 0 else "")
            if not _IN_WORDS.fullmatch(text):
                self._of_several_words.append(shape)
            elif at < 0:
                self._of_runs.append(shape)
                options["/"].append(shape.regex)  # a run of letters, in which slashes count, began before
                self._whole["/"].append((-1, shape))
            elif _ends_with_mark(shape):
                self._ending[text[at - 1 : at + 1]].append((at, shape))
            elif text[at] in _LESS_RARE:
                self._whole[text[at]].append((at, shape))
                options[text[at]].append(rest + (shape.behind_sign or shape.regex).removeprefix(re.escape(text)))
            else:
                self._rare[text[at]].append((at, shape))
                options[text[at]].append(rest)
        for mark in _MARKS:
            options[mark].append(_before(mark, [head[:-1] for head in self._heads() if head[-1] == mark]) + _LONG)
        self._search = re.compile("|".join(f"{re.escape(one)}(?:{'|'.join(some)})" for one, some in options.items()))
        self._by_head: dict[str, list[tuple[int, Shape]]] = defaultdict(list)
        for at, shape in chain.from_iterable(self._ending.values()):
            self._by_head[shape.sign[: at + 1]].append((at, shape))
        self._lengths = {tail: sorted({len(head) for head in self._heads(tail)}) for tail in self._ending}

    def _heads(self, *tails: str) -> Iterator[str]:
        """Yield the literals up to their last mark."""
        for tail in tails or self._ending:
            yield from (shape.sign[: at + 1] for at, shape in self._ending[tail])

    def find(self, look: Look, *, once: bool = False) -> list[tuple[int, int]]:
        """Return where in a text secrets may be, each with the number of its shape.

        With `once`, one place is enough in each string of JSON.
        """
        places: list[tuple[int, int]] = []
        shapes = [shape for shape in self._of_several_words if shape.sign in look.plain]
        if look.runs:
            heads = " ".join([look.plain[max(0, at - _HEAD) : at + _HEAD] for at in look.runs])
            shapes += [shape for shape in self._of_runs if shape.sign in heads]
        for shape in shapes:
            places += [(one.start(), self._numbers[shape]) for one in shape.sign_pattern.finditer(look.plain)]
        if look.words:
            places += [(at, self._numbers[shape]) for at, shape in self._in_words(look, look.words, once=once)]
        return places

    def _in_words(self, look: Look, words: str, *, once: bool) -> Iterator[tuple[int, Shape]]:
        lengths, by_head, done = self._lengths, self._by_head, 0
        word_end = tries = 0
        for match in self._search.finditer(words):
            at, end = match.span()
            if at < done:  # in the secret before: to try each place in a long one takes quadratic time
                continue
            if at >= word_end:
                word = _WORD_PART.match(words, at)
                word_end, tries = word.end() if word else end, 0
            tries += 1
            if tries > MAX_TRIES:
                continue
            shapes = self._rare.get(words[at])
            if shapes is None and end > at + 1:
                shapes = self._whole[words[at]]
            elif shapes is None:
                tried = lengths.get(words[at - 1 : end], ())
                shapes = [one for length in tried for one in by_head.get(words[end - length : end], ())]
            for before, shape in shapes:
                begin = at - before
                secret = shape.sign_pattern.match(words, begin) if words.startswith(shape.sign, begin) else None
                if secret is not None:
                    yield look.place(at), shape
                    done = max(done, look.end_of_string(at) if once else secret.end())


def _ends_with_mark(shape: Shape) -> bool:
    """Whether a secret begins with the literal, and a long word follows the last mark in the literal."""
    return not shape.behind_sign and not shape.grouped and any(mark in shape.sign for mark in _MARKS)


def _place(shape: Shape) -> int:
    """Return where the character of a literal is by which it is found; -1 if all characters are frequent ones."""
    if _ends_with_mark(shape):
        return max(map(shape.sign.rfind, _MARKS))
    found = re.search("[~A-Z]", shape.sign) or re.search(f"[{_LESS_RARE}]", shape.sign)
    return found.start() if found else -1


def _before(mark: str, heads: Iterable[str]) -> str:
    """Return a pattern for the end of texts before a mark: two characters, or the only one."""
    firsts: dict[str, set[str]] = defaultdict(set)
    for head in heads:
        firsts[head[-1]].add(head[-2:-1])
    lasts: dict[str, list[str]] = defaultdict(list)
    for last, first in firsts.items():
        lasts["".join(sorted(first - {""}))].append(last)
    pairs = "|".join(f"[{re.escape(first)}][{re.escape(''.join(some))}]" for first, some in lasts.items() if first)
    quick = f"[{re.escape(''.join(sorted(set(''.join(lasts)))))}][{re.escape(''.join(firsts))}]"
    alone = re.escape("".join(last for last, first in firsts.items() if "" in first))
    of_two = f"(?<={quick}{re.escape(mark)})(?<=(?:{pairs}){re.escape(mark)})"
    return f"(?:{of_two}|(?<=[{alone}]{re.escape(mark)}))" if alone else of_two


_FINDER = _Finder(SHAPES)
signs = _FINDER.find
"""Returns where in a text a secret of the table may be, and the number of its shape in `SHAPES`."""
