r"""Finds secrets by a name before them, as in `password: …`, `--token …` and `"clientSecret": "…"`.

A name is found by the first three letters of its stem, such as `tok` in `api_token` (`Beginnings`). One pattern then
reads the rest of the name and the separator. It also tests whether the following value is long enough to be a secret.
Python code runs only where this pattern matches. This code judges the name and the value (`name_kinds.py`), and how the
value is written (`_notation`). Invariants: each position costs a bounded number of steps. Names inside a secret are not
examined. Within a value that is not secret, at most `MAX_NESTED` names are examined. So each character is read only a
few times, however many names are before it. No mask replaces a quote or a backslash, so that JSON stays JSON.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator

from trace_recorder.storage.redaction import commands
from trace_recorder.storage.redaction.candidates import (
    CLOSE_NAMES,
    MANY,
    Beginnings,
    Density,
    PreparedText,
    are_close,
    dense_end,
)
from trace_recorder.storage.redaction.json_strings import TEXT_END, string_end
from trace_recorder.storage.redaction.name_kinds import (
    LONGEST_JUDGED,
    SHORTEST,
    SHORTEST_WEAK,
    Kind,
    Notation,
    is_credential,
    is_no_value,
    is_secret_name,
    is_secret_value,
    kind_of,
)
from trace_recorder.storage.redaction.name_patterns import (
    ASSIGN,
    BLANK,
    CLOSE,
    COMMA,
    COMMAND_WORD,
    COOKIE_END,
    ESCAPES,
    IN_SENTENCE,
    KNOWN_NAMED,
    MEMBER_END,
    NAMED,
    OPEN,
    OPEN_BEHIND_BLANK,
    PAIR_THERE,
    QUOTE_ALONE,
    SCHEME_BEHIND_BLANK,
    SCHEME_THERE,
    XML,
)

Span = tuple[int, int]
Is = Callable[[str], bool]

MAX_NESTED = 3
"""At most this many names are examined within a value that is not secret. In `a=b=c`, `b` may be a value or a name."""

_QUOTED_VALUE = re.compile(r"[^\s\"'`\\<>\0-\x1f]++")
_QUOTED_SAMPLE = re.compile(rf"[^\s\"'`\\<>\0-\x1f]{{1,{LONGEST_JUDGED}}}+")
_BARE_VALUE = re.compile(r"[^\s\"'`\\<>,;&|(){}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]++")
_BARE_SAMPLE = re.compile(rf"[^\s\"'`\\<>,;&|(){{}}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]{{1,{LONGEST_JUDGED}}}+")
_TAIL = re.compile(
    r"(?>(?:[,;&|](?![,;&|]|(?:amp|quot|apos|lt|gt|nbsp|#\w{1,5});|[\w.$-]{1,60}[ \t]{0,3}[:=])"
    r"[^\s\"'`\\<>,;&|(){}\[\]\0-\x1f\u3000-\u303f\uff01-\uff65]++)+)"
)
"""Matches the rest of a value without quotes that contains a comma, a semicolon, an ampersand or a bar.

The next parameter (`&user=me`), an entity of HTML (`&quot;`) and an operator (`&&`) do not belong to the value.
"""
_LONG_VALUE = re.compile(rf"[^\s\"'`<>]{{{SHORTEST_WEAK}}}")
_ALONE = re.compile(r"[ \t]{0,20}+(?:[\r\n\f]|\\{1,7}[nr]|\Z)|</|[\"'`]")
"""Matches the end of a line, a closing XML tag or a quotation mark.

