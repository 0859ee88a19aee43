r"""Finds secrets in JSON by the name of their member, as in `{"password": "hunter2"}`.

Unlike a word in a sentence, the name of a field says what its string is. So the string under `password`,
`client_secret` or `authorization_token` is a secret, whatever it looks like, unless it is a placeholder
(`is_secret_member`). The same applies to the fields of a string that is itself JSON, such as a tool's arguments. It
also applies to a part of such a string, as a model streams it (`field_secrets`). The headers and the authorization of
an MCP server are secrets by the API's definition (`mcp_strings`). If a string is a table of labels, such as a file of
translations, its labels are not masked (`_is_table_of_labels`). Invariant: a value is masked only where it has such a
name. The run does not learn the value, because a password may be a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.json_strings import string_end
from trace_recorder.storage.redaction.known_values import KnownSecrets
from trace_recorder.storage.redaction.name_kinds import (
    SCHEMES,
    is_secret_name,
    is_secret_value,
    is_strange,
    kind_of_name,
)
from trace_recorder.storage.redaction.named_values import has_cookies
from trace_recorder.storage.redaction.secret_spans import DEFINED, MEMBER, NO_SPANS, Secret, Spans, moved
from trace_recorder.storage.redaction.spellings import of_json
from trace_recorder.values.json_text import COLON
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct, field

Span = tuple[int, int]

ARGUMENTS = frozenset({"arguments", "partial_json"})
"""Members whose strings are JSON, or a part of JSON, according to the providers' APIs."""

_KINDS = frozenset(
    {
        *("role", "type", "object", "finish_reason", "stop_reason", "finishReason"),
        *("status", "kind", "event", "api", "provider"),
    }
)
"""Members whose values are not searched if they look like identifiers.

Such a value, as in `"type": "message"`, tells a program what kind of object it reads.
"""
_SEALED = frozenset({"signature", "encrypted_content", "thoughtSignature", "thought_signature"})
"""Members with values that a provider has signed or encrypted. The agent must send these values back unchanged."""
_SEAL = 40
"""The value of a member in `_SEALED` counts as signed or encrypted only if it has at least this many characters."""
_ITEM = lazy_pattern(r"@string:\d+")
_IDENTIFIER = lazy_pattern(r"[A-Za-z][A-Za-z_./-]{0,60}")
_BEGINS_WITH_JSON = lazy_pattern(r"\"(?:\s|\\[nrt]){0,200}[{\[]")

