"""Decides what `redact` removes from a text: given texts, matches of patterns, and what functions of the user change.

The mask is `[REDACTED:removed]`. It has no quote and no backslash, so JSON in a string stays JSON. A string that is
JSON is taken apart: its strings are edited one by one, and a number in it becomes a string if it is removed. A text
that is exactly a word of the formats is structure, and stays. Invariant: what was removed once is not found again.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from trace_recorder.errors import RedactionRuleError
from trace_recorder.retention.spelled_texts import SHORTEST, Span, SpelledText
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.redaction.encodings import encoded_secrets, text_of_word
from trace_recorder.storage.redaction.first_look import Look
from trace_recorder.storage.redaction.json_strings import decode_string
from trace_recorder.storage.redaction.secret_spans import ANY_MASK, ENCODED, KNOWN, NO_SPANS, Secret
from trace_recorder.storage.redaction.split_secrets import common_length
from trace_recorder.storage.text_edits import (
    Edit,
    JsonToken,
    TextPlace,
    apply_edits,
    edit_json,
    joined_edits,
    json_tokens,
)
from trace_recorder.values.json_text import STRING

MASK = "[REDACTED:removed]"
Change = Callable[[str], str]
"""A function of the user: it gets a text, and returns it changed."""
DAMAGED = "damaged"
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{24}|%")
"""Matches a text that may have an encoded word. `Look` takes longer."""
_NUMBER_DIGITS = 5
"""A number of JSON is removed only if it has at least this many digits. Counts of tokens are shorter."""
_NUMBER = re.compile(rf"-?\d{{{_NUMBER_DIGITS},}}(?:\.\d+)?")
_LONGEST_KEPT, _MOST_KEPT = 64, 4096
"""Strings of JSON with at most this many characters are kept as harmless, and at most so many of them."""
_ANYWHERE = TextPlace("", ())
_SHORTEST_PART = 3
"""A damaged line may be cut inside a text. Such a part of the text is removed if it has this many characters."""


class RemovedTexts:
    """What is removed. It is the `Masker` of `storage/text_edits.py`.

    `texts` are removed wherever they are, `whole_texts` only where nothing else is in a string. `patterns` see decoded
    texts. `functions` see the same texts, but not the names of members, and no encoded words.
    """

    def __init__(
        self,
        texts: Iterable[str] = (),
        patterns: Iterable[re.Pattern[str]] = (),
        functions: Iterable[Change] = (),
        whole_texts: Collection[str] = (),
    ) -> None:
        self.texts = [SpelledText(text) for text in texts]
        self.patterns = [*patterns]
        self.functions = [*functions]
        self.whole_texts = frozenset(whole_texts)
        for text in self.texts:
            _check_text(text.text)
        removed = [*(text.text for text in self.texts), *self.whole_texts]
        self.numbers: Mapping[str, str] = {text: MASK for text in removed if _NUMBER.fullmatch(text)}
        self._short = [text for text in self.texts if text.is_short]
        self._unchanged: set[str] = set()
        """Short strings of JSON that were searched and do not change, such as the names of members."""
        self._whole_spelled = {
            json.dumps(text, ensure_ascii=ascii_only) for text in self.whole_texts for ascii_only in (True, False)
        }

    @classmethod
    def of_all(cls, several: Iterable[RemovedTexts]) -> RemovedTexts:
        """Return what any of these removes."""
        all_of_them = [*several]
        return cls(
            dict.fromkeys(text.text for each in all_of_them for text in each.texts),
            dict.fromkeys(pattern for each in all_of_them for pattern in each.patterns),
            dict.fromkeys(function for each in all_of_them for function in each.functions),
            {text for each in all_of_them for text in each.whole_texts},
        )

    def without_functions(self) -> RemovedTexts:
        """Return the same rules without the functions, whose results only they can judge."""
        return RemovedTexts((text.text for text in self.texts), self.patterns, (), self.whole_texts)

    def may_change(self, json_text: str) -> bool:
        """Return False if nothing in this JSON text is removed."""
        if self.functions:
            return True
        if self.patterns and self._has_changing_string(json_text):
            return True
        if any(number in json_text for number in self.numbers):
            return True
        if any(True for text in self.texts for _ in text.spans(json_text)):
            return True
        if any(text.may_be_in_base64(json_text) for text in self.texts):
            return True
        if any(spelled in json_text for spelled in self._whole_spelled) or (self.whole_texts and "\\" in json_text):
            return True
        return bool(self._short) and _ENCODED.search(json_text) is not None

    def _has_changing_string(self, json_text: str) -> bool:
        """Return whether a string of JSON text changes, or would change in a record of another kind."""
        for string in STRING.finditer(json_text):
            spelled = string[0]
            if spelled in self._unchanged:
                continue
            if self.edits(decode_string(spelled, 0, len(spelled)), _ANYWHERE):
                return True
            if len(spelled) <= _LONGEST_KEPT:
                if len(self._unchanged) >= _MOST_KEPT:
                    self._unchanged.clear()
                self._unchanged.add(spelled)
        return False

    def edits(self, text: str, place: TextPlace) -> Sequence[Edit]:
        """Return what replaces parts of a text."""
        if text in format_words() and place.kind != DAMAGED:
            return ()
        if place.kind == "removal" and (self.patterns or self.functions):
            return RemovedTexts((removed.text for removed in self.texts), whole_texts=self.whole_texts).edits(
                text, place
            )
        if text in self.whole_texts:
            return [Edit(0, len(text), MASK)]
        if _is_json(text):
            return self._edits_in_json(text, place)
        edits = joined_edits([*self._plain_edits(text), *self._partial_edits(text, place), *self._encoded_edits(text)])
        if not self.functions or place.is_name or place.kind == DAMAGED:
            return edits
        masked = apply_edits(text, edits)
        changed = self._changed_by_functions(masked)
        if changed == masked:
            return edits
        return [difference(text, changed)]

    def _changed_by_functions(self, text: str) -> str:
        for function in self.functions:
            changed: object = function(text)
            if not isinstance(changed, str):
                name = getattr(function, "__name__", repr(function))
                raise RedactionRuleError(f"{name} returned {type(changed).__name__}, and must return a str")
            text = changed
        return text

    # ── one text ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plain_edits(self, text: str) -> Iterator[Edit]:
        for start, end in self._plain_spans(text):
            yield Edit(start, end, MASK)

    def _plain_spans(self, text: str) -> Iterator[Span]:
        """Yield the texts and the matches in a text that are not encoded. A mask is not removed again."""
        masks = [mask.span() for mask in ANY_MASK.finditer(text)] if "[REDACTED:" in text else []
        for removed in self.texts:
            for start, end in removed.spans(text):
                if not any(first <= start and end <= last for first, last in masks):
                    yield start, end
        gaps = [*zip([0, *(end for _, end in masks)], [*(start for start, _ in masks), len(text)], strict=True)]
        for pattern in self.patterns:
            for first, last in gaps:
                yield from (match.span() for match in pattern.finditer(text, first, last) if match[0])

    def _partial_edits(self, text: str, place: TextPlace) -> Iterator[Edit]:
        """Yield the ends of a damaged line that may be a part of a text, because the line was cut there."""
        if place.kind != DAMAGED:
            return
        for form in {form for removed in self.texts for form in (*removed.forms, json.dumps(removed.text)[1:-1])}:
            sizes = range(min(len(form) - 1, len(text)), _SHORTEST_PART - 1, -1)
            end = next((size for size in sizes if text.endswith(form[:size])), 0)
            begin = next((size for size in sizes if text.startswith(form[-size:])), 0)
            if end:
                yield Edit(len(text) - end, len(text), MASK)
            if begin:
                yield Edit(0, begin, MASK)

    def _encoded_edits(self, text: str) -> Iterator[Edit]:
        """Yield the edits of encoded words: of texts in base64, and of short texts and patterns in decoded words."""
        for removed in self.texts:
            yield from removed.in_base64(text, mask_bytes)
        if not (self.patterns or self._short) or _ENCODED.search(text) is None:
            return

        def search(decoded: str) -> list[Secret]:
            return [Secret(start, end, KNOWN) for start, end in self._plain_spans(decoded)]

        for word in encoded_secrets(Look(text), NO_SPANS, search):
            if word.kind != ENCODED:
                yield Edit(word.start, word.end, MASK)
                continue
            letters = text[word.start : word.end]
            decoded = text_of_word(letters) or ""
            changed = apply_edits(decoded, joined_edits([*self._plain_edits(decoded)]))
            yield Edit(word.start, word.end, _encoded_like(letters, changed))

    # ── JSON in a string ─────────────────────────────────────────────────────────────────────────────────────────────

    def _edits_in_json(self, text: str, place: TextPlace) -> Sequence[Edit]:
        """Return the edits of a text that is JSON. It stays JSON."""
        edits = edit_json(text, place.kind, self, lambda _, __: False).edits
        spans = [span for removed in self.texts for span in removed.spans(text)]
        spans = [span for span in spans if not any(edit.start < span[1] and span[0] < edit.end for edit in edits)]
        if not spans:
            return edits
        tokens = [*json_tokens(text)]  # a text that has the signs of JSON itself, or is in a number
        return joined_edits(
            [*edits, *(edit for start, end in spans for edit in _edits_of_tokens(text, tokens, start, end))]
        )


def _edits_of_tokens(text: str, tokens: Sequence[JsonToken], start: int, end: int) -> Iterator[Edit]:
    """Yield the edits of a part of JSON that has signs of JSON itself, or is a number.

    Each string or number in it loses its part, and the brackets, colons and commas stay. A part that is inside one
    string is not the text: the string was searched after it was decoded.
    """
    for token in tokens:
        is_inside = text[token.start] == '"' and token.start < start and end < token.end
        if token.end <= start or token.start >= end or is_inside:
            continue
        if text[token.start] != '"':
            yield Edit(token.start, token.end, f'"{MASK}"')
            continue
        first, last = max(start, token.start + 1), min(end, token.end - 1)
        if first < last and text[first:last] not in format_words():
            yield Edit(first, last, MASK)


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON object, list or string."""
    if text.lstrip()[:1] not in {"{", "[", '"'}:
        return False
    try:
        json.loads(text)
    except ours(ValueError, RecursionError):
        return False
    return True


