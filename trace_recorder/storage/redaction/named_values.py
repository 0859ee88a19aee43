"""Judges the value after a name in a text: whether it is a secret, and where it ends.

The text around the value says how it is written (`_notation`): in quotes, in a setting, in a sentence. `name_kinds.py`
judges the name and the value. Invariant: judging one value takes a bounded number of steps.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.dense_parts import Density
from trace_recorder.storage.redaction.json_strings import TEXT_END
from trace_recorder.storage.redaction.name_kinds import (
    LONGEST_JUDGED,
    SHORTEST,
    SHORTEST_WEAK,
    Kind,
    Notation,
    is_credential,
    is_no_value,
    is_secret_value,
    kind_of_name,
)
from trace_recorder.storage.redaction.name_patterns import (
    ASSIGN,
    BLANK,
    CLOSE,
    COMMA,
    COOKIE_END,
    ESCAPES,
    IN_BRACKETS,
    IN_PARENTHESES,
    IN_SENTENCE,
    MEMBER_END,
    OPEN,
    OPEN_BEHIND_BLANK,
    PAIR_THERE,
    SCHEME_BEHIND_BLANK,
    SCHEME_THERE,
    XML,
)
from trace_recorder.storage.redaction.secret_spans import ANY_MASK, Spans
from trace_recorder.values.structs import Struct

Span = tuple[int, int]
Is = Callable[[str], bool]


class _Characters:
    """The patterns of a value that consists of some characters: `whole`, and `sample` for its judged beginning."""

    def __init__(self, characters: str) -> None:
        self.whole = lazy_pattern(rf"{characters}++")
        self.sample = lazy_pattern(rf"{characters}{{1,{LONGEST_JUDGED}}}+")


_QUOTED = _Characters(r"[^\s\"'`\\<>\0-\x1f]")
_BARE = _Characters(r"[^\s\"'`\\<>,;&|(){}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]")
_TAIL = lazy_pattern(
    r"(?>(?:[,;&|](?![,;&|]|(?:amp|quot|apos|lt|gt|nbsp|#\w{1,5});|[\w.$-]{1,60}[ \t]{0,3}[:=])"
    r"[^\s\"'`\\<>,;&|(){}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]++)+)"
)
"""Matches the rest of a value without quotes that contains a comma, a semicolon, an ampersand or a bar.

The next parameter (`&user=me`), an entity of HTML (`&quot;`) and an operator (`&&`) do not belong to the value.
"""
_ALONE = lazy_pattern(r"[ \t]{0,20}+(?:[\r\n\f]|\\{1,7}[nr]|\Z)|</|[\"'`]")
"""Matches the end of a line, a closing XML tag or a quotation mark.

