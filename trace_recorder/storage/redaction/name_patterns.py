"""The pattern of a secret's name: the name itself, the separator after it, and the beginning of the value.

`NAMED` is for most texts. `KNOWN_NAMED` is for a text with a known value that does not look like a secret.
`IN_SENTENCE` is for the text before a name.
"""

from __future__ import annotations

import re

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.name_kinds import SCHEMES

_QUOTE = r"\\{0,7}[\"'`]"
SIGNS = r"=>|:=|\?=|=|:"
"""Match the sign between a name and its value."""
_STEM = r"(?:pass(?:word|wd|phrase|code|)|pwd?|secrets?|token|key|auth(?:orization|)|cred(?:ential|)s?|sig(?:nature|)"
_STEM += r"|cookie(?=\\{0,7}\"))"
_REST = r"(?:(?![a-z2_-])|(?=[a-z2_-])[_-]?(?:base|data|token|key|2|new|old|current|prod|dev|test|value|))"
_MEMBER_ENDS = (
    r"(?:(?![0-9_-])|(?=[_-](?![0-9wpc_\-\\\"]))"
    r"|(?=[0-9]|[_-][0-9wpc_\-\\\"])(?:[_-](?:word|wd|phrase|code)|)(?:[_-]{0,2}[0-9]{1,8}){0,2}"
    r"(?:[_-]{1,4}(?=\\{0,7}\")|))"
)
"""Matches ends that only a JSON member's name has. `password_1` and `pass_word` name secrets only in JSON.

Like `_REST`, it looks first whether the next letters can be such an end, because most names have none.
"""
_PAIR = (
    r"(?=[,\s\\+>v\"'`|-]),?+(?:(?>(?:[\s+>|-]|\\{1,7}[nrt]){0,20})"
    r"|\s{0,3}(?:\n|\\{1,7}n)[^\n\"'\\v]{0,60}+(?:v(?!alue)[^\n\"'\\v]{0,60}+){0,2})"
    rf"(?:{_QUOTE}|)value(?:{_QUOTE}|)\s{{0,3}}[:=]"
)
"""Matches the text between the string of a member "name" and the string of the member "value" after it."""
_FORM_FIELD = r"(?<=\")(?:(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n){2})"
"""Matches the text between the name of a form's field and its value, as in `name="password"`."""
_PLAUSIBLE = (
    r"(?=[^\s\"'`<>]{4})(?=[^\s\"'`<>0-9]{0,7}+[0-9]|[^\s\"'`<>]{8}"
    r"|[a-z-]{4,7}+(?:\"|</|[ \t]{0,20}+(?:[\r\n\f]|\\{1,7}[nr]|\Z)))"
)
"""Matches the beginning of a value that may be a secret.

Such a value has eight characters, or at least four with a digit. A value of four to seven small letters must be alone
in its line, its quotes or its XML element.
"""
_SCHEME = rf"(?=[abdgknost]){SCHEMES.lower()} {{1,3}}+"
_ANY_VALUE = r"(?=[^\s\"'`<>]{4})"
"""Matches the beginning of a value that may be a known secret, such as `postgres`."""
_MEMBER = r"\\{0,7}\"\s{0,20}+[:,]\s{0,20}+(?P<escapes>\\{0,7})\"(?!(?P=escapes)\")"
"""Matches the text between the name and the value of a JSON member, if the value is a string that is not empty.

The same text with a comma is between a command's option and its value in a list. In JSON within JSON, the quotes have
backslashes.
"""


