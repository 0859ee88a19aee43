"""Finds keys and tokens by their form, such as `sk-ant-…`.

The literal of a form is a fixed text, such as `sk-ant-`. Every secret of the form contains this text, or follows it.
The pattern of a form is tried only where a text has the literal of that form. One regular expression finds the literals
of all forms. It finds some literals by a rare character, and compares the rest of the literal after it. It finds the
others by their last hyphen, underscore or dot (`_MARKS`), and compares the characters before this mark. So a further
form costs next to nothing in texts without its literal. Invariant: each position of a text costs a bounded number of
steps. In a hostile text, literals may be too close to each other (`Density`). A part of the text is then masked as one
secret, with all keys in it.
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
"""Matches before the text that must follow the mark in a key.

The text has ten or more characters, with a digit or with both capitals and small letters.
"""
_REST = r"(?=[A-Za-z0-9_+/=.%-]{12})"
"""Matches before the twelve characters of a word that must follow a literal with a rare character."""
_IN_A_WORD = "(?:[A-Za-z][G-Zg-z]|[^\\\\]_)"
"""If these two characters are right before a literal, the literal is inside a word and does not begin a secret.

A letter right before a secret must be the last character of an escape, such as `%2F`. No escape ends with these two
characters.
"""
_LESS_RARE = f"{_MARKS}/|"
"""Frequent characters.

If a literal is found by one of them, the pattern of the text after the literal is searched with it.
"""
_IN_WORDS = "[A-Za-z0-9+/_.=~:|@%!-]"
"""A literal that consists of these characters is searched in `PreparedText.words`.

Any other literal is searched in the whole text.
"""
_HEAD = 8
"""A literal without a rare character or a mark is searched only within this distance of `PreparedText.runs`."""
_PART_OF_WORD = re.compile(f"{_IN_WORDS}*+")
_LONGEST_BEFORE = 1000


_HEADS = (5, 4, 3, 2)
"""A literal is looked up by the last five characters up to its mark.

A shorter literal is looked up by all of its characters.
"""
Candidate = tuple[int, SecretForm]
"""An offset and a form whose pattern must be tried.

