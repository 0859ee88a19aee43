"""The spans of secrets in a text: what every search returns, and what masking replaces.

Each kind of secret has one search, from a text to its spans. All searches read the same unchanged text. One rule then
decides where their spans overlap (`join`), and the text is replaced once (`replace`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.json_strings import BETWEEN
from trace_recorder.storage.redaction.patterns import FORMS
from trace_recorder.values.structs import Struct

DEFINED, KNOWN, IN_URL, FIRST_FORM = range(4)
DENSE = FIRST_FORM + len(FORMS)
ASSIGNED, MEMBER, ENCODED = DENSE + 1, DENSE + 2, DENSE + 3
EMAIL, IP_ADDRESS, USER_NAME, HOST_NAME = range(ENCODED + 1, ENCODED + 5)
KINDS = (
    *("secret-member", "known-secret", "url-password"),
    *(form.what for form in FORMS),
    *("many-keys", "assigned-secret", "secret-member", "encoded-secret"),
    *("email-address", "ip-address", "user-name", "host-name"),
)
"""The kinds of secrets by their numbers, which are the constants above and `FIRST_FORM` plus the index of a form.

A kind comes before the kinds that know less of a secret. `DEFINED` is a member that an API defines as a secret. `DENSE`
is a part of a text with too many beginnings of keys.
"""
MASKS = tuple(f"[REDACTED:{kind}]" for kind in KINDS)
"""The mask of each kind. A mask has no quote and no backslash, so that JSON stays JSON."""
_LONGEST_KIND = 40
ANY_MASK = lazy_pattern(rf"\[REDACTED:[a-z0-9-]{{1,{_LONGEST_KIND}}}\]")
"""Matches a whole mask, also the one that the second of two equal names gets.

A text may also have the beginning of a mask alone, with any text after it.
"""
LONGEST_MASK = len("[REDACTED:]") + _LONGEST_KIND


class Secret(Struct, frozen=True, gc=False):
    """The span of a secret in a text, and the number of its kind."""

    start: int
    end: int
    kind: int

    def text(self, text: str) -> str:
        """Return the secret. `text` is the text that has it."""
        return text[self.start : self.end]


_start = attrgetter("start")


def join(secrets: Iterable[Secret]) -> list[Secret]:
    """Return the secrets in order, with spans that overlap joined.

    A joined span has the kind of its longest part, or the first of their kinds if several parts are equally long. Dense
    parts are joined if one begins where the other ends.
    """
    joined: list[Secret] = []
    end = longest = -1
    for secret in sorted(secrets, key=_start):
        size = secret.end - secret.start
        if secret.start > end or (secret.start == end and not secret.kind == joined[-1].kind == DENSE):
            joined.append(secret)
            end, longest = secret.end, size
            continue
        last = joined[-1]
        kind = last.kind
        if size > longest or (size == longest and secret.kind < kind):
            kind, longest = secret.kind, size
        end = max(end, secret.end)
        joined[-1] = Secret(last.start, end, kind)
    return joined


def moved(secrets: Iterable[Secret], distance: int) -> list[Secret]:
    """Return secrets of a part of a text that begins at this distance from the beginning of the text."""
    return [Secret(secret.start + distance, secret.end + distance, secret.kind) for secret in secrets]


def replace(text: str, secrets: Sequence[Secret], replacement: Callable[[Secret], str | None] | None = None) -> str:
    """Replace secrets, which are in order and do not overlap, by their masks or by what a function returns.

    If the function returns None, the secret stays.
    """
    parts: list[str] = []
    done = 0
    for secret in secrets:
        new = MASKS[secret.kind] if replacement is None else replacement(secret)
        if new is not None:
            parts += (text[done : secret.start], new)
            done = secret.end
    return "".join([*parts, text[done:]]) if parts else text


class Spans:
    """The secrets that earlier searches have found in a text, in order and joined."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self.secrets = join(secrets)
        self._starts = [secret.start for secret in self.secrets]

    def with_more(self, secrets: Iterable[Secret]) -> Spans:
        """Return these secrets and others."""
        more = [*secrets]
        if not more:
            return self
        return Spans([*self.secrets, *more])

    def covers(self, position: int) -> bool:
        """Return whether a position is in a secret."""
        return self.overlaps(position, position + 1)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether a part of a text overlaps a secret."""
        index = bisect_right(self._starts, start) - 1
        if index >= 0 and start < self.secrets[index].end:
            return True
        return index + 1 < len(self._starts) and self._starts[index + 1] < end

    def next_start(self, position: int, end: int) -> int:
        """Return where the first secret begins at a position or after it, or `end` if there is none."""
        index = bisect_left(self._starts, position)
        if index == len(self._starts):
            return end
        return self._starts[index]

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a part of a text that are in no secret."""
        index = max(0, bisect_right(self._starts, start) - 1)
        while start < end and index < len(self.secrets):
            secret = self.secrets[index]
            if start < min(secret.start, end):
                yield start, min(secret.start, end)
            start = max(start, secret.end)
            index += 1
        if start < end:
            yield start, end


NO_SPANS = Spans(())


_SEPARATOR = len(BETWEEN)


class JoinedTexts:
    """Several texts that are searched as one, because to begin a search costs as much as hundreds of characters."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.text = BETWEEN.join(texts)
        self._starts = [*accumulate([len(text) + _SEPARATOR for text in texts], initial=0)]

    def divide(self, secrets: Iterable[Secret]) -> Iterator[tuple[int, Secret]]:
        """Yield the secrets of the joined text, each with the number of its text, and with its span there.

        Of a dense part that extends over several texts, each text gets its part.
        """
        for secret in secrets:
            number = bisect_right(self._starts, secret.start) - 1
            while self._starts[number] < secret.end:
                first, last = self._starts[number], self._starts[number + 1] - _SEPARATOR
                start = max(first, secret.start)
                end = min(last, secret.end)
                if start < end:
                    yield number, Secret(start - first, end - first, secret.kind)
                number += 1
