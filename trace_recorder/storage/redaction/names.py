r"""Finds secrets by a name before them, as in `password: …`, `--token …` and `"clientSecret": "…"`.

A name is found by its stem, such as `token` in `api_token` (`first_look.py`). One pattern then
reads the rest of the name and the separator. It also tests whether the following value is long enough to be a secret.
Python code runs only where this pattern matches. This code judges the name and the value (`name_kinds.py`), and how the
value is written (`_notation`). Invariants: each position costs a bounded number of steps. Names inside a secret are not
examined. Within a value that is not secret, at most `MAX_NESTED` names are examined. So each character is read only a
few times, however many names are before it. No mask replaces a quote or a backslash, so that JSON stays JSON.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import repeat

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.dense_parts import CLOSE_NAMES, Density, dense_end
from trace_recorder.storage.redaction.first_look import Look
from trace_recorder.storage.redaction.json_strings import decoded_around, string_end
from trace_recorder.storage.redaction.name_kinds import SHORTEST_WEAK, is_secret_name
from trace_recorder.storage.redaction.name_patterns import (
    BLANK,
    COOKIE_END,
    ESCAPES,
    KNOWN_NAMED,
    MEMBER_END,
    NAMED,
    QUOTE_ALONE,
    SCHEME_BEHIND_BLANK,
    SCHEME_THERE,
)
from trace_recorder.storage.redaction.named_values import (
    COOKIE_LIST,
    Is,
    NameMatch,
    Span,
    cookies_of,
    name_match_at,
    notation_behind_blank,
    value_of,
)
from trace_recorder.storage.redaction.secret_spans import ANY_MASK, ASSIGNED, LONGEST_MASK, NO_SPANS, Secret, Spans
from trace_recorder.values.json_text import COLON
from trace_recorder.values.structs import Struct

MAX_NESTED = 3
"""At most this many names are examined within a value that is not secret. In `a=b=c`, `b` may be a value or a name."""

_LONG_VALUE = lazy_pattern(rf"[^\s\"'`<>]{{{SHORTEST_WEAK}}}")
_LONG_STRING = lazy_pattern(
    rf"\\{{0,7}}\"\s{{0,20}}+[:,]\s{{0,20}}+\\{{0,7}}\""
    rf"(?:[^\"\\]{{{SHORTEST_WEAK}}}|[^\"\\]{{0,{SHORTEST_WEAK - 1}}}+\\)"
)
"""Matches the text between the name and the value of a JSON member, and a value that is long, or has an escape."""
_ELEMENT_END = lazy_pattern(r"\"\s{0,20}+,")
_LABEL = lazy_pattern(r"\"(?:[Nn]ame|[Kk]ey|variable)\"\s{0,20}:\s{0,20}\"\Z")
"""Matches the text before a name that is a string of JSON, and names the member "value" of the same object."""
_LONGEST_LABEL = 60


class _Names(Struct):
    """The names in a text, each as the match of `NAMED` at its stem.

    `read` is the match of the pattern, and `low` the text in lower case. Most of the `stems` are not in a name, and are
    passed over in C. `position` is the position of the current stem. Names before
    `done` are not read. `within` is the end of the last value that was read. At most `MAX_NESTED` names within such
    values are read.
    """

    read: Callable[..., re.Match[str] | None]
    low: str
    stems: list[int]
    position: int = 0
    done: int = 0
    within: int = 0

    def __iter__(self) -> Iterator[re.Match[str]]:
        outer = index = 0
        size = len(self.stems)
        while index < size:
            stems = self.stems[index : index + _AT_ONCE]
            for match in filter(None, map(self.read, repeat(self.low), stems)):
                self.position = position = match.start()
                if position >= self.within:
                    outer = position
                    yield match
                elif bisect_left(self.stems, position) - bisect_left(self.stems, outer) <= MAX_NESTED:
                    yield match
                else:
                    self.done = self.within
                if self.done > position:
                    index = bisect_left(self.stems, self.done, index)
                    break
            else:
                index += _AT_ONCE


_AT_ONCE = 64


def possible_names(look: Look, is_known: Is, *, any_value: bool = False) -> Iterator[int]:
    """Yield the positions of names in JSON text that a secret follows, or may follow.

    The name of a member is always a possible name, because its string is judged by another rule. A name within a string
    is judged as `secrets_by_name` judges it in the decoded string.
    """
    if not look.names:
        return
    text, last, escapes = look.text, 0, 0
    has_escapes = "\\" in text
    density, judged = Density(CLOSE_NAMES), Density(_WORTH_A_SEARCH, most=_MOST_JUDGED)
    names = _Names((KNOWN_NAMED if any_value else NAMED).match, look.low, look.names)
    for match in names:
        position = names.position
        name_match = name_match_at(text, position, match)
        end = name_match.begin + len(name_match.name)
        if match[COOKIE_END] is not None:
            may_be = name_match.kind == "cookie"
        elif text[end : end + 1] == '"':
            may_be = _may_be_member(name_match, end, any_value=any_value)
        else:
            if has_escapes:
                escapes += text.count("\\", last, position)  # escapes lengthen the distances
                last = position
            may_be = _may_be_followed(name_match, any_value=any_value) and (
                _ends_soon(text, end, match.end())
                or density.add(position - escapes)
                or judged.add(position)
                or _is_followed(text, position, match, is_known, names.read)
            )
        if may_be:
            yield position
            names.done = string_end(text, end)


def _ends_soon(text: str, end: int, value: int) -> bool:
    """Return whether a string ends soon after a name and its separator, so that searching it costs less than judging.

    In a text that is not JSON, the quote before a value counts as such an end too.
    """
    quote = text.find('"', end, value + _SOON)
    return quote > 0 and text[quote - 1] != "\\"


_SOON = 40
_MOST_JUDGED, _WORTH_A_SEARCH = 3, 1500
"""A string with more than three names with values, and further ones for each 1,500 characters, is searched at once.

