"""Finds keys and tokens by their form, such as `sk-ant-…`.

The literal of a form is a fixed text, such as `sk-ant-`. Every secret of the form contains this text, or follows it.
The first look (`first_look.py`) finds all literals. Here, the pattern of a form is tried only where the literal of that
form is, and where the characters after the literal may belong to a key. So a further form costs next to nothing in
texts without its literal. Invariant: each position of a text costs a bounded number of steps. In a hostile text,
literals may be too close to each other (`Density`). A part of the text is then masked as one secret, with all keys in
it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from trace_recorder.storage.redaction.dense_parts import CLOSE_KEYS, Density, dense_end
from trace_recorder.storage.redaction.first_look import NUMBERS, Look
from trace_recorder.storage.redaction.json_strings import string_end
from trace_recorder.storage.redaction.patterns import FORMS, SecretForm

_MARKS = "-_."
_LONG = re.compile(
    r"(?=[A-Za-z0-9_+/=.-]{10})(?![a-z]{2,10}=|[0-9]{10,40}(?![A-Za-z0-9_+/=.-]))"
    r"(?=[A-Za-z_+/=.-]{0,80}+[0-9]|[A-Z_+/=.-]{0,80}+[a-z][a-z_+/=.-]{0,80}+[A-Z])"
)
"""Matches before the text that must follow the last mark of a literal.

The text has ten or more characters, with a digit or with both capitals and small letters.
"""
_NOT_LONG = re.compile(r"[A-Z_+/=.-]*+[a-z_+/=.-]*+")
"""Matches a text in which `_LONG` matches nowhere.

If a letter or a digit follows, `_LONG` may match in the last `_LONGEST_LONG` characters.
"""
_LONGEST_LONG = 170
_REST = r"(?=[A-Za-z0-9_+/=.%-]{12})"
"""Matches before the twelve characters of a word that must follow a literal with a capital or a tilde."""
_IN_A_WORD = "(?:[A-Za-z][G-Zg-z]|[^\\\\]_)"
"""If these two characters are right before a literal, the literal is inside a word and does not begin a secret.