def difference(text: str, changed: str) -> Edit:
    """Return the one edit that makes a changed text of a text: what is between their common beginning and end."""
    start = common_length(text, changed)
    same = common_length(text[start:][::-1], changed[start:][::-1])
    return Edit(start, len(text) - same, changed[start : len(changed) - same])


def mask_bytes(length: int) -> bytes:
    """Return the mask with blanks at its end, so that the letters of base64 behind it do not change."""
    return MASK.encode() + b" " * ((length - len(MASK)) % 3)


def _encoded_like(word: str, text: str) -> str:
    """Return a text in base64 in the alphabet of another word, and with padding if that has padding."""
    encoded = base64.b64encode(text.encode()).decode()
    if "-" in word or "_" in word:
        encoded = encoded.replace("+", "-").replace("/", "_")
    if len(word) % 4:
        return encoded.rstrip("=")
    return encoded


def _check_text(text: str) -> None:
    """Raise RedactionRuleError for a text that cannot be removed."""
    if len(text) < SHORTEST:
        raise RedactionRuleError(
            f"a text of {len(text)} characters cannot be removed, because it is in nearly every text: give at least "
            f"{SHORTEST} characters, or a pattern with what is around it"
        )
    if text in format_words():
        raise RedactionRuleError(
            f"{text!r} is a word of the formats that runs are stored in, and cannot be removed: give more of the text"
        )
