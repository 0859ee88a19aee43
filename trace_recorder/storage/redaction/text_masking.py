"""Finds and masks the secrets of one text.

`mask_text` masks a text. `possible_secrets` finds the places in JSON text whose strings must be masked by `mask_text`.
Both begin with the same first look. A recorder uses `default_redactor` unless its user sets another redactor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.storage.redaction import commands, key_finder, urls
from trace_recorder.storage.redaction import encodings as secret_encodings
from trace_recorder.storage.redaction import names as secret_names
from trace_recorder.storage.redaction.first_look import LONGEST_ENCODED, MCP, Look, latin_bytes, searched_parts
from trace_recorder.storage.redaction.json_members import json_secrets, mcp_strings
from trace_recorder.storage.redaction.json_strings import ESCAPED_LETTER
from trace_recorder.storage.redaction.known_values import KnownSecrets
from trace_recorder.storage.redaction.secret_spans import NO_SPANS, Spans, replace

NO_VALUES = KnownSecrets()


def default_redactor(text: str) -> str:
    """Mask keys and tokens of well-known providers by their forms, and values that follow the name of a secret.

    The text may be plain or JSON: no mask extends over the end of a JSON string.
    """
    return replace(text, with_members(text, find_secrets(text)).secrets)


def with_members(text: str, spans: Spans) -> Spans:
    """Return what was found in a text, and its secret members if it is JSON."""
    return spans.with_more(json_secrets(text, spans))


_OVERLAP = 4 * 1024
"""A long text is searched in blocks.

This many characters at the end of a block are searched again with the next block. A secret is recognised by fewer
characters than that.
"""


def possible_secrets(text: str, known: KnownSecrets, *, forms: bool = True, data: bytes = b"") -> list[int]:
    """Return, in order, the positions in JSON text at which a secret may be, or the name of a secret.

    Each string with a secret has one of these positions, or the name of its member has one. If `forms` is False, only
    known values are searched. An escaped letter may be a part of a secret, so that it is one of the positions too. A
    long text is searched in blocks. `data` has the `latin_bytes` of the text if the caller has them.
    """
    positions: list[int] = []
    is_short = len(text) <= MAX_UNINTERRUPTED_CHARS
    if is_short:  # so that both searches share the bytes
        data = data or latin_bytes(text)
    if known.all or known.identities is not None:
        positions += known.positions(text, data)
    has_mcp = False
    if not forms:
        return positions
    if len(text) < LONGEST_ENCODED:  # as below, for one block, because most texts are short and calls cost
        look = Look(text, data=data)
        if look.has_nothing and urls.MARK not in text:
            return positions
        find = _possible_secrets if look.runs or look.marks else _possible_plain_secrets
        positions += find(look, known)
        has_mcp = MCP in look.marks
    else:
        for begin, end in _blocks(text):
            if not is_short:  # the run's lock may be held while a short text is searched
                yield_to_others()
            look = Look(text[begin:end], data=data[begin:end], may_be_opaque=False)
            positions += [begin + position for position in _possible_secrets(look, known)]
            has_mcp = has_mcp or MCP in look.marks
    if has_mcp:
        positions += [start for spans in mcp_strings(text) for start, _ in spans]
    positions.sort()
    return positions


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the blocks in which a long text is searched, without the middles of opaque parts."""
    for first, last in searched_parts(text):
        for start in range(first, last, MAX_UNINTERRUPTED_CHARS):
            begin = max(first, start - _OVERLAP)
            if last - start <= MAX_UNINTERRUPTED_CHARS + _OVERLAP:
                yield begin, last
                break
            yield begin, start + MAX_UNINTERRUPTED_CHARS


def _possible_secrets(look: Look, known: KnownSecrets) -> list[int]:
    """Return the positions of possible secrets, except for known values, in a block of JSON text."""
    positions = _possible_plain_secrets(look, known)
    if look.runs or look.marks:
        positions += secret_encodings.possible_words(
            look, lambda decoded: bool(_possible_plain_secrets(Look(decoded), known))
        )
        positions += [
            position
            for starts in look.marks.values()
            for position in starts
            if ESCAPED_LETTER.match(look.text, position)
        ]
    return positions


def _possible_plain_secrets(look: Look, known: KnownSecrets) -> list[int]:
    """Return the positions of possible secrets that are not encoded."""
    text = look.text
    positions: list[int] = []
    if look.literals:
        positions += key_finder.possible_keys(look)
    if look.names:
        any_value = any(value in text for value in known.short)
        positions += secret_names.possible_names(look, known.short.__contains__, any_value=any_value)
    if look.has_commands:
        positions += [secret.start for secret in commands.secrets_in_commands(text)]
    if urls.MARK in text:
        positions += urls.possible_users(text)
    return positions


def find_secrets(text: str, known: KnownSecrets = NO_VALUES, *, names: bool = True) -> Spans:
    """Return the secrets in a text: known values, keys, values after names, and those in an encoded word.

    If `names` is False, secrets that are recognised by a name before them are left out.
    """
    look = Look(text)
    spans = NO_SPANS
    if known.all or known.identities is not None:
        spans = Spans(known.secrets(text))
    if look.has_nothing and urls.MARK not in text and not spans.secrets:
        return spans
    spans = _plain_secrets(look, spans, known.short, names=names)
    if not look.runs and "%" not in text:
        return spans
    encoded = secret_encodings.encoded_secrets(
        look, spans, lambda decoded: _plain_secrets(Look(decoded), NO_SPANS, known.short).secrets
    )
    return Spans([*spans.secrets, *encoded])


def _plain_secrets(look: Look, spans: Spans, short: Collection[str], *, names: bool = True) -> Spans:
    """Return what was found in a text, and all secrets that are not encoded.

    Each search leaves out what an earlier search has found. So a key after a name is found by its form.
    """
    text = look.text
    if names and urls.MARK in text:
        spans = spans.with_more(urls.secrets_in_urls(text, spans))
    if look.literals:
        spans = spans.with_more(key_finder.find_keys(look, spans))
        spans = key_finder.keys_beside(text, spans)
    if names and look.has_commands:
        spans = spans.with_more(commands.secrets_in_commands(text, spans))
    if names and look.names:
        any_value = any(value in text for value in short)
        spans = spans.with_more(secret_names.secrets_by_name(look, short.__contains__, spans, any_value=any_value))
    return spans


def mask_text(text: str, known: KnownSecrets = NO_VALUES, *, names: bool = True) -> str:
    """Mask the secrets that `find_secrets` finds."""
    return replace(text, find_secrets(text, known, names=names).secrets)


def masks_in(text: str, masked: str) -> int:
    """Return how many secrets were masked in a text. A change that adds no mask of ours counts as one secret."""
    if masked == text:
        return 0
    return max(1, masked.count("[REDACTED:") - text.count("[REDACTED:"))