If one of these follows a value, nothing else is in the value's line, element or quotes.
"""
_QUOTES = ('"', "'", "`")
_JSON_MEMBER = re.compile(r"\\{0,7}\"\s{0,20}+[:,]\s{0,20}+\\{0,7}\"")
_LABEL = re.compile(r"\"(?:[Nn]ame|[Kk]ey|variable)\"\s{0,20}:\s{0,20}\"\Z")
"""Matches the text before a name that is a string of JSON, and names the member "value" of the same object."""
_LONGEST_LABEL = 60
_REST_OF_LINE = re.compile(r"[^\"'`\\\r\n\f<>]{8,}+")
_COOKIES = re.compile(r"(?:[\w.-]{1,60}+=[^\s;]{0,60}+; ?){0,8}[\w.-]{1,60}+=(?=[^\s;\d]{0,60}\d)[^\s;=]{8}")
_MOST_OF_COOKIES = 1200
"""Only this many characters at the beginning of a list of cookies are searched for a secret."""
_JSON_SCALAR = re.compile(r"[-+\d.eE]+|true|false|null")
_NAME_LETTERS = string.ascii_letters + string.digits + "_.-"
_IN_NAMES = bytes(ord("w") if chr(code) in _NAME_LETTERS else 32 for code in range(256))
_LONGEST_NAME = 60

_STEMS = Beginnings(
    [["sec", "sig", "ssh"], ["tok", "log"], ["key"], ["aut"], ["cre", "coo"], ["pas"], ["pw?", "s-c"], ["cur", "mys"]]
)
"""The first three letters of each stem in the names of secrets, and of each command that takes a secret."""


def candidate_positions(prepared: PreparedText, *, any_value: bool = False) -> list[int]:
    """Return the positions of names in JSON text that a secret may follow, at most one in each string.

    Return early after `MANY` positions that are close together, because the caller then searches all strings. If
    `any_value` is True, a value may also be a known secret that does not look like a secret.
    """
    stems = _STEMS.positions(prepared.data)
    if not stems:
        return []
    positions: list[int] = []
    has_commands = False
    low = prepared.data.lower().decode("latin-1")
    letters, read_name, done = prepared.data.translate(_IN_NAMES), (KNOWN_NAMED if any_value else NAMED).match, 0
    for position in stems:
        match = read_name(low, position) if position >= done else None
        if match is None:
            continue
        if match[COMMAND_WORD]:
            has_commands = True
        elif _may_be_secret(
            prepared.plain, _name_begins(prepared.plain, letters, position), match, any_value=any_value
        ):
            positions.append(position)
            if len(positions) >= MANY and are_close(positions):
                return positions
            done = string_end(prepared.plain, max(match.end(COOKIE_END), match.end(MEMBER_END)))
    return [*positions, *commands.candidate_positions(prepared)] if has_commands else positions


def _may_be_secret(plain: str, begin: int, match: re.Match[str], *, any_value: bool) -> bool:
    """Return whether the name that begins here is the name of a secret, and the value after it is long enough.

    The value may have escapes.
    """
    if match[COOKIE_END] is not None:
        return kind_of(plain[begin : match.end(COOKIE_END)]) == "cookie"
    name = plain[begin : match.end(MEMBER_END)]
    kind = kind_of(name)
    if is_secret_name(name) or kind == "cookie":
        return True
    if kind is None:
        return False
    member = _JSON_MEMBER.match(plain, match.end(MEMBER_END))
    is_label = _LABEL.search(plain, max(0, begin - _LONGEST_LABEL), begin) is not None
    if is_label or member is not None or match[QUOTE_ALONE]:
        value_size = string_end(plain, member.end()) - member.end() if member is not None else 0
        return is_label or kind == "strong" or any_value or value_size >= SHORTEST_WEAK
    if match[BLANK] and _behind_blank(plain[max(0, begin - 60) : begin], name, match[BLANK]) is None:
        return False
    has_scheme = match[SCHEME_THERE] or match[SCHEME_BEHIND_BLANK]
    return kind == "strong" or bool(has_scheme) or any_value or _LONG_VALUE.match(plain, match.end()) is not None


def secrets_by_name(text: str, is_known: Is, *, any_value: bool = False) -> Iterator[Span]:
    """Yield the spans of secrets that follow their names in a text.

    `is_known` returns whether a value is a known secret. If `any_value` is True, the text may have a known
    secret that does not look like a secret.
    """
    prepared = PreparedText(text, runs=False)
    stems = _STEMS.positions(prepared.data)
    if not stems:
        return
    low = prepared.data.lower().decode("latin-1")
    letters, read_name = prepared.data.translate(_IN_NAMES), (KNOWN_NAMED if any_value else NAMED).match
    has_masks = "[REDACTED:" in text
    density = Density(CLOSE_NAMES)
    done = within = nested = read = 0
    for position in stems:
        nested = nested + 1 if position < within else 0
        if position < done or nested > MAX_NESTED:
            continue
        match = read_name(low, position)
        if match is None or match[COMMAND_WORD] or match[MEMBER_END] or match[QUOTE_ALONE] or match.end() == read:
            continue
        if has_masks and _is_in_mask(text, position):
            continue
        begin = _name_begins(text, letters, position)
        is_cookie = match[COOKIE_END] is not None
        span, end = _cookies(text, begin, match) if is_cookie else _value_of(text, begin, match, is_known, density)
        if span is not None and density.is_dense:
            span = begin, dense_end(text, span[1])
        if span is not None:
            yield span
            done = span[1]
            density.continue_after_mask(done)
        elif end:
            read = match.end()  # another stem in this name has the same value after it, which is not judged again
            within = max(within, end)


def _value_of(text: str, begin: int, match: re.Match[str], is_known: Is, density: Density) -> tuple[Span | None, int]:
    """Return the span of the secret after a name, and the position up to which the value was read.

    The span is None if the value is not a secret. The position is 0 if no value was read.
    """
    name, start = text[begin : match.end(MEMBER_END)], match.end()
    kind = kind_of(name)
    if kind in {None, "cookie"} or match[ESCAPES] is not None:
        return None, 0
    is_open = (match[OPEN] or match[COMMA] or match[OPEN_BEHIND_BLANK]) is not None
    sample = (_QUOTED_SAMPLE if is_open else _BARE_SAMPLE).match(text, start)
    if sample is None:
        return None, 0
    value = _read_value(text, sample, is_json=match[CLOSE] is not None, is_open=is_open)
    tail = None if is_open or not value else _TAIL.match(text, sample.end())
    is_judged = is_known(value) or bool(match[SCHEME_THERE] or match[SCHEME_BEHIND_BLANK])
    shortest = SHORTEST_WEAK if kind == "weak" and not is_judged else SHORTEST
    if len(value) < shortest and (tail is None or kind == "weak"):  # rules out most values
        return None, sample.end()
    if not density.add(start) and not _is_secret(text, begin, match, kind, sample, value, is_known):
        whole = "" if tail is None or kind == "weak" else text[start : tail.end()]
        if not whole or not _is_whole_secret(text, begin, match, kind, value, whole):
            return None, sample.end()
    if len(value) >= LONGEST_JUDGED:
        longest = (_QUOTED_VALUE if is_open else _BARE_VALUE).match(text, start)
        end = longest.end() if longest else sample.end()
        tail = None if is_open else _TAIL.match(text, end)
    else:
        end = start + len(value)
    return (start, end if tail is None else tail.start() + len(tail[0].rstrip(".:"))), sample.end()


def _is_secret(
    text: str, begin: int, match: re.Match[str], kind: Kind, sample: re.Match[str], value: str, is_known: Is
) -> bool:
    """Return whether the value after a name is a secret. The text around the value decides."""
    name = text[begin : match.end(MEMBER_END)]
    notation = _notation(text[max(0, begin - 60) : begin], begin, match, name)
    if notation is None or is_known(value):
        return notation is not None
    scheme = match[SCHEME_THERE] or match[SCHEME_BEHIND_BLANK]
    is_alone = (scheme is not None or value.islower()) and _ALONE.match(text, sample.end()) is not None
    if scheme:
        return is_credential(scheme.rstrip(), value, is_alone=is_alone)
    is_alone = is_alone and _is_assigned_alone(text, match, name, sample.end())
    return is_secret_value(kind, name, value, notation, is_alone=is_alone)


def _is_whole_secret(text: str, begin: int, match: re.Match[str], kind: Kind, value: str, whole: str) -> bool:
    """Return whether a value is a secret that contains a comma, a semicolon, an ampersand or a bar.

    `value` is the part before the first such character, and is not a secret by itself.
    """
    name = text[begin : match.end(MEMBER_END)]
    notation = _notation(text[max(0, begin - 60) : begin], begin, match, name)
    if notation not in {"line", "variable"} or (len(value) > 2 and is_no_value(name, value, notation)):
        return False
    return is_secret_value(kind, name, whole, notation)


def _notation(before: str, begin: int, match: re.Match[str], name: str) -> Notation | None:
    """Return how the value after a name is written. The text before the name decides.

    Return None if no value follows.
    """
    if match[BLANK]:
        return _behind_blank(before, name, match[BLANK])
    if match[COMMA]:
        return "quoted" if name.startswith("--") or _CALLED.search(before) else None
    if match[XML]:
        return "line" if before.endswith("<") else None
    if match[OPEN] or match[SCHEME_THERE]:
        return "quoted"
    is_option = ("-" in name and before.endswith(("'", '"', " "))) or before.endswith("/:")
    if is_option or match[PAIR_THERE] or match[CLOSE] or _begins_line(before, begin):
        return "variable" if match[ASSIGN] and match[ASSIGN] != ":" and name.isupper() else "line"
    return _assigned(before, name, match[ASSIGN])


def _is_assigned_alone(text: str, match: re.Match[str], name: str, end: int) -> bool:
    """Return whether a value that ends its line or its element belongs to a setting: `a: b`, `a=b` or `<a>b</a>`."""
    if match[XML]:
        return text.startswith(f"</{name}", end)
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
        return "" if behind.isspace() and behind != TEXT_END else value
    if (behind and behind in "([{") or (is_json and _JSON_SCALAR.fullmatch(value)):
        return ""
    return value.rstrip(".:")


def _name_begins(text: str, letters: bytes, stem: int) -> int:
    """Return the position at which the name with this stem begins.

    An escape before the name, such as `%2F`, may end in a letter, which is not part of the name.
    """
    longest = stem - _LONGEST_NAME if stem > _LONGEST_NAME else 0
    begin = letters.rfind(b" ", longest, stem) + 1 or longest
    if begin == 0 or text[begin - 1] not in "\\[%;":
        return begin
    if text[begin - 1] == "\\" and text[begin] in "nrtbf":
        return begin + 1
    escape = _ESCAPE.match(text, begin, stem)
    return escape.end() if escape else begin


_ESCAPE = re.compile(r"(?<=[\[;])[0-9]{1,3}m|(?<=%)[0-9A-Fa-f]{2}|(?<=\\)u[0-9A-Fa-f]{4}")


def _is_in_mask(text: str, position: int) -> bool:
    first = max(0, position - 40)
    return text.rfind("[REDACTED:", first, position) > text.rfind("]", first, position)


def has_cookies(value: str) -> bool:
    """Return whether a value is a list of cookies, one of which looks like a secret. A mask is not a secret."""
    first, *others = value[:_MOST_OF_COOKIES].split("[REDACTED:")
    return _COOKIES.match("".join([first, *(other.partition("]")[2] for other in others)])) is not None


def _cookies(text: str, begin: int, match: re.Match[str]) -> tuple[Span | None, int]:
    at = match.end()
    if kind_of(text[begin : match.end(COOKIE_END)]) != "cookie" or not _COOKIES.match(text, at):
        return None, 0  # the line is read only if it begins with cookies: reading a long line for each name is slow
    line = _REST_OF_LINE.match(text, at)
    return (line.span() if line and has_cookies(line[0]) else None), 0


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


_COLOUR = re.compile(r"\[[0-9;]{1,8}m\Z")


def _assigned(before: str, name: str, sign: str | None) -> Notation:
    """Return how a value after a colon or an equals sign is written.

    A colon may be in a sentence. An equals sign may be in a variable, a URL, a setting, or an expression.
    """
    if sign == ":":
        return "sentence" if IN_SENTENCE.search(before) else "bare"
    if sign not in {"=", ":=", "?="}:
        return "bare"
    if before.endswith((";", "?", "&", "--")) or name.isupper():
        return "variable"
    is_setting = name[:1].islower() and (not before or before[-1] in "\n \t[+m\"'`|>nrt")
    return "line" if is_setting and not _IN_CALL.search(before) else "bare"


_IN_CALL = re.compile(r"[(,][^)\n]{0,60}\Z")


def _behind_blank(before: str, name: str, blank: str) -> Notation | None:
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
    return "bare" if "s" in blank else None


_SETTERS = ("setx", "set -gx", "set -x", "set", "ENV", "setenv")
_SET_BEFORE = re.compile(
    r"(?:login[ \t]{1,4}[^\s\\]{1,64}(?:[ \t]|(?:\n|\\{1,7}n)(?:[^\n\"'\\]{0,40}?[ \t+])??)"
    r"|(?:setx|set -g?x|(?<![A-Za-z])set|ENV|setenv)[ \t])[ \t]{0,19}\Z"
)
"""Matches the text before a name: a command that sets a variable, such as `setx`, or the login in a .netrc file.

The password of the login may be in the next line.
"""
_CALLED = re.compile(r"[A-Za-z_]\(\\{0,7}[\"'`]\Z")
