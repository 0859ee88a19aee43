"""Finds and masks the secrets of one text.

`PossibleSecrets` is a quick search for the positions and the kinds of possible secrets. The search of `mask_text` is
slower, and is limited to the kinds that the quick search has found. A recorder uses `default_redactor` unless its user
sets another redactor.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.storage.redaction import commands, key_finder, urls
from trace_recorder.storage.redaction import encodings as secret_encodings
from trace_recorder.storage.redaction import names as secret_names
from trace_recorder.storage.redaction.candidates import (
    LONGEST_ENCODED,
    MANY,
    PreparedText,
    Shortened,
    are_close,
    mask_of_part,
    shorten,
)
from trace_recorder.storage.redaction.json_members import mask_json
from trace_recorder.storage.redaction.json_strings import without_escapes
from trace_recorder.storage.redaction.known_values import KnownSecrets


def default_redactor(text: str) -> str:
    """Mask keys and tokens of well-known providers by their forms, and values that follow the name of a secret.

    The text may be plain or JSON: no mask extends over the end of a JSON string.
    """
    return mask_json(mask_text(text))


FORM, NAME, ENCODED, KNOWN = 1, 2, 4, 8
EVERY = FORM | NAME | ENCODED | KNOWN
"""The ways in which a secret is recognised: by its form, by a name before it, in an encoded text, as a known value."""


_KINDS = (FORM, NAME, NAME, ENCODED, KNOWN, EVERY)
"""The kind of each list in `PossibleSecrets.all`, in the same order."""


class PossibleSecrets:
    """The result of the quick search of a text: for each kind of secret, the positions at which such a secret may be.

    `all` has the lists of all kinds. If `any(possible.all)` is False, the text has no secret. If `has_many` is True,
    the search has ended early, because possible secrets are in many strings of JSON. A secret may then be in any
    string.
    """

    __slots__ = (
        "_kinds",
        "_positions",
        "all",
        "by_form",
        "by_name",
        "encoded",
        "escapes",
        "has_many",
        "in_urls",
        "known",
    )

    def __init__(self, text: str, kinds: int = EVERY, known: KnownSecrets | None = None) -> None:
        shortened = shorten(text) if len(text) > LONGEST_ENCODED else None
        prepared = PreparedText(text if shortened is None else shortened.text, runs=kinds != NAME)
        self.by_form: list[int] = []
        self.by_name: list[int] = []
        self.has_many = False
        if kinds & FORM:  # one position in each string is enough
            for span in key_finder.FINDER.find(prepared, len(prepared.text), once=True):
                self.by_form.append(span.start)
                if len(self.by_form) >= MANY and are_close(self.by_form):
                    self.has_many = True
                    break
        if kinds & NAME and not self.has_many:
            any_value = known is not None and any(value in text for value in known.short)
            self.by_name = secret_names.candidate_positions(prepared, any_value=any_value)
            self.has_many = len(self.by_name) >= MANY and are_close(self.by_name)
        self.in_urls = urls.candidate_positions(prepared) if kinds & NAME and urls.MARK in prepared.plain else []
        self.encoded: list[int] = []
        if kinds & ENCODED and not self.has_many and (prepared.runs or secret_encodings.MARK in prepared.data):
            self.encoded = secret_encodings.candidate_positions(prepared, _find_secrets)
        self.known: list[int] = []
        self.escapes: list[int] = []
        self.all = self.by_form, self.by_name, self.in_urls, self.encoded, self.known, self.escapes
        if shortened is not None:
            for positions in self.all:
                positions[:] = shortened.positions(positions)
        if known is not None and known.all:
            self.known += known.positions(text, prepared if shortened is None else None)

    def add(self, other: PossibleSecrets, begin: int) -> None:
        """Add the possible secrets of another part of the same text. The other part begins at `begin`."""
        self.has_many = self.has_many or other.has_many
        for positions, other_positions in zip(self.all, other.all, strict=True):
            positions += [begin + position for position in other_positions]

    def part(self, start: int, end: int) -> PossibleSecrets:
        """Return the possible secrets from `start` to `end`, with positions relative to `start`.

        Call `positions` first.
        """
        part = PossibleSecrets("")
        part.has_many = self.has_many
        for positions, all_positions in zip(part.all, self.all, strict=True):
            positions += [
                at - start for at in all_positions[bisect_left(all_positions, start) : bisect_left(all_positions, end)]
            ]
        return part

    def move_behind_escapes(self, escapes: list[tuple[int, int]]) -> None:
        """Convert positions in a text without escapes to positions in the text with escapes.

        Each escape becomes a possible position of a secret too.
        """
        starts: list[int] = []
        more = 0
        for start, end in escapes:
            starts.append(start - more)
            more += end - start - 1
        shifts = list(accumulate((end - start - 1 for start, end in escapes), initial=0))
        for positions in self.all:
            positions[:] = [at + shifts[bisect_left(starts, at)] for at in positions]
        self.escapes += [start for start, _ in escapes]

    def positions(self) -> list[int]:
        """Return the positions at which a secret of any kind may be, in order.

        The list of each kind is sorted too.
        """
        kinds: dict[int, int] = defaultdict(int)
        for positions, kind in zip(self.all, _KINDS, strict=True):
            positions.sort()
            for position in positions:
                kinds[position] |= kind
        self._positions = sorted(kinds)
        self._kinds = kinds
        return self._positions

    def kinds(self, start: int, end: int) -> int:
        """Return the kinds of secrets that may be in a part of the text, as bits of `EVERY`. Call `positions` first."""
        if self.has_many:
            return EVERY
        first = bisect_left(self._positions, start)
        kinds = 0
        while first < len(self._positions) and self._positions[first] < end:
            kinds |= self._kinds[self._positions[first]]
            first += 1
        return kinds


_OVERLAP = 4 * 1024
"""A long text is searched in blocks.

