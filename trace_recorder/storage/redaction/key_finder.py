"""Finds keys and tokens by their form, such as `sk-ant-…`.

A literal is the fixed text in each secret of a form, such as `sk-ant-`. The pattern of a form is tried only where a
text has the literal of that form. One search finds all literals. For some literals, it looks for a rare character and
the rest of the literal after it. For the others, it looks for the mark at the end of the literal (`_MARKS`) and the
characters before it. So a further form costs next to nothing in texts without its literal. Invariant: each position of
a text costs a bounded number of steps. If the literals are so close to each other that the text must be hostile, a part
of the text is masked as one secret (`Density`). This mask covers all keys in the part.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from trace_recorder.storage.redaction.candidates import CLOSE_KEYS, Density, PreparedText, dense_end
from trace_recorder.storage.redaction.json_strings import string_end
from trace_recorder.storage.redaction.patterns import FORMS, SecretForm

_MARKS = "-_."
_LONG = (
    r"(?=[A-Za-z0-9_+/=.-]{10})(?![a-z]{2,10}=|[0-9]{10,40}(?![A-Za-z0-9_+/=.-]))"
    r"(?=[A-Za-z_+/=.-]{0,80}+[0-9]|[A-Z_+/=.-]{0,80}+[a-z][a-z_+/=.-]{0,80}+[A-Z])"
)
"""The text after the mark in a key: long, with digits or mixed letters. Few other words have such text after a mark."""
_REST = r"(?=[A-Za-z0-9_+/=.%-]{12})"
"""Twelve characters of a word, which must follow a literal with a rare character."""
_IN_A_WORD = "(?:[A-Za-z][G-Zg-z]|[^\\\\]_)"
"""Characters after which no secret begins.