_ALONE = r"\\{0,7}\"(?!\s{0,20}+:\s{0,20}+(?:[-0-9{]|null|true|false))"
"""Matches the quote after a name, unless the name is a JSON member whose value is neither a string nor a list."""
_CALL = r"[\w.$:=/*+@-]{1,60}+[(\[{]"
"""Matches a call or an element, such as `get_token(` or `args[`. It is not a value unless it is in quotes."""
_EMPHASIS_END = r"(?>\*{1,3}|__|</(?:b|strong|em|i)>|)"
"""Matches the end of an emphasised name in Markdown or HTML, as in `**Password**: x` or `<b>Password:</b> x`."""
_BEHIND_NAME = r"(?=[\\\"'`\]\s=:?>,+|*]|-[-\s\\+>|v\"'`]|value|__[ \t]{0,3}:|</[bsei])"
"""Matches before a character that may follow a name.

The check is quick, and rules out most words that contain a stem, because no such character follows them.
"""
_SPACE = r"[ \t]{0,20}+"
_SIGN_FOLLOWS = rf"(?={_SPACE}(?:[=:?>,\s\\+v\"'`|*_<\]-]|is:|was:))"
_COOKIE = rf"cookie()(?:{_QUOTE}|){_SPACE}(?:{SIGNS}){_SPACE}(?:{_QUOTE}|)(?=[\w.-]{{1,60}}=)"


COOKIE_END, MEMBER_END, CLOSE, ASSIGN, XML, PAIR_THERE, OPEN, SCHEME_THERE = range(1, 9)
COMMA, ESCAPES, QUOTE_ALONE, BLANK, OPEN_BEHIND_BLANK, SCHEME_BEHIND_BLANK = range(9, 15)
"""The numbers of the groups in the pattern of `_named`.

The name ends where the group `COOKIE_END` or `MEMBER_END` ends. Only the match of a JSON member or of an option in a
list has the group `ESCAPES`. The match of a name without a value has the group `QUOTE_ALONE`.
"""


def _opens(value: str, quote: int) -> str:
    """Return the pattern of a value's beginning, after blanks, a quote and a scheme. The quote has this group."""
    return rf"{_SPACE}(?>({_QUOTE})|)(?>({_SCHEME})|){value}(?({quote})|(?!{_CALL}))"


def _named(value: str) -> re.Pattern[str]:
    """Return the pattern of a name, a separator and the beginning of a value, for a text in lower case.

    Most names have no value, so what matters is how soon the pattern fails. An optional part is a choice with an empty
    end, because a repeat takes longer. Before a group of choices, a look at the next letter may rule out all of them.
    """
    return lazy_pattern(
        rf"{_COOKIE}"
        rf"|{_STEM}{_REST}({_MEMBER_ENDS}){_BEHIND_NAME}(?:{_SIGN_FOLLOWS}(?:({_QUOTE})|)\]?{_EMPHASIS_END}{_SPACE}"
        rf"(?:(?:(?:is|was)(?=:)|)({SIGNS}){_EMPHASIS_END}|(>)|({_PAIR}|{_FORM_FIELD})){_opens(value, OPEN)}"
        rf"|(?=[\\\"'`])(?:{_QUOTE}\]?{_SPACE}(,){_SPACE}{_QUOTE}(?>{_SCHEME}|){value}|{_MEMBER}|({_ALONE}))"
        rf"|([ \t]{{1,4}}+(?:is[ \t]|was[ \t]|)){_opens(value, OPEN_BEHIND_BLANK)})",
        re.ASCII,
    )


NAMED = _named(_PLAUSIBLE)
KNOWN_NAMED = _named(_ANY_VALUE)

IN_SENTENCE = lazy_pattern(
    r"(?:(?:\A|\n)[^({\[\n]{0,60}"
    r"|(?<![A-Za-z0-9])[\"'`](?=[^\s:,;)\]}])(?:[^({\[\n\"'`\\]|(?<=[A-Za-z])\\?'(?=[A-Za-z])|\\n){0,60})"
    r"(?:[A-Za-z][,;.]?|(?<![^ ])/) \Z"
)
"""Matches the text before a name in a sentence: a word, and no bracket that may be open.

A quote begins a text of its own, whatever is before the quote.
"""
IN_BRACKETS = lazy_pattern(r"\[[^\[\]\n]{1,40}\] ")
"""Matches words in brackets, as in the lines of logs."""
IN_PARENTHESES = lazy_pattern(r"(?:\A|[A-Za-z0-9.,;:!?\"'] |\n)\((?:[A-Za-z][^()\[\]{}<>\n=:]{0,40}[,;]? )?\Z")
"""Matches the text before a name in parentheses of a sentence, as in "Log in as bob (password: …)"."""