To judge each of them takes longer than to search so many characters.
"""
_BEFORE_NAME = 140
"""So many characters before a stem decide whether a secret follows its name."""
_BEHIND_SHORT, _BEHIND_LONG = 100, 700
"""So many characters after the separator decide this, for short and for long values."""
_LONG = lazy_pattern(r"[^\s\"'`<>]{60}")


def _is_followed(
    text: str, position: int, raw: re.Match[str], is_known: Is, read_name: Callable[..., re.Match[str] | None]
) -> bool:
    """Return whether a secret follows the name with the stem at a position within a string of JSON text."""
    behind = _BEHIND_SHORT
    if _LONG.match(text, raw.end()):
        behind = _BEHIND_LONG
    try:
        decoded, stem = decoded_around(text, position, _BEFORE_NAME, raw.end() - position + behind)
    except ours(ValueError):
        return True
    match = read_name(decoded.encode("latin-1", "replace").lower().decode("latin-1"), stem)
    if match is None:
        return False
    name_match = name_match_at(decoded, stem, match)
    if is_secret_name(name_match.name) and _FIELD.match(decoded, name_match.begin + len(name_match.name)):
        return True  # JSON within the string
    if match[MEMBER_END] or match[QUOTE_ALONE]:
        return False
    return value_of(name_match, is_known, Density(CLOSE_NAMES))[0] is not None


_FIELD = lazy_pattern(r"\\{0,7}\"\s{0,20}+:\s{0,20}+\\{0,7}\"")


def _may_be_member(name_match: NameMatch, end: int, *, any_value: bool) -> bool:
    """Return whether a name that ends with a quote may be the name of a secret.

    In JSON, the name is that of a member, a command's option, or the string of a member "name" beside a member "value".
    In a text that is not JSON, a value may follow after the quote.
    """
    text, begin, name, kind = name_match.text, name_match.begin, name_match.name, name_match.kind
    is_secret = is_secret_name(name) or kind in {"cookie", "strong"}
    if kind is None and not is_secret:
        return False
    if COLON.match(text, end + 1) is None:
        first = text.rfind('"', 0, begin) + 1
        if _LABEL.search(text, max(0, first - _LONGEST_LABEL), first) or text[first - 2 : first - 1] == "\\":
            return True
        has_value = name_match.match[QUOTE_ALONE] is None and name_match.match[ESCAPES] is None
        if text[first : first + 1] != "-" and not (has_value and not _is_element(text, first, end)):
            return False
    return is_secret or any_value or _LONG_STRING.match(text, end) is not None


def _is_element(text: str, first: int, end: int) -> bool:
    """Return whether a string of JSON is an element of a list before another element."""
    return _ELEMENT_END.match(text, end) is not None and text[max(0, first - 21) : first - 1].rstrip()[-1:] in {
        ",",
        "[",
    }


def _may_be_followed(name_match: NameMatch, *, any_value: bool) -> bool:
    """Return whether a name is used for secrets, and the value after it is long enough."""
    match = name_match.match
    if is_secret_name(name_match.name):
        return True
    if name_match.kind in {None, "cookie"}:
        return False
    if match[BLANK] and notation_behind_blank(name_match.before, name_match.name, match[BLANK]) is None:
        return False
    has_scheme = match[SCHEME_THERE] or match[SCHEME_BEHIND_BLANK]
    is_long = _LONG_VALUE.match(name_match.text, match.end()) is not None
    return name_match.kind == "strong" or bool(has_scheme) or any_value or is_long


def secrets_by_name(look: Look, is_known: Is, spans: Spans = NO_SPANS, *, any_value: bool = False) -> Iterator[Secret]:
    """Yield the secrets that follow their names in a text.

    A value in which a secret is found already is not judged. `is_known` returns whether a value is a known secret. If
    `any_value` is True, the text may have a known secret that does not look like a secret.
    """
    if not look.names:
        return
    text = look.text
    has_masks, has_found = "[REDACTED:" in text, bool(spans.secrets)
    density = Density(CLOSE_NAMES)
    read = 0
    names = _Names((KNOWN_NAMED if any_value else NAMED).match, look.low, look.names)
    for match in names:
        position = names.position
        if (
            match[MEMBER_END]
            or match[QUOTE_ALONE]
            or match.end() == read
            or (has_found and spans.overlaps(position, position + 1))
        ):
            continue
        if has_masks and _is_in_mask(text, position):
            continue
        if match[COOKIE_END] is not None and COOKIE_LIST.match(text, match.end()) is None:
            continue
        name_match = name_match_at(text, position, match)
        if name_match.kind is None:
            continue
        span, end = _secret_after(name_match, is_known, spans, density)
        if span is not None:
            names.done = span[1]
            yield Secret(span[0], span[1], ASSIGNED)
            density.continue_after_mask(span[1])
        elif end:
            read = match.end()  # another stem in this name has the same value after it, which is not judged again
            names.within = max(names.within, end)


def _secret_after(name_match: NameMatch, is_known: Is, spans: Spans, density: Density) -> tuple[Span | None, int]:
    """Return the span of the secret after a name, or None, and the position up to which the value was read.

    In a part with too many names, the span begins with the name. The position is 0 if no value was read.
    """
    if name_match.match[COOKIE_END] is not None:
        span, end = cookies_of(name_match, spans), 0
    else:
        span, end = value_of(name_match, is_known, density)
        if span is not None and spans.secrets and spans.overlaps(span[0], min(span[1], end)):
            return None, end
    if span is not None and density.is_dense:
        span = name_match.begin, dense_end(name_match.text, span[1])
    return span, end


def _is_in_mask(text: str, position: int) -> bool:
    begin = text.rfind("[REDACTED:", max(0, position - LONGEST_MASK), position)
    mask = ANY_MASK.match(text, begin) if begin >= 0 else None
    return mask is not None and position < mask.end()