A letter right before a secret must be the end of an escape, and no escape ends with these characters. An escape may end
with a digit, or with the letter of a line break.
"""
_LESS_RARE = f"{_MARKS}/|"
"""A literal that is found by such a character is searched together with the pattern of the text after it."""
_IN_WORDS = "[A-Za-z0-9+/_.=~:|@%!-]"
"""A literal of such characters is in a word that `PreparedText` copies, or begins right before such a word."""
_HEAD = 8
"""A literal without a rare character is searched within this distance from the beginning of a long run."""
_PART_OF_WORD = re.compile(f"{_IN_WORDS}*+")
_LONGEST_BEFORE = 1000


_HEADS = (5, 4, 3, 2)
"""A literal is looked up by this many characters up to its mark. A shorter literal is looked up whole."""
Tried = tuple[int, SecretForm]
"""A form to try, and the distance from the beginning of its literal to the character by which it is found."""


class KeySpan(NamedTuple):
    """The position of a secret, and the number of its form.

    The number is `DENSE` for a part with too many beginnings of secrets.
    """

    start: int
    end: int
    number: int


DENSE = len(FORMS)
MASKS = (*(f"[REDACTED:{form.what}]" for form in FORMS), "[REDACTED:many-keys]")
"""The masks, indexed by `KeySpan.number`."""


class _Finder:
    """A search for the secrets of several forms."""

    def __init__(self, forms: Sequence[SecretForm]) -> None:
        self._numbers = {form: number for number, form in enumerate(forms)}
        self._of_several_words: list[SecretForm] = []
        self._of_runs: list[SecretForm] = []
        by_letter: list[Tried] = []
        """The forms whose literal is found by a rare character, each with the place of that character in the literal.

        The place -1 means right before the literal.
        """
        by_head: list[Tried] = []
        """The forms whose literal is found by the mark at its end, each with the place of the mark."""
        options: dict[str, list[str]] = defaultdict(list, {mark: [] for mark in _MARKS})  # the most frequent first
        for form in forms:
            text, position = form.literal, _place(form)
            rest = re.escape(text[position + 1 :]) + (f"(?<={re.escape(text)})" if position > 0 else "")
            if not re.fullmatch(f"{_IN_WORDS}+", text):
                self._of_several_words.append(form)
            elif position < 0:
                self._of_runs.append(form)
                options["/"].append(form.regex)  # a slash counts as a letter of a run, so a run began before it
                by_letter.append((-1, form))
            elif _ends_with_mark(form):
                by_head.append((position, form))
            elif text[position] in _LESS_RARE:
                by_letter.append((position, form))
                options[text[position]].append(rest + (form.from_literal or form.regex).removeprefix(re.escape(text)))
            else:
                by_letter.append((position, form))
                is_one_letter = len(set(text)) == 1  # a secret begins only where a run of the letter begins
                begins = f"(?<!{text[0]}{text[0]})" if is_one_letter else ""
                behind = "" if form.from_literal or form.grouped else _REST
                options[text[position]].append(begins + rest + behind)
        all_heads = {form.literal[: position + 1] for position, form in by_head}
        for mark in _MARKS:
            heads = sorted(head for head in all_heads if head[-1] == mark)
            options[mark].append(_before(mark, [head[:-1] for head in heads]) + _LONG + _any_before(heads, mark))
        self._options = dict(options)
        self._by_head = _table(
            {tried: tried[1].literal[: tried[0] + 1][-_HEADS[0] :] for tried in by_head}, str.endswith
        )
        """The forms to try, by the last characters of the literal up to its mark."""
        self._by_letter = _table(
            {tried: f"/{tried[1].literal}"[tried[0] + 1 :][:2] for tried in by_letter}, str.startswith
        )
        """The forms to try, by the rare character and the character after it."""

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The search for literals, compiled when a text has a word to search."""
        return re.compile(
            "|".join(f"{re.escape(mark)}(?:{'|'.join(patterns)})" for mark, patterns in self._options.items())
        )

    def find(self, prepared: PreparedText, until: int, *, once: bool = False) -> Iterator[KeySpan]:
        """Yield the secrets in a text that begin before a position.

        If `once` is True, yield at most one in each string of JSON, and skip the rest of the string.
        """
        forms = [form for form in self._of_several_words if form.literal in prepared.plain]
        if prepared.runs:
            heads = " ".join(
                [prepared.plain[max(0, position - _HEAD) : position + _HEAD] for position in prepared.runs]
            )
            forms += [form for form in self._of_runs if form.literal in heads]
        for form in forms:
            position = 0
            while (span := form.next_secret(prepared.text, position)) is not None:
                yield KeySpan(*span, self._numbers[form])
                position = string_end(prepared.plain, span[1]) if once else span[1]
        if prepared.words:
            yield from self._in_words(prepared, until, once=once)

    def _in_words(self, prepared: PreparedText, until: int, *, once: bool) -> Iterator[KeySpan]:
        search, words, density = self.search.search, prepared.words, Density(CLOSE_KEYS)
        done = masked = 0
        while (match := search(words, done)) is not None:
            position, end = match.span()
            place = prepared.place(position)
            if place > until:
                return
            is_dense = density.is_high(place)
            spans = (
                [_dense_part(prepared, masked, position, place)]
                if is_dense
                else self._secrets_at(prepared, position, end, place)
            )
            done = end
            for span in spans:
                yield span
                done = max(done, prepared.in_words(string_end(prepared.plain, span.end) if once else span.end))
            if spans:
                masked = done if is_dense else masked
                density.masked_to(max(span.end for span in spans))

    def _secrets_at(self, prepared: PreparedText, position: int, end: int, place: int) -> list[KeySpan]:
        """Return the secrets whose literal has its mark or its rare character at a position of the words."""
        words, spans = prepared.words, []
        for before, form in self._forms_at(words, position, end):
            if words.startswith(form.literal, position - before):
                span = form.secret_at(prepared.text, place - before)
                if span is not None:
                    spans.append(KeySpan(*span, self._numbers[form]))
        return spans

    def _forms_at(self, words: str, position: int, end: int) -> Sequence[Tried]:
        """Return the forms whose literals may be at a position of the words.

        Forms with a mark are looked up by the five characters up to the mark, or by fewer if no literal ends with these
        five.
        """
        if words[position] not in _MARKS or end > position + 1:
            return self._by_letter.get(words[position : position + 2]) or self._by_letter.get(words[position], [])
        for length in _HEADS:
            forms = self._by_head.get(words[end - length if end > length else 0 : end])
            if forms is not None:
                return forms
        return []


