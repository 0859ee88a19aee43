"""Finds and masks the secrets of one text.

`mask_text` masks a text. `possible_secrets` finds the places in JSON text whose strings must be masked by `mask_text`.
Both begin with the same first look. A recorder uses `default_redactor` unless its user sets another redactor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.storage.redaction import commands, key_finder, urls
from trace_recorder.storage.redaction import encodings as secret_encodings
from trace_recorder.storage.redaction import names as secret_names
from trace_recorder.storage.redaction.dense_parts import mask_of_part
from trace_recorder.storage.redaction.first_look import LONGEST_ENCODED, MCP, Look, searched_parts
from trace_recorder.storage.redaction.json_members import mask_json, mcp_strings
from trace_recorder.storage.redaction.json_strings import ESCAPED_LETTER
from trace_recorder.storage.redaction.known_values import KnownSecrets


def default_redactor(text: str) -> str:
    """Mask keys and tokens of well-known providers by their forms, and values that follow the name of a secret.

    The text may be plain or JSON: no mask extends over the end of a JSON string.
    """
    return mask_json(mask_text(text))


_OVERLAP = 4 * 1024
"""A long text is searched in blocks.

This many characters at the end of a block are searched again with the next block. A secret is recognised by fewer
characters than that.
"""


def possible_secrets(text: str, known: KnownSecrets, *, forms: bool = True) -> list[int]:
    """Return, in order, the positions in JSON text at which a secret may be, or the name of a secret.

    Each string with a secret has one of these positions, or the name of its member has one. If `forms` is False, only
    known values are searched. An escaped letter may be a part of a secret, so that it is one of the positions too. A
    long text is searched in blocks.
    """
    positions = known.positions(text) if known.all else []
    has_mcp = False
    if not forms:
        return positions
    if len(text) < LONGEST_ENCODED:  # as below, for one block, because most texts are short and calls cost
        look = Look(text)
        if look.has_nothing and urls.MARK not in text:
            return positions
        find = _possible_secrets if look.runs or look.marks else _possible_plain_secrets
        positions += find(look, known)
        has_mcp = bool(look.marks) and any(mark == MCP for _, mark in look.marks)
    else:
        for begin, end in _blocks(text):
            if len(text) > MAX_UNINTERRUPTED_CHARS:  # the run's lock may be held while a shorter text is searched
                yield_to_others()
            look = Look(text[begin:end])
            positions += [begin + position for position in _possible_secrets(look, known)]
            has_mcp = has_mcp or any(mark == MCP for _, mark in look.marks)
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
        positions += [position for position, _ in look.marks if ESCAPED_LETTER.match(look.text, position)]
    return positions


def _possible_plain_secrets(look: Look, known: KnownSecrets) -> list[int]:
    """Return the positions of possible secrets that are not encoded."""
    text = look.text
    positions: list[int] = []
    if look.keys:
        positions += [span.start for span in key_finder.find_keys(look, len(text), once=True)]
    if look.names:
        any_value = any(value in text for value in known.short)
        positions += secret_names.possible_names(look, known.short.__contains__, any_value=any_value)
    if look.has_commands:
        positions += [start for start, _ in commands.secrets_in_commands(text)]
    if urls.MARK in text:
        positions += urls.possible_users(text)
    return positions


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


def mask_text(text: str, short: Collection[str] = frozenset(), *, names: bool = True) -> str:
    """Mask secrets recognised by their form, by a name before them, or in an encoded text.

    The known values in `short` are masked only after the name of a secret. If `names` is False, secrets that are
    recognised by a name before them are not masked.
    """
    look = Look(text)
    masked = _mask(look, short, names=names)
    if not look.runs and "%" not in text:
        return masked
    look = look if masked is text else Look(masked)
    return secret_encodings.mask_encoded(look, lambda decoded: _mask(Look(decoded), short))


def _mask(look: Look, short: Collection[str], *, names: bool = True) -> str:
    """Mask the secrets of a text, except for secrets in base64 or in percent-encoded words."""
    if names and urls.MARK in look.text:
        look = _look_again(look, _mask_spans(look.text, urls.secrets_in_urls(look.text), "[REDACTED:url-password]"))
    if look.keys:
        masked, _ = _mask_keys(look, len(look.text))
        look = look if masked is look.text else Look(_mask_beside_masks(masked))
    if names and look.has_commands:
        secrets_in_commands = commands.secrets_in_commands(look.text)
        look = _look_again(look, _mask_spans(look.text, secrets_in_commands, "[REDACTED:assigned-secret]"))
    if not names or not look.names:
        return look.text
    any_value = any(value in look.text for value in short)
    secrets = secret_names.secrets_by_name(look, short.__contains__, any_value=any_value)
    return _mask_spans(look.text, secrets, "[REDACTED:assigned-secret]")


def _look_again(look: Look, masked: str) -> Look:
    return look if masked is look.text else Look(masked)


def _mask_beside_masks(text: str) -> str:
    """Mask secrets that were not found because they were right beside another secret, which is a mask now."""
    parts: list[str] = []
    done = 0
    for start, near, end in _beside_masks(text):
        if start >= done:
            part, size = _mask_keys(Look(text[start:end]), near - start)
            parts += (text[done:start], part)
            done = start + size
    return "".join([*parts, text[done:]]) if parts else text


def _mask_keys(look: Look, until: int) -> tuple[str, int]:
    """Mask the secrets that are recognised by their form, up to the position `until`.

    Return the masked part of the text, and the length of that part before masking.
    """
    text = look.text
    parts: list[str] = []
    done = 0
    for start, end, number in key_finder.secrets(look, until):
        parts += (text[done:start], mask_of_part(text, start, end, key_finder.MASKS[number]))
        done = end
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
