"""Finds the secrets that have a form of their own: where the literals of shapes are, their patterns are tried.

A literal is the fixed text in each secret of a shape, such as `sk-ant-`. One search finds all literals. It looks for a
rare character in a literal and the rest of the literal after it, or for the mark at the end of a literal (`_MARKS`) and
the characters before it. So a further shape costs next to nothing in texts without its literal. Invariants: each place
costs a bounded number of steps, and so does a whole text. If places are so close to each other that the text must be
hostile, a part of it is masked as one secret (`Density`). No key is missed because of that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from trace_recorder.storage.redaction.candidates import CLOSE_KEYS, Density, Look, dense_end
from trace_recorder.storage.redaction.json_strings import string_end
from trace_recorder.storage.redaction.patterns import SHAPES, SecretForm

_MARKS = "-_."
_LONG = (
    r"(?=[A-Za-z0-9_+/=.-]{10})(?![a-z]{2,10}=|[0-9]{10,40}(?![A-Za-z0-9_+/=.-]))"
    r"(?=[A-Za-z_+/=.-]{0,80}+[0-9]|[A-Z_+/=.-]{0,80}+[a-z][a-z_+/=.-]{0,80}+[A-Z])"
)
"""The text behind a mark in a key. This text is rare elsewhere."""
_REST = r"(?=[A-Za-z0-9_+/=.%-]{12})"
"""Twelve characters of a word, which must follow a literal with a rare character."""
_IN_A_WORD = "(?:[A-Za-z][G-Zg-z]|[^\\\\]_)"
"""No secret begins behind these characters.

An escape cannot end with these characters. It can end with a digit, or with the letter of a line break.
"""
_LESS_RARE = f"{_MARKS}/|"
"""Literals that are found by such a character are searched together with the pattern that follows them."""
_IN_WORDS = "[A-Za-z0-9+/_.=~:|@%!-]"
"""A literal of such characters is in a word that `Look` copies, or begins right before one."""
_HEAD = 8
"""A literal without a rare character is searched this many characters before and after the begin of a long run."""
_PART_OF_WORD = re.compile(f"{_IN_WORDS}*+")
_LONGEST_BEFORE = 1000


_HEADS = (5, 4, 3, 2)
"""How many letters of a literal are looked up, up to its mark. A shorter literal is looked up whole."""
Tried = tuple[int, SecretForm]
"""A shape to try, and the distance from the beginning of its literal to the character by which it is found."""


class KeySpan(NamedTuple):
    """The position of a secret, and the number of its shape.

    The number is `DENSE` for a part full of beginnings of secrets.
    """

    start: int
    end: int
    number: int


DENSE = len(SHAPES)
MASKS = (*(f"[REDACTED:{shape.what}]" for shape in SHAPES), "[REDACTED:many-keys]")
"""The masks, indexed by `KeySpan.number`."""


class _Finder:
    def __init__(self, shapes: Sequence[SecretForm]) -> None:
        self._numbers = {shape: number for number, shape in enumerate(shapes)}
        self._of_several_words: list[SecretForm] = []
        self._of_runs: list[SecretForm] = []
        by_letter: list[Tried] = []
        """The shapes whose literal is found by a rare character, each with the place of that character in the literal.

        The place -1 means right before the literal.
        """
        by_head: list[Tried] = []
        """The shapes whose literal is found by the mark at its end, each with the place of the mark."""
        options: dict[str, list[str]] = defaultdict(list, {mark: [] for mark in _MARKS})  # the most frequent first
        for shape in shapes:
            text, position = shape.sign, _place(shape)
            rest = re.escape(text[position + 1 :]) + (f"(?<={re.escape(text)})" if position > 0 else "")
            if not re.fullmatch(f"{_IN_WORDS}+", text):
                self._of_several_words.append(shape)
            elif position < 0:
                self._of_runs.append(shape)
                options["/"].append(shape.regex)  # a slash counts as a letter of a run, so a run began before it
                by_letter.append((-1, shape))
            elif _ends_with_mark(shape):
                by_head.append((position, shape))
            elif text[position] in _LESS_RARE:
                by_letter.append((position, shape))
                options[text[position]].append(rest + (shape.behind_sign or shape.regex).removeprefix(re.escape(text)))
            else:
                by_letter.append((position, shape))
                is_one_letter = len(set(text)) == 1  # only the beginning of a long run of the letter is a place
                begins = f"(?<!{text[0]}{text[0]})" if is_one_letter else ""
                behind = "" if shape.behind_sign or shape.grouped else _REST
                options[text[position]].append(begins + rest + behind)
        all_heads = {shape.sign[: position + 1] for position, shape in by_head}
        for mark in _MARKS:
            heads = sorted(head for head in all_heads if head[-1] == mark)
            options[mark].append(_before(mark, [head[:-1] for head in heads]) + _LONG + _any_before(heads, mark))
        self._options = dict(options)
        self._by_head = _table({one: one[1].sign[: one[0] + 1][-_HEADS[0] :] for one in by_head}, str.endswith)
        """The shapes by the mark and the characters before it."""
        self._by_letter = _table({one: f"/{one[1].sign}"[one[0] + 1 :][:2] for one in by_letter}, str.startswith)
        """The shapes by the rare character and the character after it."""

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The search for literals, compiled when a text has a word to search."""
        return re.compile("|".join(f"{re.escape(one)}(?:{'|'.join(some)})" for one, some in self._options.items()))

    def find(self, look: Look, until: int, *, once: bool = False) -> Iterator[KeySpan]:
        """Yield the secrets in a text that begin before a position.

        With `once`, yield at most one in each string of JSON, and skip the rest of the string.
        """
        shapes = [shape for shape in self._of_several_words if shape.sign in look.plain]
        if look.runs:
            heads = " ".join([look.plain[max(0, position - _HEAD) : position + _HEAD] for position in look.runs])
            shapes += [shape for shape in self._of_runs if shape.sign in heads]
        for shape in shapes:
            position = 0
            while (span := shape.next_secret(look.text, position)) is not None:
                yield KeySpan(*span, self._numbers[shape])
                position = string_end(look.plain, span[1]) if once else span[1]
        if look.words:
            yield from self._in_words(look, until, once=once)

    def _in_words(self, look: Look, until: int, *, once: bool) -> Iterator[KeySpan]:
        search, words, density = self.search.search, look.words, Density(CLOSE_KEYS)
        done = masked = 0
        while (match := search(words, done)) is not None:
            position, end = match.span()
            place = look.place(position)
            if place > until:
                return
            is_dense = density.is_high(place)
            spans = (
                [_dense_part(look, masked, position, place)]
                if is_dense
                else self._secrets_at(look, position, end, place)
            )
            done = end
            for span in spans:
                yield span
                done = max(done, look.in_words(string_end(look.plain, span.end) if once else span.end))
            if spans:
                masked = done if is_dense else masked
                density.masked_to(max(span.end for span in spans))

    def _secrets_at(self, look: Look, position: int, end: int, place: int) -> list[KeySpan]:
        """Return the secrets that belong to the character at a position of the words."""
        words, spans = look.words, []
        for before, shape in self._shapes_at(words, position, end):
            if words.startswith(shape.sign, position - before):
                span = shape.secret_at(look.text, place - before)
                if span is not None:
                    spans.append(KeySpan(*span, self._numbers[shape]))
        return spans

    def _shapes_at(self, words: str, position: int, end: int) -> Sequence[Tried]:
        """Return the shapes whose literals may be at a position of the words.

        They are looked up by the last five letters, or by fewer if no literal ends with these five.
        """
        if words[position] not in _MARKS or end > position + 1:
            return self._by_letter.get(words[position : position + 2]) or self._by_letter.get(words[position], [])
        for length in _HEADS:
            shapes = self._by_head.get(words[end - length if end > length else 0 : end])
            if shapes is not None:
                return shapes
        return []