def _table(letters_of: dict[Tried, str], has: Callable[[str, str], bool]) -> dict[str, list[Tried]]:
    """Return the forms to try, by letters of their literals.

    An entry also has each form whose letters are a part of the entry's letters, as `has` decides.
    """
    return {
        letters: [tried for tried, part in letters_of.items() if has(letters, part)] for letters in letters_of.values()
    }


def _dense_part(prepared: PreparedText, masked: int, position: int, place: int) -> KeySpan:
    """Return the span of a part with too many beginnings of secrets. It starts at the beginning of a word."""
    so_far = _PART_OF_WORD.match(prepared.words[max(masked, position - _LONGEST_BEFORE) : position][::-1])
    return KeySpan(place - (so_far.end() if so_far else 0), dense_end(prepared.text, place), DENSE)


def _ends_with_mark(form: SecretForm) -> bool:
    """Return whether a secret of this form begins with the literal, and a long word follows the literal's last mark."""
    return not form.from_literal and not form.grouped and any(mark in form.literal for mark in _MARKS)


def _place(form: SecretForm) -> int:
    """Return the place in a literal of the character by which it is found, or -1 if it has no such character."""
    if _ends_with_mark(form):
        return max(map(form.literal.rfind, _MARKS))
    match = re.search("[~A-Z]", form.literal) or re.search(f"[{_LESS_RARE}]", form.literal)
    return match.start() if match else -1


def _before(mark: str, heads: Iterable[str]) -> str:
    """Return a pattern that looks back at these texts before a mark: at their last two characters, or the only one."""
    firsts: dict[str, set[str]] = defaultdict(set)
    for head in heads:
        firsts[head[-1]].add(head[-2:-1])
    lasts: dict[str, list[str]] = defaultdict(list)
    for last, first in firsts.items():
        lasts["".join(sorted(first - {""}))].append(last)
    pairs = "|".join(
        f"[{re.escape(first)}][{re.escape(''.join(letters))}]" for first, letters in lasts.items() if first
    )
    quick = f"[{re.escape(''.join(sorted(set(''.join(lasts)))))}][{re.escape(''.join(firsts))}]"
    alone = re.escape("".join(last for last, first in firsts.items() if "" in first))
    of_two = f"(?<={quick}{re.escape(mark)})(?<=(?:{pairs}){re.escape(mark)})"
    return f"(?:{of_two}|(?<=[{alone}]{re.escape(mark)}))" if alone else of_two


def _any_before(heads: Sequence[str], tail: str) -> str:
    """Return a pattern that matches after one of these texts, all of which end with the tail.

    The pattern tests the letters backwards, one by one.
    """
    by_letter: dict[str, list[str]] = defaultdict(list)
    for head in heads:
        if head != tail:
            by_letter[head[-len(tail) - 1] + tail].append(head)
    options = [f"(?<!{_IN_A_WORD}{re.escape(tail)})"] if tail in heads else []
    for longer, longer_heads in by_letter.items():
        head = re.escape(longer_heads[0] if len(longer_heads) == 1 else longer)
        rest = f"(?<!{_IN_A_WORD}{head})" if len(longer_heads) == 1 else _any_before(longer_heads, longer)
        options.append(f"(?<={head}){rest}")
    return f"(?:{'|'.join(options)})"


FINDER = _Finder(FORMS)
"""Finds the secrets of all forms in `patterns.FORMS`."""


def prepare() -> None:
    """Compile the search, which takes more than ten milliseconds."""
    _ = FINDER.search


def secrets(prepared: PreparedText, until: int) -> Iterator[KeySpan]:
    """Yield the spans of the keys and tokens in a text, in order.

    Overlapping secrets become one secret, of the first form.
    """
    start = end = number = -1
    for span in sorted(FINDER.find(prepared, until)):
        if span.start < end or (span.start == end and number == span.number == DENSE):
            end, number = max(end, span.end), min(number, span.number)
            continue
        if number >= 0:
            yield KeySpan(start, end, number)
        start, end, number = span
    if number >= 0:
        yield KeySpan(start, end, number)