_SCHEME = lazy_pattern(rf"{SCHEMES} {{1,3}}", re.IGNORECASE)
_SPACE = lazy_pattern(r"\s")
_PLACEHOLDER = lazy_pattern(
    r"str(?:ing)?|text|bytes|any|object|number|int(?:eger)?|bool(?:ean)?|null|none|nil|undefined|true|false|\*+|x{3,}|\.{3}|…"
    r"|<[^<>]*>|\$\{[^{}]*\}|\$\(.*\)|\$[A-Za-z_]\w*|%\w+%|\{+[^{}]*\}+|(?:your|my)[-_ ].*|\[REDACTED:.*"
    r"|\[%[^\[\]]*%\]|[~^]?v?\d+(?:\.\d+){1,3}|arn:.*",
    re.IGNORECASE | re.DOTALL,
)
"""Matches values that people write in place of a secret, such as types (`string`), variables (`${KEY}`) or `***`."""
_FEWEST_LABELS = 6
"""A table of labels has at least this many strings."""
_MAX_JUDGED = 1000
"""At most this many strings of a table decide whether it is a table of labels."""
_REFERENCE = lazy_pattern(r"\[%[^\[\]]{0,200}%\]|\{[^{}]{0,200}\}|")
"""Matches a label that is empty, a variable, or only a reference to another label, such as `[%key:common::ok%]`."""
_NO_LABEL = lazy_pattern(r"[0-9@#$^+=~_\\|]")
_OPENING = "\"'([{<*- \u00ab\u00a1\u00bf\u201c\u201e"
_FIELD = lazy_pattern(r"\"\s{0,20}+:\s{0,20}+\"")
_INSIDE = lazy_pattern(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_LONGEST_NAME = 80
_LONGEST_OPEN = 4096
"""If a stream's text so far ends inside a field's value, the masking waits for the rest.

It waits for at most this many characters.
"""
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_TOKEN = lazy_pattern(rf"{_STRING}|[{{}}]", re.DOTALL)
_FIRST_TOKEN = lazy_pattern(
    rf'\{{(?=\s{{0,200}}")|(?="[\[\s]{{0,200}}\{{(?:\s|\\[nrt]){{0,200}}\\){_STRING}', re.DOTALL
)
"""Matches the beginning of an object of JSON in any text, or a string that begins with such an object."""
MCP_STRING = lazy_pattern(r'mcp(?:\\{0,64}+"|\\{1,64}+u0022)')
"""Matches the end of a string `"mcp"`, also where it is inside another string of JSON."""


def secrets_by_member(name: str, value: str, known: KnownSecrets, *, forms: bool) -> list[Secret] | None:
    """Return the secrets in a string of JSON by the name of its member, or None if the string must be searched.

    If `forms` is False, a name says only that a string has no secrets.
    """
    if (value.startswith("@") and _ITEM.fullmatch(value)) or (name in _KINDS and _IDENTIFIER.fullmatch(value)):
        return []
    if name in _SEALED and len(value) >= _SEAL:
        return known.secrets(value)
    if forms and name and is_secret_member(name, value, known.short):
        return [Secret(0, len(value), MEMBER)]
    return None


def is_judged_by_parts(text: str, start: int, end: int, name: str) -> bool:
    """Return whether a part of a string is masked in the same way alone and with the rest of the string.

    This is not so if the string is JSON, or if the name of its member makes the string a secret.
    """
    if name in ARGUMENTS or name in _SEALED or _BEGINS_WITH_JSON.match(text, start):
        return False
    if MCP_STRING.search(text, start, end):
        return False
    return kind_of_name(name) is None and not is_secret_name(name)


def is_secret_member(name: str, value: str, short: Collection[str]) -> bool:
    """Return whether a string in JSON is a secret.

    Its value and the name of its member, or of the command option before it, decide.

    `short` has the known values that are masked only after the name of a secret.
    """
    if not name.startswith("-") and is_secret_name(name):
        return is_secret_field(value)
    kind = kind_of_name(name)
    if kind is None:
        return False
    if kind == "cookie":
        return has_cookies(value)
    credential = _SCHEME.sub("", value.strip(), count=1)
    return credential in short or (
        _SPACE.search(credential) is None and is_secret_value(kind, name, credential, "quoted")
    )


def is_secret_field(value: str) -> bool:
    """Return whether the value of a field with a secret's name is a secret: it is not empty, and not a placeholder."""
    text = value.strip()
    return bool(text) and _PLACEHOLDER.fullmatch(text) is None


def json_secrets(text: str, spans: Spans = NO_SPANS) -> Iterator[Secret]:
    """Yield the secret fields if the whole text is JSON. Of any text, yield the secrets of MCP tools."""
    if "mcp" in text:
        yield from _mcp_secrets(text)
    if text[:200].lstrip()[:1] not in {"{", "["}:
        return
    fields = [*field_secrets(text, spans)]
    if not fields:
        return
    try:
        value = json.loads(text)
    except ours(ValueError, RecursionError):
        return
    if _is_table_of_labels(value):
        fields = [*field_secrets(text, spans, keep_labels=True)]
    yield from fields


def is_json(text: str) -> bool:
    """Return whether the whole text is JSON."""
    try:
        json.loads(text)
    except ours(ValueError, RecursionError):
        return False
    return True


def field_secrets(text: str, spans: Spans = NO_SPANS, *, keep_labels: bool = False) -> Iterator[Secret]:
    """Yield the secret fields of JSON text, or of a part of it that begins or ends anywhere.

    A field that begins with a secret found already is left out. If `keep_labels` is True, strings that look like labels
    for people are left out too.
    """
    for name, start, end in _fields(text):
        value = text[start:end]
        fields: list[Secret] = []
        if is_secret_name(name):
            if is_secret_field(value) and not (keep_labels and _is_label(of_json(value).text)):
                fields = [Secret(start, end, MEMBER)]
        elif '\\"' in value:
            fields = _secrets_within(value, start, json_secrets)
        for secret in fields:
            blanks = len(text[secret.start : secret.end]) - len(text[secret.start : secret.end].lstrip())
            if secret.kind != MEMBER or not spans.covers(secret.start + blanks):
                yield secret


def _fields(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each field with a string, and the span of the string's text, which may be cut off."""
    done = 0
    for match in _FIELD.finditer(text):
        at = match.start()
        if at < done or text[at - 1 : at] == "\\":
            continue
        name = text[_name_begins(text, at) : at]
        done = match.end()
        inside = _INSIDE.match(text, done)
        if inside is not None:
            done = inside.end()
        yield name, match.end(), done


def _name_begins(text: str, end: int) -> int:
    """Return the position at which the name of a field begins. `end` is the position at which the name ends.

    Only the last `_LONGEST_NAME` characters of a long name are examined. The quote before the name may be missing,
    because it is in an earlier part of the text.
    """
    first = max(0, end - _LONGEST_NAME)
    return max(text.rfind('"', first, end) + 1, first)


def _secrets_within(spelled: str, start: int, search: Callable[[str], Iterator[Secret]]) -> list[Secret]:
    """Return the secrets that a search finds in a decoded string of JSON. The string begins at `start` of a text."""
    spelling = of_json(spelled)
    secrets = [Secret(*spelling.span(secret.start, secret.end), secret.kind) for secret in search(spelling.text)]
    return moved(secrets, start)


def _is_table_of_labels(value: Payload) -> bool:
    """Return whether JSON is a table of labels: nested objects whose strings are mostly labels.

    At least one string in three has several words, or letters beyond ASCII. Other JSON is data: it has numbers, lists,
    or strings that are not labels, such as names of accounts.
    """
    if not isinstance(value, dict):
        return False
    strings: list[str] = []
    objects = [value]
    while objects:
        for element in objects.pop().values():
            if isinstance(element, str):
                strings.append(element)
            elif isinstance(element, dict):
                objects.append(element)
            else:
                return False
    del strings[_MAX_JUDGED:]
    labels = sum(map(_is_label, strings))
    phrases = sum(" " in text or not text.isascii() for text in strings)
    return len(strings) >= _FEWEST_LABELS and 5 * labels >= 4 * len(strings) and 3 * phrases >= len(strings)


def _is_label(text: str) -> bool:
    """Return whether a text is a label for people.

    A label begins with a capital or has several words, and has neither digits nor symbols such as `_`. A `_REFERENCE`
    is a label too.
    """
    if _REFERENCE.fullmatch(text):
        return True
    first = text.lstrip(_OPENING)[:1]
    is_for_people = (first.isalpha() and not (first.isascii() and first.islower())) or " " in text.strip()
    is_key = " " not in text and is_strange(text.lower(), 12)
    return is_for_people and not is_key and _NO_LABEL.search(text) is None


def open_field(text: str) -> int:
    """Return the beginning of the name of a secret field whose string does not end in the text, or -1."""
    last = None
    for match in _FIELD.finditer(text, max(0, len(text) - _LONGEST_OPEN)):
        last = match
    if last is None:
        return -1
    begin = _name_begins(text, last.start())
    inside = _INSIDE.match(text, last.end())
    is_open = inside is None or text[inside.end() : inside.end() + 1] != '"'
    if is_open and is_secret_name(text[begin : last.start()]):
        return begin
    return -1


class _OpenObject(Struct):
    """An object of JSON while it is read.

    `secrets` has the spans of strings that are secrets if the object is an MCP server.
    """

    name: str
    is_mcp: bool = False
    secrets: list[Span] = field(default_factory=list)


class McpStrings(NamedTuple):
    """The spans of strings in JSON that belong to tools of type "mcp".

    `secrets` are their headers and their authorization. `nested` are strings that may have the JSON of such a tool.
    """

    secrets: list[Span]
    nested: list[Span]


def mcp_strings(text: str) -> McpStrings:
    """Find the secrets of MCP tools in JSON, or in a text that has JSON in it."""
    strings = McpStrings([], [])
    if MCP_STRING.search(text) is None or ("headers" not in text and "authorization" not in text):
        return strings
    objects: list[_OpenObject] = []
    name = ""
    token = _FIRST_TOKEN.search(text)
    while token is not None:
        start, end = token.span()
        following = ""
        if token[0] == "{":
            objects.append(_OpenObject(name))
        elif token[0] == "}":
            closed = objects.pop()
            if closed.is_mcp:
                strings.secrets.extend(closed.secrets)
        elif COLON.match(text, end):
            following = of_json(text[start + 1 : end - 1]).text
        else:
            _add_value(token, name, objects, strings.nested)
        name = following
        token = (_TOKEN if objects else _FIRST_TOKEN).search(text, end)
    for cut_off in objects:
        if cut_off.is_mcp:
            strings.secrets.extend(cut_off.secrets)
    return strings


def _add_value(token: re.Match[str], name: str, objects: list[_OpenObject], nested: list[Span]) -> None:
    """Add a string to the secrets of the object that it is in. If the string may have JSON, add it to `nested`."""
    is_closed = string_end(token.string, token.start() + 1) < token.end()
    if is_closed and MCP_STRING.search(token.string, token.start() + 1, token.end() - 1):
        nested.append(token.span())
    if not objects:
        return
    parent = objects[-1]
    parent.is_mcp = parent.is_mcp or (name == "type" and token[0] == '"mcp"')
    if name == "authorization":
        parent.secrets.append(token.span())
    if parent.name == "headers" and len(objects) > 1:
        objects[-2].secrets.append(token.span())


def _mcp_secrets(text: str) -> Iterator[Secret]:
    """Yield the secrets of MCP tools in JSON, in the strings of this JSON, or in a text that has JSON in it."""
    secrets, nested = mcp_strings(text)
    for start, end in secrets:
        yield Secret(start + 1, end - 1, DEFINED)
    for start, end in nested:
        yield from _secrets_within(text[start + 1 : end - 1], start + 1, _mcp_secrets)
