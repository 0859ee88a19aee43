"""Texts that another text spells with escapes: a string of JSON, or a percent-encoded word of a URL.

A secret is searched in the decoded text. `Spelling.span` then says where the secret is in the text that spells it, so
that nothing but the secret is replaced.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from urllib.parse import unquote

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours

_OF_JSON = lazy_pattern(r"\\(?:u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^u])")
_OF_URLS = lazy_pattern(r"%[0-7][0-9A-Fa-f]|(?:%[89a-fA-F][0-9A-Fa-f])+")


class Spelling:
    """A text, and how another text spells it. `escapes` matches the escapes of the spelled text."""

    def __init__(self, spelled: str, text: str, escapes: re.Pattern[str]) -> None:
        self.spelled = spelled
        self.text = text
        self._escapes = escapes
        self._spans: list[tuple[int, int]] = []
        self._starts: list[int] = []
        """The position of each escape in the decoded text."""
        self._ends: list[int] = []

    def _read(self) -> None:
        shift = 0
        self._spans = [escape.span() for escape in self._escapes.finditer(self.spelled)]
        for start, end in self._spans:
            size = 1
            if end - start > 3 and self._escapes is _OF_URLS:
                size = len(unquote(self.spelled[start:end]))
            self._starts.append(start - shift)
            self._ends.append(start - shift + size)
            shift += end - start - size

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the spelled text of a part of the decoded text. No escape is cut."""
        if len(self.text) == len(self.spelled):
            return start, end
        if not self._spans:
            self._read()
        first = bisect_right(self._ends, start)  # the first escape that does not end before the part
        spelled_start = start
        if first < len(self._starts) and self._starts[first] <= start:
            spelled_start = self._spans[first][0]
        elif first:
            spelled_start = start - self._ends[first - 1] + self._spans[first - 1][1]
        last = bisect_left(self._starts, end) - 1  # the last escape that begins in the part or before it
        if last < 0:
            return spelled_start, end
        return spelled_start, self._spans[last][1] + max(0, end - self._ends[last])


def of_json(spelled: str) -> Spelling:
    """Decode the characters between the quotes of a JSON string. A string that is cut off is not decoded."""
    text = spelled
    if "\\" in spelled:
        try:
            text = str(json.loads(f'"{spelled}"'))
        except ours(ValueError):
            text = spelled
    return Spelling(spelled, text, _OF_JSON)


def of_urls(spelled: str) -> Spelling:
    """Decode percent-encoded words."""
    return Spelling(spelled, unquote(spelled), _OF_URLS)