def _table(letters_of: dict[Tried, str], has: Callable[[str, str], bool]) -> dict[str, list[Tried]]:
    """Return the shapes by their letters.

    An entry also has the shapes whose letters are only a part of its own letters, as `has` decides.
    """
    return {
        letters: [tried for tried, part in letters_of.items() if has(letters, part)] for letters in letters_of.values()
    }


def _dense_part(look: Look, masked: int, at: int, place: int) -> KeySpan:
    """Return the span of a part with too many beginnings of secrets. It starts at the beginning of a word."""
    so_far = _PART_OF_WORD.match(look.words[max(masked, at - _LONGEST_BEFORE) : at][::-1])
    return KeySpan(place - (so_far.end() if so_far else 0), dense_end(look.text, place), DENSE)


def _ends_with_mark(shape: SecretForm) -> bool:
    """Whether a secret begins with the literal, and a long word follows the last mark in the literal."""
    return not shape.behind_sign and not shape.grouped and any(mark in shape.sign for mark in _MARKS)


def _place(shape: SecretForm) -> int:
    """Return the place in a literal of the character by which it is found, or -1 if it has no such character."""
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


def _any_before(heads: Sequence[str], tail: str) -> str:
    """Return a pattern for the place behind one of these texts, which end with the tail.

    The pattern tests the letters backwards, one by one.
    """
    by_letter: dict[str, list[str]] = defaultdict(list)
    for head in heads:
        if head != tail:
            by_letter[head[-len(tail) - 1] + tail].append(head)
    options = [f"(?<!{_IN_A_WORD}{re.escape(tail)})"] if tail in heads else []
    for longer, some in by_letter.items():
        head = re.escape(some[0] if len(some) == 1 else longer)
        rest = f"(?<!{_IN_A_WORD}{head})" if len(some) == 1 else _any_before(some, longer)
        options.append(f"(?<={head}){rest}")
    return f"(?:{'|'.join(options)})"


FINDER = _Finder(SHAPES)
"""Finds the secrets of the table."""


def prepare() -> None:
    """Compile the search, which takes more than ten milliseconds."""
    _ = FINDER.search


def secrets(look: Look, until: int) -> Iterator[KeySpan]:
    """Yield the spans of the table's secrets in a text, in order.

    Overlapping secrets are one secret, of the first shape.
    """
    start = end = number = -1
    for span in sorted(FINDER.find(look, until)):
        if span.start < end or (span.start == end and number == span.number == DENSE):
            end, number = max(end, span.end), min(number, span.number)
            continue
        if number >= 0:
            yield KeySpan(start, end, number)
        start, end, number = span
    if number >= 0:
        yield KeySpan(start, end, number)