This many characters at the end of a block are searched again with the next block. A secret is recognised by fewer
characters than that.
"""


def find_in_json(text: str, kinds: int, known: KnownSecrets) -> PossibleSecrets:
    """Return the possible secrets of JSON text, which may have escapes. A long text is searched in blocks."""
    if len(text) <= MAX_UNINTERRUPTED_CHARS + _OVERLAP:
        return _find_with_escapes(text, kinds, known) if "\\" in text else PossibleSecrets(text, kinds, known)
    possible = PossibleSecrets("")
    for start in range(0, len(text), MAX_UNINTERRUPTED_CHARS):
        yield_to_others()
        begin = max(0, start - _OVERLAP)
        block = text[begin : start + MAX_UNINTERRUPTED_CHARS]
        possible.add(_find_with_escapes(block, kinds, known), begin)
    return possible


def _find_with_escapes(text: str, kinds: int, known: KnownSecrets) -> PossibleSecrets:
    plainer, escapes = without_escapes(text)
    possible = PossibleSecrets(plainer, kinds, known)
    if escapes and any(possible.all):
        possible.move_behind_escapes(escapes)
    return possible


_BESIDE_MASK = re.compile(r"\[REDACTED:(?:(?<=[A-Za-z0-9_.+/-]\[REDACTED:)|[a-z0-9-]{1,40}\][A-Za-z0-9_.+/-])")
_NEAR, _LONGEST_KEY = 100, 1000
_REST_OF_WORD = re.compile(rf"[^ \n]{{0,{_LONGEST_KEY}}}")


def _beside_masks(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a text in which letters of a word are right beside a mask.

    Each part is (start, limit, end). In a part, only secrets that begin from `start` to `limit` must be searched.
    """
    start = near = end = 0
    for mask in _BESIDE_MASK.finditer(text):
        first = max(near, mask.start() - _NEAR)
        begin = max(text.rfind(" ", first, mask.start()) + 1, text.rfind("\n", first, mask.start()) + 1, first)
        if begin > near:
            if end:
                yield start, near, end
            start = begin
        rest = _REST_OF_WORD.match(text, mask.end())
        end = rest.end() if rest else mask.end()
        near = min(end, mask.end() + _NEAR)
    if end:
        yield start, near, end


