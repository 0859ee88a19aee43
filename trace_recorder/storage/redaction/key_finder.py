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
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.dense_parts import CLOSE_KEYS, Density, dense_end
from trace_recorder.storage.redaction.first_look import NUMBERS, Look
from trace_recorder.storage.redaction.json_strings import string_end
from trace_recorder.storage.redaction.patterns import FORMS, SecretForm
from trace_recorder.storage.redaction.secret_spans import (
    DENSE,
    FIRST_FORM,
    NO_SPANS,
    JoinedTexts,
    Secret,
    Spans,
)

_MARKS = "-_."
_LONG = (
    r"(?=[A-Za-z0-9_+/=.-]{10})(?![a-z]{2,10}=|[0-9]{10,40}(?![A-Za-z0-9_+/=.-]))"
    r"(?=[A-Za-z_+/=.-]{0,80}+[0-9]|[A-Z_+/=.-]{0,80}+[a-z][a-z_+/=.-]{0,80}+[A-Z])"
)
"""Matches before the text that must follow the last mark of a literal.

The text has ten or more characters, with a digit or with both capitals and small letters.
"""
_REST = r"(?=[A-Za-z0-9_+/=.%-]{12})"
"""Matches before the twelve characters of a word that must follow a literal with a capital or a tilde."""
_IN_A_WORD = "(?:[A-Za-z][G-Zg-z]|[^\\\\]_)"
"""If these two characters are right before a literal, the literal is inside a word and does not begin a secret.

A letter right before a secret must be the last character of an escape, such as `%2F`. No escape ends with these two
characters.
"""
_OPEN_END = lazy_pattern(r"\{([0-9]{1,4}),\}\+(?:=\*\+)?(\)?)\Z")
"""Matches the end of a form's pattern that reads the rest of a key. The fewest letters of it show that a key begins."""
_IN_WORDS = "[A-Za-z0-9+/_.=~:|@%!-]"
_WHOLE_WORD = lazy_pattern(f"{_IN_WORDS}+")
_CAPITAL, _MARK = lazy_pattern("[~A-Z]"), lazy_pattern(r"[-_./|]")
_PART_OF_WORD = lazy_pattern(f"{_IN_WORDS}*+")
_LONGEST_BEFORE = 1000
_BESIDE = frozenset(string.ascii_letters + string.digits + "_.+/-")


class _Beginning(NamedTuple):
    """What is known of a literal before its forms are tried.

    `regex` matches at the literal if a key may be there. `offset` is the position in the literal at which it counts as
    examined. If `is_counted` is True, literals of this kind that are too close to each other make a text dense.
    """

    regex: str
    offset: int = 0
    is_counted: bool = False


class _Literal:
    """A literal, and the forms with this literal."""

    def __init__(self, text: str) -> None:
        self.forms: list[tuple[SecretForm, int]] = []
        self.text = text

    @cached_property
    def beginning(self) -> _Beginning:
        """What is known of the literal, found out when a text has it: most texts have few of all literals."""
        of_forms = [self._beginning_of(form) for form, _ in self.forms]
        regexes = dict.fromkeys(each.regex for each in of_forms)
        return of_forms[-1]._replace(regex="|".join(regexes))

    def _beginning_of(self, form: SecretForm) -> _Beginning:
        text = self.text
        rare = _CAPITAL.search(text) or _MARK.search(text)
        regex = _OPEN_END.sub(r"{\1}\2", form.from_literal or form.regex)
        if rare is None or not _WHOLE_WORD.fullmatch(text):
            return _Beginning(regex)
        offset = rare.start()
        if not form.from_literal and not form.grouped and any(mark in text for mark in _MARKS):
            offset = max(map(text.rfind, _MARKS))
            head, rest = re.escape(text[: offset + 1]), re.escape(text[offset + 1 :])
            regex = f"{head}(?<!{_IN_A_WORD}{head}){_LONG}{rest}"
        elif not form.from_literal and not form.grouped and rare[0] not in "-_./|":
            begins = ""
            if len(set(text)) == 1:  # not inside a row of equal letters
                begins = f"(?<!{text[0]}{text})"
            regex = f"{re.escape(text)}{begins}{_REST}"
        return _Beginning(regex, offset, is_counted=True)

    @cached_property
    def may_begin(self) -> re.Pattern[str]:
        """The pattern that matches at the literal if a key may be there. It is quicker than the patterns of forms."""
        return re.compile(self.beginning.regex)

    def secrets_at(self, text: str, position: int) -> list[Secret]:
        """Return the secrets whose literal is at a position of a text."""
        secrets: list[Secret] = []
        for form, index in self.forms:
            span = form.secret_at(text, position)
            if span is not None:
                secrets.append(Secret(*span, FIRST_FORM + index))
        return secrets


def _literals() -> list[_Literal]:
    by_text: dict[str, _Literal] = {}
    for index, form in enumerate(FORMS):
        by_text.setdefault(form.literal, _Literal(form.literal)).forms.append((form, index))
    return list(by_text.values())


LITERALS = tuple(sorted(_literals(), key=lambda literal: NUMBERS[literal.text.lower()]))
"""The literals of all forms, in the order of their words in the first look. A word is in lower case."""