If one of these follows a value, nothing else is in the value's line, element or quotes.
"""
_QUOTES = ('"', "'", "`")
_REST_OF_LINE = lazy_pattern(r"[^\"'`\\\r\n\f<>]{8,}+")
COOKIE_LIST = lazy_pattern(r"(?:[\w.-]{1,60}+=[^\s;]{0,60}+; ?){0,8}[\w.-]{1,60}+=(?=[^\s;\d]{0,60}\d)[^\s;=]{8}")
_MOST_OF_COOKIES = 1200
"""Only this many characters at the beginning of a list of cookies are searched for a secret."""
_JSON_SCALAR = lazy_pattern(r"[-+\d.eE]+|true|false|null")
_NAME_LETTERS = string.ascii_letters + string.digits + "_.-"
_BEFORE_NAMES = frozenset("\"' \n\t(=,")
"""Some of the characters that are right before a name, but in no escape."""
_LONGEST_NAME = 60


class NameMatch(Struct, frozen=True, gc=False):
    """A name in a text, with a separator and the beginning of a value after it.

    `before` is the text right before the name, and `match` is the match of the stem and of everything after it.
    """

    text: str
    begin: int
    name: str
    kind: Kind | None
    before: str
    match: re.Match[str]


def name_match_at(text: str, stem: int, match: re.Match[str]) -> NameMatch:
    """Return the name whose stem is at a position of a text. `match` is the match of `NAMED` there."""
    begin, end = _name_begins(text, stem), match.end(MEMBER_END)
    if end < 0:
        end = match.end(COOKIE_END)
    name = text[begin:end]
    first = begin - _BEFORE if begin > _BEFORE else 0
    return NameMatch(text, begin, name, kind_of_name(name), text[first:begin], match)


_BEFORE = 60
"""So many characters before a name decide how its value is written."""


def value_of(name_match: NameMatch, is_known: Is, density: Density) -> tuple[Span | None, int]:
    """Return the span of the secret after a name, and the position up to which the value was read.

    The span is None if the value is not a secret. The position is 0 if no value was read.
    """
    text, kind, match = name_match.text, name_match.kind, name_match.match
    if kind is None or kind == "cookie" or match[ESCAPES] is not None:
        return None, 0
    is_field = match[PAIR_THERE] and match[PAIR_THERE][-1] not in ":="
    if is_field and ("<" in name_match.before or not name_match.before.endswith(_FORM_FIELD)):
        return None, 0
    start = match.end()
    is_open = (match[OPEN] or match[COMMA] or match[OPEN_BEHIND_BLANK]) is not None
    sample = (_QUOTED if is_open else _BARE).sample.match(text, start)
    if sample is None:
        return None, 0
    value = _read_value(text, sample, is_json=match[CLOSE] is not None, is_open=is_open)
    tail = None if is_open or not value else _TAIL.match(text, sample.end())
    shortest = SHORTEST
    if kind == "weak" and not (is_known(value) or match[SCHEME_THERE] or match[SCHEME_BEHIND_BLANK]):
        shortest = SHORTEST_WEAK
    if len(value) < shortest and (tail is None or kind == "weak"):  # rules out most values
        return None, sample.end()
    is_secret = density.add(start) or _is_secret(name_match, kind, sample, value, is_known)
    if not is_secret and not (tail and _is_whole_secret(name_match, kind, value, text[start : tail.end()])):
        return None, sample.end()
    if len(value) < LONGEST_JUDGED:
        end = start + len(value)
    else:
        end = _end_of_long_value(text, start, is_open=is_open)
        tail = _TAIL.match(text, end)
    if tail is not None and not is_open:
        end = tail.start() + len(tail[0].rstrip(".:"))
    return (start, end), sample.end()


def _end_of_long_value(text: str, start: int, *, is_open: bool) -> int:
    longest = (_QUOTED if is_open else _BARE).whole.match(text, start)
    if longest is None:
        return start
    return longest.end()


def _is_secret(name_match: NameMatch, kind: Kind, sample: re.Match[str], value: str, is_known: Is) -> bool:
    """Return whether the value after a name is a secret. The text around the value decides."""
    text, match = name_match.text, name_match.match
    notation = _notation(name_match)
    if notation is None or is_known(value):
        return notation is not None
    scheme = match[SCHEME_THERE] or match[SCHEME_BEHIND_BLANK]
    is_alone = (scheme is not None or value.islower()) and _ALONE.match(text, sample.end()) is not None
    if scheme:
        return is_credential(scheme.rstrip(), value, is_alone=is_alone)
    is_alone = is_alone and _is_assigned_alone(text, match, name_match.name, sample.end())
    return is_secret_value(kind, name_match.name, value, notation, is_alone=is_alone)


def _is_whole_secret(name_match: NameMatch, kind: Kind, value: str, whole: str) -> bool:
    """Return whether a value is a secret that contains a comma, a semicolon, an ampersand or a bar.

    `value` is the part before the first such character, and is not a secret by itself.
    """
    notation = _notation(name_match)
    if (
        kind == "weak"
        or notation not in {"line", "variable"}
        or (len(value) > 2 and is_no_value(name_match.name, value, notation))
    ):
        return False
    return is_secret_value(kind, name_match.name, whole, notation)


def _notation(name_match: NameMatch) -> Notation | None:
    """Return how the value after a name is written. The text before the name decides.

    Return None if no value follows.
    """
    before, name, match = name_match.before, name_match.name, name_match.match
    if match[BLANK]:
        return notation_behind_blank(before, name, match[BLANK])
    if match[COMMA]:
        return "quoted" if name.startswith("--") or _CALLED.search(before) else None
    if match[XML]:
        return "line" if before.endswith("<") else None
    if match[OPEN] or match[SCHEME_THERE]:
        return "quoted"
    is_option = ("-" in name and before.endswith(("'", '"', " "))) or before.endswith("/:")
    is_setting = is_option or match[PAIR_THERE] or match[CLOSE] or _begins_line(before, name_match.begin)
    if is_setting and not _is_emphasised(match):
        return "variable" if match[ASSIGN] and match[ASSIGN] != ":" and name.isupper() else "line"
    return _assigned(name_match)


_FORM_FIELD = ('name="', 'name=\\"')
"""The text before the name of a field in a form of several parts. Its value follows after an empty line."""


def _is_emphasised(match: re.Match[str]) -> bool:
    """Return whether a name is in bold or italic letters of Markdown or HTML."""
    if match[ASSIGN] != ":":
        return False
    return _EMPHASIS.search(match.string, match.end(MEMBER_END), match.end()) is not None


_EMPHASIS = lazy_pattern(r"\*|__|</")


def _is_in_parentheses(name_match: NameMatch) -> bool:
    """Return whether a name, a colon and a value are in parentheses of a sentence. The value is no name of a type."""
    match = name_match.match
    if match.end() == match.end(ASSIGN) or IN_PARENTHESES.search(name_match.before) is None:
        return False
    value = _VALUE_IN_PARENTHESES.match(name_match.text, match.end())
    return value is not None and _NAME_OF_TYPE.fullmatch(value[1]) is None


_VALUE_IN_PARENTHESES = lazy_pattern(r"([^\s\"'`\\<>,;&|(){}\[\]]{6,60})\)")
_NAME_OF_TYPE = lazy_pattern(
    r"[A-Z][A-Za-z]{0,40}[0-9]{1,3}|[A-Z][A-Za-z]{0,40}[0-9]{1,5}[A-Z][A-Za-z]{0,40}|[a-z_]{1,40}[0-9]{1,3}"
)


def _is_assigned_alone(text: str, match: re.Match[str], name: str, end: int) -> bool:
    """Return whether a value that ends its line or its element belongs to a setting: `a: b`, `a=b` or `<a>b</a>`."""
    if match[XML]:
        return text.startswith(f"</{name}", end)
    if _is_emphasised(match):
        return False
    if match[OPEN] or match[CLOSE] or match[ASSIGN] not in (":", "=") or text.startswith(_QUOTES, end):
        return False
    return (match.end() > match.end(ASSIGN)) == (match[ASSIGN] == ":")


def _read_value(text: str, sample: re.Match[str], *, is_json: bool, is_open: bool) -> str:
    """Return the value after a name.

    Return "" for text that begins with punctuation, a masked text, a word of a quoted sentence, and text before `(`,
    `[` or `{`. Also return "" for a number, true, false or null in JSON.
    """
    value, end = sample[0], sample.end()
    if value[0] in ":,]}" or "[REDACTED" in value:
        return ""
    behind = text[end : end + 1]
    if is_open:
        is_one_of_several = behind.isspace() and behind != TEXT_END
        return "" if is_one_of_several else value
    if (behind and behind in "([{") or (is_json and _JSON_SCALAR.fullmatch(value)):
        return ""
    return value.rstrip(".:")


def _name_begins(text: str, stem: int) -> int:
    """Return the position at which the name with this stem begins.

    An escape before the name, such as `%2F`, may end in a letter, which is not part of the name.
    """
    if stem and text[stem - 1] in _BEFORE_NAMES:
        return stem
    first = stem - _LONGEST_NAME if stem > _LONGEST_NAME else 0
    begin = first + len(text[first:stem].rstrip(_NAME_LETTERS))
    if begin == 0 or text[begin - 1] not in "\\[%;":
        return begin
    if text[begin - 1] == "\\" and text[begin] in "nrtbf":
        return begin + 1
    escape = _ESCAPE.match(text, begin, stem)
    if escape is not None:
        return escape.end()
    return begin


_ESCAPE = lazy_pattern(r"(?<=[\[;])[0-9]{1,3}m|(?<=%)[0-9A-Fa-f]{2}|(?<=\\)u[0-9A-Fa-f]{4}")


def has_cookies(value: str) -> bool:
    """Return whether a value is a list of cookies, one of which looks like a secret. A mask is not a secret."""
    return COOKIE_LIST.match(ANY_MASK.sub("", value[:_MOST_OF_COOKIES])) is not None


def cookies_of(name_match: NameMatch, spans: Spans) -> Span | None:
    """Return the span of the cookies after a name, or None if they have no secret that is not found already.

    The caller has seen that the line begins with `COOKIE_LIST`, because to read a long line for each name is slow.
    """
    text, start = name_match.text, name_match.match.end()
    if name_match.kind != "cookie":
        return None
    line = _REST_OF_LINE.match(text, start)
    if line is None:
        return None
    rest = "".join([text[begin:end] for begin, end in spans.gaps(start, min(line.end(), start + _MOST_OF_COOKIES))])
    if not has_cookies(rest):
        return None
    return line.span()


def _begins_line(before: str, begin: int) -> bool:
    """Return whether a name is the first in its line. Only blanks, hyphens or a quote may be before it in the line."""
    rest = before.rstrip(" \t-")
    if not rest:
        return begin <= len(before) or "-" in before
    return (
        "-" in before[len(rest) :]
        or rest[-1] in "\n\r+>|\"'`"
        or rest.endswith("\\n")
        or _COLOUR.search(rest) is not None
    )


_COLOUR = lazy_pattern(r"\[[0-9;]{1,8}m\Z")


def _assigned(name_match: NameMatch) -> Notation:
    """Return how a value after a colon or an equals sign is written.

    A colon may be in a sentence. An equals sign may be in a variable, a URL, a setting, or an expression.
    """
    before, name, match = name_match.before, name_match.name, name_match.match
    sign = match[ASSIGN]
    if sign == ":":
        if "[" in before:
            before = IN_BRACKETS.sub("", before)
        is_said = IN_SENTENCE.search(before) or _is_emphasised(match) or _is_in_parentheses(name_match)
        return "sentence" if is_said else "bare"
    if sign not in {"=", ":=", "?="}:
        return "bare"
    if before.endswith((";", "?", "&", "--")) or name.isupper():
        return "variable"
    is_setting = name[:1].islower() and (not before or before[-1] in "\n \t[+m\"'`|>nrt")
    if is_setting and not _IN_CALL.search(before):
        return "line"
    return "bare"


_IN_CALL = lazy_pattern(r"[(,][^)\n]{0,60}\Z")


def notation_behind_blank(before: str, name: str, blank: str) -> Notation | None:
    """Return how a value after a blank is written, or None if no value follows.

    The name may be an option (`--password x`), a name in a .netrc file, a variable (`setx NAME x`, `ENV NAME x`), or a
    word in a sentence ("the password is x").
    """
    if (
        name.startswith("-")
        or before.endswith("--")
        or before == "-"
        or (before.endswith("-") and before[-2:-1].isspace())
    ):
        return "line"
    if (before.rstrip(" \t").endswith(_SETTERS) or "login" in before) and _SET_BEFORE.search(before):
        return "line"
    if "s" in blank:
        return "bare"
    return None


_SETTERS = ("setx", "set -gx", "set -x", "set", "ENV", "setenv")
_SET_BEFORE = lazy_pattern(
    r"(?:login[ \t]{1,4}[^\s\\]{1,64}(?:[ \t]|(?:\n|\\{1,7}n)(?:[^\n\"'\\]{0,40}?[ \t+])??)"
    r"|(?:setx|set -g?x|(?:(?<![A-Za-z])|(?<=\\[nrt]))set|ENV|setenv)[ \t])[ \t]{0,19}\Z"
)
"""Matches the text before a name: a command that sets a variable, such as `setx`, or the login in a .netrc file.

The password of the login may be in the next line.
"""
_CALLED = lazy_pattern(r"[A-Za-z_]\(\\{0,7}[\"'`]\Z")