def _prepare(text: str, *, runs: bool = True) -> tuple[PreparedText, Shortened | None]:
    """Prepare a text for the search. A long text is prepared without the middles of its long runs of base64."""
    shortened = shorten(text) if len(text) > LONGEST_ENCODED else None
    return PreparedText(text if shortened is None else shortened.text, runs=runs), shortened


def _find_secrets(text: str) -> list[int] | None:
    """Return the positions where secrets may begin, except for encoded secrets.

    Return None if there are too many such positions.
    """
    possible = PossibleSecrets(text, FORM | NAME)
    return None if possible.has_many else possible.positions()


def mask_text(text: str, short: Collection[str] = frozenset(), kinds: int = EVERY) -> str:
    """Mask secrets recognised by their form, by a name before them, or in an encoded text.

    The known values in `short` are masked only after the name of a secret.
    """
    prepared, shortened = _prepare(text, runs=bool(kinds & (FORM | ENCODED)))
    masked = _mask(text, short, kinds, prepared, shortened)
    if not kinds & ENCODED or not (prepared.runs or secret_encodings.MARK in prepared.data):
        return masked
    runs = prepared.runs if masked is text and shortened is None else PreparedText(masked).runs
    return secret_encodings.mask_encoded(masked, runs, lambda decoded: _mask(decoded, short, EVERY, *_prepare(decoded)))


def _mask(text: str, short: Collection[str], kinds: int, prepared: PreparedText, shortened: Shortened | None) -> str:
    """Mask secrets of these kinds in a text, except for secrets in base64 or in percent-encoded words."""
    if kinds & NAME:
        without_users = _mask_spans(text, urls.secrets_in_urls(text), "[REDACTED:url-password]")
        if without_users != text:
            text, (prepared, shortened) = without_users, _prepare(without_users)
    if kinds & FORM:
        masked, _ = _mask_keys(text, prepared, shortened, len(text))
        text = masked if masked is text else _mask_beside_masks(masked)
    if not kinds & NAME:
        return text
    text = _mask_spans(text, commands.secrets_in_commands(text), "[REDACTED:assigned-secret]")
    any_value = any(value in text for value in short)
    secrets = secret_names.secrets_by_name(text, short.__contains__, any_value=any_value)
    return _mask_spans(text, secrets, "[REDACTED:assigned-secret]")


def _mask_beside_masks(text: str) -> str:
    """Mask secrets that were not found because they were right beside another secret, which is a mask now."""
    parts: list[str] = []
    done = 0
    for start, near, end in _beside_masks(text):
        if start >= done:
            part, size = _mask_keys(text[start:end], *_prepare(text[start:end]), near - start)
            parts += (text[done:start], part)
            done = start + size
    return "".join([*parts, text[done:]]) if parts else text


def _mask_keys(text: str, prepared: PreparedText, shortened: Shortened | None, until: int) -> tuple[str, int]:
    """Mask the secrets that are recognised by their form, up to the position `until`.

    Return the masked part of the text, and the length of that part before masking.
    """
    parts: list[str] = []
    done = 0
    for start, end, number in key_finder.secrets(prepared, until):
        begin, last = (start, end - 1) if shortened is None else shortened.positions([start, end - 1])
        parts += (text[done:begin], mask_of_part(text, begin, last + 1, key_finder.MASKS[number]))
        done = last + 1
    end = max(done, until)
    return ("".join([*parts, text[done:end]]) if parts else text[:end]), end


def _mask_spans(text: str, spans: Iterable[tuple[int, int]], mask: str) -> str:
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:  # one command may be inside the flags of another
            parts += (text[done:start], mask_of_part(text, start, end, mask))
            done = end
        elif end > done:
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def masks_in(text: str, masked: str) -> int:
    """Return how many secrets were masked in a text. A change that adds no mask of ours counts as one secret."""
    return 0 if masked == text else max(1, masked.count("[REDACTED:") - text.count("[REDACTED:"))