A letter right before a secret must be the last character of an escape, such as `%2F`. No escape ends with these two
characters.
"""
_LETTERS = string.ascii_letters
_INSIDE = frozenset(
    {
        *(first + last for first in _LETTERS for last in _LETTERS if last.lower() > "f"),
        *(f"{first}_" for first in _LETTERS + string.digits + "_-"),
    }
)
"""Most pairs of characters that `_IN_A_WORD` matches. To look up a pair is quicker than to try a pattern."""
_IN_WORDS = "[A-Za-z0-9+/_.=~:|@%!-]"
_PART_OF_WORD = re.compile(f"{_IN_WORDS}*+")
_LONGEST_BEFORE = 1000


class KeySpan(NamedTuple):
    """The span of a secret in a text, and the index of its form in `FORMS`.

    The index is `DENSE` if the span is a part with too many literals.
    """

    start: int
    end: int
    form_index: int


DENSE = len(FORMS)
MASKS = (*(f"[REDACTED:{form.what}]" for form in FORMS), "[REDACTED:many-keys]")
"""The mask for each `KeySpan.form_index`."""


class _Literal:
    """A literal, and the forms with this literal.

    `offset` is the position in the literal at which it counts as examined. If `is_counted` is True, literals of this
    kind that are too close to each other make a text dense. If `is_marked` is True, the literal has a hyphen, an
    underscore or a dot, and a long word must follow the last one.
    """

    def __init__(self, text: str) -> None:
        self.forms: list[tuple[SecretForm, int]] = []
        self.offset = 0
        self.is_counted = self.is_marked = False
        self.text = text
        self._begins: dict[str, None] = {}

    def add(self, form: SecretForm, index: int) -> None:
        """Add a form with this literal."""
        self.forms.append((form, index))
        text = self.text
        rare = re.search("[~A-Z]", text) or re.search(r"[-_./|]", text)
        regex = form.from_literal or form.regex
        if rare is not None and re.fullmatch(f"{_IN_WORDS}+", text):
            self.is_counted = True
            self.offset = rare.start()
            if not form.from_literal and not form.grouped and any(mark in text for mark in _MARKS):
                self.offset = max(map(text.rfind, _MARKS))
                head, rest = re.escape(text[: self.offset + 1]), re.escape(text[self.offset + 1 :])
                regex = f"{head}(?<!{_IN_A_WORD}{head}){rest}"
                self.is_marked = True
            elif not form.from_literal and not form.grouped and rare[0] not in "-_./|":
                begins = f"(?<!{text[0]}{text})" if len(set(text)) == 1 else ""  # not inside a row of equal letters
                regex = f"{re.escape(text)}{begins}{_REST}"
        self._begins[regex] = None

    @cached_property
    def may_begin(self) -> re.Pattern[str]:
        """The pattern that matches at the literal if a key may be there. It is quicker than the patterns of forms."""
        return re.compile("|".join(self._begins))

    def secrets_at(self, text: str, position: int) -> list[KeySpan]:
        """Return the secrets whose literal is at a position of a text."""
        spans: list[KeySpan] = []
        for form, index in self.forms:
            span = form.secret_at(text, position)
            if span is not None:
                spans.append(KeySpan(*span, index))
        return spans


def _literals() -> list[_Literal]:
    by_text: dict[str, _Literal] = {}
    for index, form in enumerate(FORMS):
        by_text.setdefault(form.literal, _Literal(form.literal)).add(form, index)
    return list(by_text.values())


def _by_word(literals: Iterable[_Literal]) -> list[list[_Literal]]:
    by_word: list[list[_Literal]] = [[] for _ in range(1 + max(NUMBERS.values()))]
    for literal in literals:
        by_word[NUMBERS[literal.text.lower()]].append(literal)
    return by_word


LITERALS = tuple(_literals())
"""The literals of all forms."""
COUNTED = _by_word(literal for literal in LITERALS if literal.is_counted)
OTHERS = _by_word(literal for literal in LITERALS if not literal.is_counted)
"""The literals, by the number of their word in the first look. A word is in lower case."""
_IS_MARKED = bytes(all(literal.is_marked for literal in literals) for literals in COUNTED)
"""Whether no literal of a word begins a secret inside a word, by the number of the word."""


def find_keys(look: Look, until: int, *, once: bool = False) -> Iterator[KeySpan]:
    """Return the secrets in a text that begin before the position `until`.

    If `once` is True, at most one secret of each kind is found in each string of JSON.
    """
    return chain(_counted_keys(look, until, once=once), _other_keys(look, until, once=once))


def _counted_keys(look: Look, until: int, *, once: bool) -> Iterator[KeySpan]:
    """Yield the secrets whose literals are words. Literals that are too close to each other make the text dense."""
    text, density = look.text, Density(CLOSE_KEYS)
    done = masked = 0
    last = no_key = -1  # no text of `_LONG` begins between `done` and `no_key`
    begins = [key for key in look.keys if not _IS_MARKED[key[1]] or text[key[0] - 2 : key[0]] not in _INSIDE]
    for start, word in begins:
        for literal in COUNTED[word]:
            position = start + literal.offset
            if position < done or position > until or (position < no_key and literal.is_marked):
                continue
            if not literal.may_begin.match(text, start):
                continue
            if literal.is_marked and not _LONG.match(text, position + 1):
                no_key = max(position + 1, _end_of_not_long(text, position + 1))
                continue
            is_dense = density.add(position) if position > last else density.is_dense
            last = max(last, position)
            if not is_dense:
                spans = literal.secrets_at(text, start)
            elif once:
                spans = [KeySpan(position, position, DENSE)]  # its end would be the end of the string
            else:
                spans = [_dense_part(text, masked, position)]
            if spans:
                yield from spans
                end = max(span.end for span in spans)
                done = string_end(text, end) if once else end
                masked = done if is_dense else masked
                density.continue_after_mask(end)


def _end_of_not_long(text: str, position: int) -> int:
    """Return a position up to which `_LONG` does not match, if it does not match at `position`."""
    rest = _NOT_LONG.match(text, position)
    end = rest.end() if rest else position
    return end - _LONGEST_LONG if text[end : end + 1].isalnum() else end


def _other_keys(look: Look, until: int, *, once: bool) -> Iterator[KeySpan]:
    """Yield the secrets whose literals are not words, such as `-----BEGIN `."""
    text = look.text
    ends: dict[str, int] = {}
    for start, word in [key for key in look.keys if OTHERS[key[1]]]:
        for literal in OTHERS[word] if start <= until else ():
            if start >= ends.get(literal.text, 0) and literal.may_begin.match(text, start):
                spans = literal.secrets_at(text, start)
                yield from spans
                if spans:
                    end = max(span.end for span in spans)
                    ends[literal.text] = string_end(text, end) if once else end


def _dense_part(text: str, masked: int, position: int) -> KeySpan:
    """Return the span of a part with too many literals. The part starts where the word at `position` begins."""
    so_far = _PART_OF_WORD.match(text[max(masked, position - _LONGEST_BEFORE) : position][::-1])
    return KeySpan(position - (so_far.end() if so_far else 0), dense_end(text, position), DENSE)


def secrets(look: Look, until: int) -> Iterator[KeySpan]:
    """Yield the spans of the keys and tokens in a text, in order.

    Spans that overlap are joined. The joined span has the form that comes first in `FORMS`.
    """
    start = end = number = -1
    for span in sorted(find_keys(look, until)):
        if span.start < end or (span.start == end and number == span.form_index == DENSE):
            end, number = max(end, span.end), min(number, span.form_index)
            continue
        if number >= 0:
            yield KeySpan(start, end, number)
        start, end, number = span
    if number >= 0:
        yield KeySpan(start, end, number)
