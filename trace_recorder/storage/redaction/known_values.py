"""Masks secrets that are recognised by their value: the client's own key, and keys and passwords in the environment.

A value that is long and unlike any word is masked wherever it occurs. A shorter value, or a word, is masked only after
the name of a secret (`KnownSecrets.short`). Invariants: the number of known values is bounded. Learning a value
compiles no pattern, and takes a time that does not depend on the number of known values. When a value is learned, every
later call of `mask` masks it, in any thread.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.locks import new_lock
from trace_recorder.storage.redaction.first_look import any_word, latin_bytes
from trace_recorder.storage.redaction.secret_spans import ANY_MASK, KNOWN, Secret, Spans, join, replace

if TYPE_CHECKING:
    from trace_recorder.storage.redaction.identities import Identities

KEPT = 32
"""A run keeps at most this many keys that its requests have sent.

If there are more, the run forgets the keys that were sent longest ago.
"""
COOKIES = 8
"""A run keeps at most this many cookies. If there are more, the run forgets the cookies that were sent longest ago."""
FROM_THE_ENVIRONMENT = 256
SHORTEST = 8
"""A value of at least this many characters is masked wherever it occurs, unless it is a word."""
SHORTEST_BY_NAME = 4
TELLING = 3
"""The end of a text counts as the beginning of a known value only if at least this many characters are the same."""
ANYWHERE = 16
"""A value of at least this many characters is masked inside a longer word too."""

_PLACEHOLDERS = frozenset(
    {"lm-studio", "not-needed", "not-used", "no-key-required", "sk-no-key-required", "placeholder", "anything"}
)
"""Values that people write where a key is required but not used. Masking them would damage prose."""
_PLAIN = lazy_pattern(r"[A-Za-z0-9._~-]+")
_WORD = lazy_pattern(r"[A-Za-z][a-z]*|[A-Z]+|[a-z]+(?:_[a-z]++)*|\d+")
_WORDS = lazy_pattern(r"[A-Za-z]+(?:[-_. ][A-Za-z]++)*")
_ESCAPE = lazy_pattern("%..")
_BEFORE = lazy_pattern(r"\\[bfnrt]\Z|\\u[0-9A-Fa-f]{4}\Z|%[0-9A-Fa-f]{2}\Z|[0-9;\[][0-9]m\Z")


def is_unlike_words(value: str) -> bool:
    """Return whether a value may be masked wherever it occurs: it is long, and not a word, a name or a number."""
    if len(value) < SHORTEST or value.lower() in _PLACEHOLDERS or len(set(value)) < 4:
        return False
    if _WORD.fullmatch(value) is not None:
        return len(value) >= 24
    return _WORDS.fullmatch(value) is None or len(value) >= 12


class _Secret:
    """A known value, and the ways in which it may be written.

    `trace` is the longest part of the value that is the same in each of these ways, except for base64.
    """

    def __init__(self, value: str) -> None:
        self.value = value
        self.trace = max(_PLAIN.findall(value), key=len, default="")
        self.is_no_name = len(value) >= ANYWHERE and any(map(str.isdigit, value))

    @cached_property
    def base64(self) -> tuple[str, ...]:
        """The parts of the value's base64 that do not depend on the text around the value.

        There is one part for each of the three alignments of a text in base64. If a part differs in the alphabet of
        URLs, that form of the part is added.
        """
        data = self.value.encode("utf-8", "surrogatepass")
        if len(data) < 12:
            return ()
        cores = []
        for offset in range(3):
            bits = 8 * (offset + len(data))
            text = base64.b64encode(b"\0" * offset + data).decode()
            cores.append(text[(8 * offset + 5) // 6 : bits // 6])
        return (*cores, *(core.translate(_FOR_URLS) for core in cores if "+" in core or "/" in core))

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """The ways in which the value may be written, the longest first.

        The value may be written unchanged, in Python's repr, in JSON (encoded once or twice), or in a URL.
        """
        value = self.value
        once = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
        twice = {json.dumps(spelled, ensure_ascii=False)[1:-1] for spelled in once}
        data = value.encode("utf-8", "surrogatepass")
        in_urls = {quote(data), quote(data, safe=""), quote_plus(data)}
        in_urls |= {_ESCAPE.sub(lambda escape: escape[0].lower(), spelled) for spelled in in_urls}
        all_of_them = {value, repr(value)[1:-1], repr(data)[2:-1], *once, *twice, *in_urls}
        return tuple(sorted(all_of_them, key=lambda spelled: (-len(spelled), spelled)))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the value in a text, however it is written there."""
        if self.trace in text:
            for spelled in self.spellings:
                yield from _spans_of(text, spelled, anywhere=len(self.value) >= ANYWHERE)
        for core in self.base64:
            yield from _spans_of(text, core, anywhere=True)