In the form's literal, the character at the offset is the character by which the literal is found.
"""


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


class _Finder:
    """A search for the secrets of several forms."""

    def __init__(self, forms: Sequence[SecretForm]) -> None:
        self._indexes = {form: number for number, form in enumerate(forms)}
        self._of_several_words: list[SecretForm] = []
        self._of_runs: list[SecretForm] = []
        by_letter: list[Candidate] = []
        """The forms whose literal is found by a rare character, each with the offset of that character in the literal.

        The offset is -1 if the literal is found by the slash right before it.
        """
        by_head: list[Candidate] = []
        """The forms whose literal is found by the last mark in it.

        Each form comes with the offset of this mark in the literal.
        """
        # the marks come first, because most literals are found by a mark
        options: dict[str, list[str]] = defaultdict(list, {mark: [] for mark in _MARKS})
        for form in forms:
            text, position = form.literal, _searched_offset(form)
            rest = re.escape(text[position + 1 :]) + (f"(?<={re.escape(text)})" if position > 0 else "")
            if not re.fullmatch(f"{_IN_WORDS}+", text):
                self._of_several_words.append(form)
            elif position < 0:
                self._of_runs.append(form)
                options["/"].append(form.regex)  # a slash is in runs, so a literal after it does not begin a run
                by_letter.append((-1, form))
            elif _ends_with_mark(form):
                by_head.append((position, form))
            elif text[position] in _LESS_RARE:
                by_letter.append((position, form))
                options[text[position]].append(rest + (form.from_literal or form.regex).removeprefix(re.escape(text)))
            else:
                by_letter.append((position, form))
                is_one_letter = len(set(text)) == 1  # a secret begins with the first of several equal letters
                begins = f"(?<!{text[0]}{text[0]})" if is_one_letter else ""
                behind = "" if form.from_literal or form.grouped else _REST
                options[text[position]].append(begins + rest + behind)
        all_heads = {form.literal[: position + 1] for position, form in by_head}
        for mark in _MARKS:
            heads = sorted(head for head in all_heads if head[-1] == mark)
            options[mark].append(_before(mark, [head[:-1] for head in heads]) + _LONG + _any_before(heads, mark))
        self._options = dict(options)
        self._by_head = _table(
            {candidate: candidate[1].literal[: candidate[0] + 1][-_HEADS[0] :] for candidate in by_head}, str.endswith
        )
        """The forms to try, by the last characters of their literals up to the mark."""
        self._by_letter = _table(
            {candidate: f"/{candidate[1].literal}"[candidate[0] + 1 :][:2] for candidate in by_letter}, str.startswith
        )
        """The forms to try, by the rare character of their literals and the character after it."""

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The regular expression that finds literals. It is compiled when the first word is searched."""
        return re.compile(
            "|".join(f"{re.escape(mark)}(?:{'|'.join(patterns)})" for mark, patterns in self._options.items())
        )

    def find(self, prepared: PreparedText, until: int, *, once: bool = False) -> Iterator[KeySpan]:
        """Yield the secrets in a text.

        The search of the text's words ends at the position `until`. If `once` is True, at most one secret is found in
        each string of JSON.
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
                yield KeySpan(*span, self._indexes[form])
                position = string_end(prepared.plain, span[1]) if once else span[1]
        if prepared.words:
            yield from self._in_words(prepared, until, once=once)

    def _in_words(self, prepared: PreparedText, until: int, *, once: bool) -> Iterator[KeySpan]:
        search, words, density = self.search.search, prepared.words, Density(CLOSE_KEYS)
        done = masked = 0
        while (match := search(words, done)) is not None:
            position, end = match.span()
            text_position = prepared.position_in_text(position)
            if text_position > until:
                return
            is_dense = density.add(text_position)
            spans = (
                [_dense_part(prepared, masked, position, text_position)]
                if is_dense
                else self._secrets_at(prepared, position, end, text_position)
            )
            done = end
            for span in spans:
                yield span
                done = max(done, prepared.position_in_words(string_end(prepared.plain, span.end) if once else span.end))
            if spans:
                masked = done if is_dense else masked
                density.continue_after_mask(max(span.end for span in spans))

    def _secrets_at(self, prepared: PreparedText, position: int, end: int, text_position: int) -> list[KeySpan]:
        """Return the secrets whose literal was found by the character at a position in `prepared.words`.

        `text_position` is the same position in the text.
        """
        words, spans = prepared.words, []
        for before, form in self._forms_at(words, position, end):
            if words.startswith(form.literal, position - before):
                span = form.secret_at(prepared.text, text_position - before)
                if span is not None:
                    spans.append(KeySpan(*span, self._indexes[form]))
        return spans

    def _forms_at(self, words: str, position: int, end: int) -> Sequence[Candidate]:
        """Return the forms whose literals may have been found by the character at a position in the words.

        `end` is the end of the match of `search`. A match that is longer than one character begins with a rare
        character.
        """
        if words[position] not in _MARKS or end > position + 1:
            return self._by_letter.get(words[position : position + 2]) or self._by_letter.get(words[position], [])
        for length in _HEADS:
            forms = self._by_head.get(words[end - length if end > length else 0 : end])
            if forms is not None:
                return forms
        return []


def _table(letters_of: dict[Candidate, str], has: Callable[[str, str], bool]) -> dict[str, list[Candidate]]:
    """Return a table that maps letters to the forms to try where a text has these letters.

    `letters_of` has the letters of each form. `has(letters, own)` returns whether the letters of the text contain a
    form's own letters.
    """
    return {
        letters: [candidate for candidate, part in letters_of.items() if has(letters, part)]
        for letters in letters_of.values()
    }


def _dense_part(prepared: PreparedText, masked: int, position: int, text_position: int) -> KeySpan:
    """Return the span of a part with too many literals. The part starts where the word at `position` begins."""
    so_far = _PART_OF_WORD.match(prepared.words[max(masked, position - _LONGEST_BEFORE) : position][::-1])
    return KeySpan(text_position - (so_far.end() if so_far else 0), dense_end(prepared.text, text_position), DENSE)


def _ends_with_mark(form: SecretForm) -> bool:
    """Return whether the literal of a form is found by its last mark.

    Such a literal is the beginning of the secret.
    """
    return not form.from_literal and not form.grouped and any(mark in form.literal for mark in _MARKS)


def _searched_offset(form: SecretForm) -> int:
    """Return the offset in a form's literal of the character by which the literal is found.

    Return -1 if it has no such character.
    """
    if _ends_with_mark(form):
        return max(map(form.literal.rfind, _MARKS))
    match = re.search("[~A-Z]", form.literal) or re.search(f"[{_LESS_RARE}]", form.literal)
    return match.start() if match else -1


def _before(mark: str, heads: Iterable[str]) -> str:
    """Return a pattern that matches after a mark if the text before the mark may end with one of `heads`.

    The pattern compares only the last two characters of a head, or the only character.
    """
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
    """Return a pattern that matches after one of the texts `heads`.

    All texts in `heads` end with `tail`. The pattern compares their letters backwards, one by one. The pattern does not
    match inside a word.
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
"""The finder of the secrets of all forms in `patterns.FORMS`."""


def prepare() -> None:
    """Compile the search now, so that the first recorded call does not wait for it.

    Compiling takes more than ten milliseconds.
    """
    _ = FINDER.search


def secrets(prepared: PreparedText, until: int) -> Iterator[KeySpan]:
    """Yield the spans of the keys and tokens in a text, in order.

    Spans that overlap are joined. The joined span has the form that comes first in `FORMS`.
    """
    start = end = number = -1
    for span in sorted(FINDER.find(prepared, until)):
        if span.start < end or (span.start == end and number == span.form_index == DENSE):
            end, number = max(end, span.end), min(number, span.form_index)
            continue
        if number >= 0:
            yield KeySpan(start, end, number)
        start, end, number = span
    if number >= 0:
        yield KeySpan(start, end, number)