def _by_word() -> tuple[list[int], ...]:
    by_word: tuple[list[int], ...] = tuple([] for _ in range(1 + max(NUMBERS.values())))
    for number, literal in enumerate(LITERALS):
        by_word[NUMBERS[literal.text.lower()]].append(number)
    return by_word


_BY_WORD = _by_word()
"""The numbers of the literals, by the number of their word."""


_Place = tuple[int, int]
"""A position in a text, and the number of the literal there."""


def find_keys(look: Look, spans: Spans = NO_SPANS) -> Iterator[Secret]:
    """Return the secrets that are recognised by their form, without those that begin in a secret found already."""
    places = _places(look)
    if spans.secrets:
        places = [place for place in places if not spans.covers(place[0])]
    return _keys_at(look.text, places)


def possible_keys(look: Look) -> Iterator[int]:
    """Yield the positions in JSON text at which a key may be: one position in each string that has a key."""
    text, done = look.text, 0
    density = Density(CLOSE_KEYS)
    for start, number in _places(look):
        if start < done:
            continue
        literal = LITERALS[number]
        is_dense = literal.beginning.is_counted and density.add(start + literal.beginning.offset)
        if is_dense or literal.secrets_at(text, start):
            yield start
            done = string_end(text, start)
            density.continue_after_mask(done)


def _places(look: Look) -> list[_Place]:
    """Return the places of literals where a key may begin, in order. Other places of literals are passed over in C."""
    text = look.text
    return sorted(
        (match.start(), number)
        for word, starts in look.literals.items()
        for number in _BY_WORD[word]
        for match in filter(None, map(LITERALS[number].may_begin.match, repeat(text), starts))
    )


def _keys_at(text: str, places: list[_Place]) -> Iterator[Secret]:
    """Yield the secrets at these places. Literals that are words and too close to each other make the text dense."""
    density = Density(CLOSE_KEYS)
    others: list[_Place] = []
    done = masked = 0
    last = -1
    for start, number in places:
        literal = LITERALS[number]
        beginning = literal.beginning
        if not beginning.is_counted:
            others.append((start, number))
            continue
        position = start + beginning.offset
        if position < done:
            continue
        is_dense = density.add(position) if position > last else density.is_dense
        last = max(last, position)
        secrets = [_dense_part(text, masked, position)] if is_dense else literal.secrets_at(text, start)
        if secrets:
            yield from secrets
            done = max(secret.end for secret in secrets)
            if is_dense:
                masked = done
            density.continue_after_mask(done)
    yield from _other_keys(text, others)


def _other_keys(text: str, places: list[_Place]) -> Iterator[Secret]:
    """Yield the secrets whose literals are not words, such as `-----BEGIN `."""
    ends: dict[str, int] = {}
    for start, number in places:
        literal = LITERALS[number]
        if start < ends.get(literal.text, 0):
            continue
        secrets = literal.secrets_at(text, start)
        if secrets:
            yield from secrets
            ends[literal.text] = max(secret.end for secret in secrets)


def _dense_part(text: str, masked: int, position: int) -> Secret:
    """Return a part with too many literals. The part starts where the word at `position` begins."""
    start = position
    so_far = _PART_OF_WORD.match(text[max(masked, position - _LONGEST_BEFORE) : position][::-1])
    if so_far is not None:
        start -= so_far.end()
    return Secret(start, dense_end(text, position), DENSE)


_LONGEST_PIECE = 1000
_SHORTEST_PIECE = 12
_MOST_ROUNDS = 4
_REST_OF_WORD = lazy_pattern(rf"[^ \n]{{0,{_LONGEST_PIECE}}}+")


def keys_beside(text: str, spans: Spans) -> Spans:
    """Return what was found, and the keys right before and right after it.

    Most keys begin and end beside a character that no key has. Beside a secret, such a character is missing.
    """
    searched: set[tuple[int, int]] = set()
    for _ in range(_MOST_ROUNDS):
        pieces = sorted({*_pieces_beside(text, spans.secrets)} - searched)
        if not pieces:
            break
        searched.update(pieces)
        joined = JoinedTexts([text[start:end] for start, end in pieces])
        look = Look(joined.text)
        if not look.literals:
            break
        new = [
            Secret(pieces[number][0] + secret.start, pieces[number][0] + secret.end, secret.kind)
            for number, secret in joined.divide(find_keys(look))
        ]
        if not new:
            break
        spans = Spans([*spans.secrets, *new])
    return spans


def _pieces_beside(text: str, secrets: Sequence[Secret]) -> Iterator[tuple[int, int]]:
    """Yield the parts of words that are right before and right after secrets, and long enough for a key."""
    last = 0
    for number, secret in enumerate(secrets):
        start, end = secret.start, secret.end
        following = len(text)
        if number + 1 < len(secrets):
            following = secrets[number + 1].start
        if start - last >= _SHORTEST_PIECE and text[start - 1] in _BESIDE:
            first = max(last, start - _LONGEST_PIECE)
            begin = max(first, text.rfind(" ", first, start) + 1, text.rfind("\n", first, start) + 1)
            if start - begin >= _SHORTEST_PIECE:
                yield begin, start
        if following - end >= _SHORTEST_PIECE and text[end] in _BESIDE:
            word = _REST_OF_WORD.match(text, end, following)
            if word is not None and word.end() - end >= _SHORTEST_PIECE:
                yield end, word.end()
        last = end