_FOR_URLS = str.maketrans("+/", "-_")


def _everywhere(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _spans_of(text: str, spelled: str, *, anywhere: bool) -> Iterator[tuple[int, int]]:
    position = text.find(spelled)
    while position >= 0:
        end = position + len(spelled)
        if anywhere or _is_apart(text, position, end):
            yield position, end
            position = text.find(spelled, end)
        else:
            position = text.find(spelled, position + 1)


def _is_apart(text: str, start: int, end: int) -> bool:
    """Return whether the part of a text from `start` to `end` is not inside a longer word."""
    if text[end - 1].isalnum() and text[end : end + 1].isalnum():
        return False
    if not text[start].isalnum() or not text[start - 1 : start].isalnum() or start == 0:
        return True
    return _BEFORE.search(text, max(0, start - 6), start) is not None


_SECRET_NAME = lazy_pattern(
    r"(?:(?:^|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|PASSPHRASE|ACCESS_?KEY|PRIVATE_?KEY)(?:$|_)|PGPASSWORD)"
    r"(?!.*(?:_|^)(?:FILE|PATH|DIR|URL|URI|HOST|ENDPOINT|NAME|ARN|TYPE|LIMIT)$)",
    re.IGNORECASE,
)
"""Matches the names of environment variables that contain a secret, and not a secret's path or address."""
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})


def secrets_of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of the variables whose names are names of secrets."""
    for name, value in environment.items():
        if _SECRET_NAME.search(name) and name not in _DIRECTORIES:
            yield value


class _ValueSearch:
    """A search for the parts of known values that are the same in each spelling.

    The parts are searched one by one, or by an automaton if much text is searched before the values change.
    """

    def __init__(self, secrets: tuple[_Secret, ...]) -> None:
        self.secrets = secrets
        self._parts = tuple(part for secret in secrets for part in (secret.trace, *secret.base64))
        self._chars = 0
        self._has_automaton = False
        self._contains: Callable[[bytes], bool] | None = None
        """The automaton, or None if it was not made yet, or cannot be made."""

    def may_contain(self, text: str, data: bytes = b"") -> bool:
        """Return whether a text may contain one of the parts. Without an automaton, the answer is True.

        `data` has the `latin_bytes` of the text if the caller has them.
        """
        self._chars += len(text)
        if not self._has_automaton and self._chars > _WORTH_AN_AUTOMATON and all(self._parts):
            self._has_automaton = True
            self._contains = any_word(self._parts)
        return self._contains is None or self._contains(data or latin_bytes(text))

    def positions(self, text: str, data: bytes = b"") -> list[int]:
        """Return the positions of the parts in a text. `data` is the text as for `may_contain`."""
        self._chars += len(text)
        if self._chars > _WORTH_AN_AUTOMATON and not self.may_contain(text, data):
            return []
        return [at for part in self._parts if part in text for at in _everywhere(text, part)]


_WORTH_AN_AUTOMATON = 64 * 1024
"""To make an automaton takes as long as to search this many characters for each part."""


class KnownSecrets:
    """The values that one run knows to be secret. Any thread may call `learn` and `mask`.

    `identities` are found too, if the run masks what identifies people and machines.
    """

    def __init__(self, environment: Iterable[str] = (), identities: Identities | None = None) -> None:
        self.identities = identities
        self._lock = new_lock()  # re-entrant: while a thread learns, a signal handler in it may make a call
        self._given: dict[str, _Secret] = {}
        self._sent: dict[str, _Secret] = {}
        self._cookies: dict[str, _Secret] = {}
        self.short: frozenset[str] = frozenset()
        """The known values that are masked only after the name of a secret."""
        self.all: tuple[_Secret, ...] = ()
        """All values that are masked wherever they occur.

        A change replaces the whole tuple, because other threads may read it.
        """
        self._search: _ValueSearch | None = None
        self._learn(environment, self._given, FROM_THE_ENVIRONMENT)

    def learn(self, keys: Iterable[str], cookies: Iterable[str] = ()) -> list[str]:
        """Learn these values. Return the keys that are new and are masked wherever they occur."""
        with self._lock:
            self._learn(cookies, self._cookies, COOKIES)
            return self._learn(keys, self._sent, KEPT)

    def _learn(self, values: Iterable[str], kept: dict[str, _Secret], limit: int) -> list[str]:
        with self._lock:
            new: list[str] = []
            short: set[str] = set()
            for raw in values:
                value = raw.strip()
                if value in self._given:
                    continue
                if not is_unlike_words(value):
                    if len(value) >= SHORTEST_BY_NAME:
                        short.add(value)
                    continue
                known = kept.pop(value, None)
                if known is None:
                    new.append(value)
                kept[value] = known or _Secret(value)
            while len(kept) > limit:
                kept.pop(next(iter(kept)), None)
            if not short <= self.short:
                self.short = frozenset(sorted(self.short | short)[:FROM_THE_ENVIRONMENT])
            if new or len(self.all) != len(self._given) + len(self._sent) + len(self._cookies):
                self.all = (
                    *self._given.values(),
                    *self._sent.values(),
                    *self._cookies.values(),
                )  # one assignment, because other threads may be masking
            return new

    def __len__(self) -> int:
        """Return how many values are kept."""
        return len(self.all)

    def positions(self, text: str, data: bytes = b"") -> list[int]:
        """Return the positions in a text at which one of the values may be.

        `data` has the `latin_bytes` of the text if the caller has them.
        """
        positions: list[int] = []
        if self.all:
            search = self._search
            if search is None or search.secrets is not self.all:
                search = self._current_search()
            positions = search.positions(text, data)
        if self.identities is not None:
            positions += self.identities.positions(text)
        return positions

    def _current_search(self) -> _ValueSearch:
        search = self._search
        if search is None or search.secrets is not self.all:
            search = self._search = _ValueSearch(self.all)
        return search

    def partial_value_length(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a known value."""
        longest = 0
        last = text[-TELLING:]
        if len(last) < TELLING:
            return 0
        for secret in self.all:
            for spelled in secret.spellings:
                position = spelled.rfind(last, 0, -1)
                while position >= 0 and position + TELLING > longest:
                    if text.endswith(spelled[: position + TELLING]):
                        longest = position + TELLING
                        break
                    position = spelled.rfind(last, 0, position + TELLING - 1)
        if self.identities is not None:
            return max(longest, self.identities.unfinished(text))
        return longest

    def secrets(self, text: str, *, names: bool = False) -> list[Secret]:
        """Return the known values in a text, in order. A value that overlaps a mask of the text is left out.

        If `names` is True, `text` is a name, such as a JSON member's. Then only values with a digit and at least
        `ANYWHERE` characters are found, because other values may be ordinary names.
        """
        spans: list[Secret] = []
        if self.identities is not None:
            spans += self.identities.spans(text)
        if self.all and self._current_search().may_contain(text):
            values = self.all
            if names:
                values = tuple(value for value in self.all if value.is_no_name)
            spans += [Secret(start, end, KNOWN) for value in values for start, end in value.spans(text)]
        spans = join(spans)
        if not spans or "[REDACTED:" not in text:
            return spans
        masks = Spans(Secret(*mask.span(), KNOWN) for mask in ANY_MASK.finditer(text))
        return [secret for secret in spans if not masks.overlaps(secret.start, secret.end)]

    def mask(self, text: str, *, names: bool = False) -> str:
        """Return a text with the known values masked."""
        return replace(text, self.secrets(text, names=names))
