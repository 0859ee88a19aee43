"""Masks the secrets in records, at the single place where records are written.

A redactor is a function that takes a text and returns it with its secrets masked. A mask names the kind of the secret,
such as "[REDACTED:openai-key]". A secret is recognised by its form (`key_forms.py`), by the name before it, or because
its value is known. Known values are the client's key, and the environment's *_API_KEY, *_TOKEN, *_SECRET and
*_PASSWORD. Invariants: masking is deterministic and idempotent. In JSON, only strings are masked, one by one and
decoded, so the structure and the digits of numbers do not change. Ordinary prose, signatures of reasoning and encrypted
content are not changed.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.dialects.event_forms import PIECES
from trace_recorder.guard import try_call
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.json_members import (
    ARGUMENTS,
    MASK,
    MCP_STRING,
    is_json,
    is_secret_member,
    mask_fields,
    mask_json,
    mcp_strings,
)
from trace_recorder.storage.redaction.json_strings import (
    decode_string,
    encode_string,
    mask_together,
    parts_around,
    repair_surrogates,
    strings_at,
)
from trace_recorder.storage.redaction.known_values import KnownSecrets, secrets_of_environment
from trace_recorder.storage.redaction.name_kinds import is_secret_name, kind_of
from trace_recorder.storage.redaction.partial_secrets import unfinished
from trace_recorder.storage.redaction.split_secrets import Part, lines_of
from trace_recorder.storage.redaction.text_masking import default_redactor, mask_text, masks_in, possible_secrets

Redactor = Callable[[str], str]

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
_SHORT, _TOGETHER = 256, 400
"""Strings of at most `_SHORT` characters are searched together, up to `_TOGETHER` at a time."""


@dataclass(slots=True)
class _String:
    """A string of JSON text: its position, its value, and its masked value.

    If `is_searched` is False, the string is not searched. If `names` is False, it is not searched for secrets after
    names.
    """

    start: int
    end: int
    value: str
    masked: str
    is_searched: bool = False
    names: bool = True
    is_json: bool = False


def _no_secrets(_: str) -> list[int]:
    """Return no position, because nothing is masked."""
    return []


class Redaction:
    """The masking of one run: its redactors, and the secret values that the run has learned.

    If `redact` is None, nothing is masked.
    """

    def __init__(
        self, redact: Redactor | Sequence[Redactor] | None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._redactors = () if redact is None else (redact,) if callable(redact) else tuple(redact)
        self._knows_forms = default_redactor in self._redactors
        self._has_user_redactors = any(redactor is not default_redactor for redactor in self._redactors)
        self._known = KnownSecrets(secrets_of_environment(environment) if self._redactors else ())
        self._possible_secrets: Callable[[str], list[int]] = _no_secrets
        """Returns the positions in JSON text at which a secret may be, or the name of a secret."""
        if self._redactors:
            self._possible_secrets = partial(possible_secrets, known=self._known, forms=self._knows_forms)
        self._harmless: tuple[list[str], object, object] = [], None, None
        """The last text of the newest request without a possible secret, and the secret values that were known then."""

    def learn(self, keys: Iterable[str], cookies: Iterable[str] = ()) -> list[str]:
        """Mask these values from now on.

        Return the keys that are new and will be masked wherever they occur. A short key, and a key that is a word, is
        masked only after the name of a secret, and is not returned.
        """
        return self._known.learn(keys, cookies) if self._redactors else []

    @property
    def known_values(self) -> object:
        """The known secret values. If the run learns another value, this is another object."""
        return self._known.all

    def mask_plain(self, text: str, *, names: bool = True) -> str:
        """Mask a text that is not JSON, or the decoded text of one JSON string.

        If `names` is False, do not search for secrets after names.
        """
        text = self._known.mask(text)
        for redactor in self._redactors:
            own = redactor is default_redactor
            masked = self._mask_in_blocks(text, names=names) if own else redactor(text)
            if not isinstance(masked, str):
                raise TypeError(f"the redactor {redactor!r} returned {type(masked).__name__}, and must return a str")
            text = text if masked == text else repair_surrogates(masked, text)
        return text

    def _mask_batch(self, text: str) -> str:
        return mask_text(self._known.mask(text), self._known.short)

    def _mask_pieces(self, text: str) -> str:
        return mask_text(self._known.mask(text), self._known.short, names=False)

    def _mask_in_blocks(self, text: str, *, names: bool) -> str:
        """Mask secrets recognised by their form, by a name before them, or in an encoded text.

        A long text is masked in blocks. If possible, each block ends at a position that is outside of every secret.
        """
        parts: list[str] = []
        done = 0
        while len(text) - done > MAX_UNINTERRUPTED_CHARS:
            yield_to_others()
            part = text[done : done + MAX_UNINTERRUPTED_CHARS]
            part = part[: len(part) - unfinished(part)] or part
            parts.append(mask_text(part, self._known.short, names=names))
            done += len(part)
        masked = "".join([*parts, mask_text(text[done:] if done else text, self._known.short, names=names)])
        return mask_json(masked) if names else masked

    def mask_description(self, text: str) -> str:
        """Mask the description of a value, or of a failure of recording.

        If a redactor of the user fails, mask the description without these redactors.
        """
        return try_call(lambda: self.mask_plain(text), lambda _: mask_text(self._known.mask(text)))

    def mask_name(self, text: str) -> str:
        """Mask a name, such as a JSON member's, without the user's redactors.

        Mask secrets that are recognised by their form or by a name before them, and long known values with a digit.
        """
        text = self._known.mask(text, names=True)
        return mask_text(text) if self._knows_forms else text

    def _mask_member_name(self, name: str, names: dict[str, str]) -> str:
        """Mask the name of a member.

        `names` has the masked names so far, by the name before masking. If two names have the same mask, the second
        gets a number, so that no member is lost.
        """
        masked = self.mask_name(name)
        if masked == name:
            return name
        return names.setdefault(name, f"{masked} {len(names) + 1}" if masked in names.values() else masked)

    def mask(self, text: str, *, are_pieces: bool = False) -> tuple[str, int]:
        """Mask the strings of JSON text.

        Return the text, and how many secrets were masked. A redactor of the user is called with values, not with the
        names of members. A string that such a redactor changes counts as one secret. If `are_pieces` is True, `text` is
        an event of a stream, and its members in `PIECES` have a few letters of the model's text each. These strings are
        not searched for secrets after names, because the end of such a string is not the end of a line. The caller has
        searched the joined strings for these secrets.
        """
        positions = None if self._has_user_redactors else self._possible_secrets(text)
        return (text, 0) if positions == [] else self._mask_strings(text, positions, are_pieces=are_pieces)

    def _mask_strings(self, text: str, positions: list[int] | None, *, are_pieces: bool = False) -> tuple[str, int]:
        """Mask the strings at these positions, or all strings if `positions` is None."""
        defined = set(mcp_strings(text).secrets if self._knows_forms else ())
        names: dict[str, str] = {}
        strings: list[_String] = []
        for start, end, name, is_name in strings_at(text, positions):
            is_long = end - start > _LONG and not is_name and (start, end) not in defined
            if positions is not None and is_long and _is_judged_by_parts(text, start, end, name):
                for begin, part_end in parts_around(text, start, end, positions, self.unfinished):
                    value = decode_string(text, begin, part_end)
                    names_too = not (are_pieces and name in PIECES)
                    strings.append(_String(begin, part_end, value, value, is_searched=True, names=names_too))
                continue
            value = decode_string(text, start, end)
            string = _String(start, end, value, value)
            if (start, end) in defined:
                string.masked = MASK
            elif is_name:
                string.masked = self._mask_member_name(value, names)
            elif (masked := self._mask_by_member(name, value)) is not None:
                string.masked = masked
            else:
                string.is_searched = True
                string.names = not (are_pieces and name in PIECES)
                string.is_json = name in ARGUMENTS
            strings.append(string)
        self._search(strings)
        parts: list[str] = []
        done = count = 0
        for string in strings:
            if string.masked != string.value:
                count += masks_in(string.value, string.masked)
                parts += (text[done : string.start + 1], encode_string(string.masked)[1:-1])
                done = string.end - 1
        return ("".join([*parts, text[done:]]), count) if parts else (text, 0)

    def _mask_by_member(self, name: str, value: str) -> str | None:
        """Mask a string of JSON by the name of its member.

        Return the masked string, the string itself if it cannot have a secret, or None if it must be searched.
        """
        if value.startswith("@") and _PLACEHOLDER.fullmatch(value):
            return value
        if name in _KINDS and _IDENTIFIER.fullmatch(value):
            return value
        if name in _SEALED and len(value) >= _SEAL:
            return self._known.mask(value)
        return MASK if name and self._knows_forms and is_secret_member(name, value, self._known.short) else None

    def _search(self, strings: list[_String]) -> None:
        """Mask the strings in which secrets may be. Short strings are searched together."""
        together: dict[bool, list[_String]] = defaultdict(list)
        for string in strings:
            if string.is_searched and len(string.value) <= _SHORT and self._redactors == (default_redactor,):
                together[string.names].append(string)
            elif string.is_searched:
                string.masked = self.mask_plain(string.value, names=string.names)
        for names, group in together.items():
            for at in range(0, len(group), _TOGETHER):
                yield_to_others()
                batch = group[at : at + _TOGETHER]
                values = [string.value for string in batch]
                searched = mask_together(values, self._mask_batch if names else self._mask_pieces)
                for string, masked in zip(batch, searched, strict=True):
                    string.masked = repair_surrogates(mask_json(masked) if names else masked, string.value)
        for string in strings:
            if string.is_json and string.is_searched and string.names and self._knows_forms:
                string.masked = mask_fields(string.masked)

    def mask_all(self, texts: list[str]) -> list[tuple[str, int]]:
        """Mask several JSON texts of a request, each as `mask` does.

        The last text is often the same as the last text of the request before, and is then not searched again.
        """
        if self._has_user_redactors or sum(map(len, texts)) > MAX_UNINTERRUPTED_CHARS:
            return [self.mask(text) for text in texts]
        last = texts[-1:], self._known.all, self._known.short
        searched = texts[:-1] if last == self._harmless else texts
        positions = self._possible_secrets("\n".join(searched))  # one search of all texts of a small request
        if not positions:
            self._harmless = last
            return [(text, 0) for text in texts]
        masked: list[tuple[str, int]] = []
        begin = 0
        for text in searched:
            end = begin + len(text)
            own = positions[bisect_left(positions, begin) : bisect_left(positions, end)]
            masked.append(self._mask_strings(text, [at - begin for at in own]) if own else (text, 0))
            begin = end + 1
        return masked if searched is texts else [*masked, (texts[-1], 0)]

    def must_be_searched(self, text: str) -> bool:
        """Return whether the strings of a text must be searched: it may have a secret, or the user has a redactor."""
        return self._has_user_redactors or self._has_possible_secrets(text)

    def _has_possible_secrets(self, text: str) -> bool:
        return bool(self._possible_secrets(text))

    def mask_stream(self, data: bytes, *, last: bool = True) -> tuple[bytes, int, int]:
        """Mask the next bytes of a stream.

        Return the masked bytes, how many secrets were masked, and how many bytes of `data` were masked. If `last` is
        False, events at the end of `data` in which a secret may begin are not masked yet. The caller passes these
        events again with the bytes that follow.
        """
        if not self._redactors:
            return data, 0, len(data)
        part = Part(data.decode("utf-8", "surrogateescape"))
        yield_to_others()
        if not last:
            part.hold_back(self.unfinished)
            data = part.text.encode("utf-8", "surrogateescape")
        yield_to_others()
        if not any(map(self.must_be_searched, part.searched_texts())):
            return data, 0, len(data)
        text, spelled = part.mask(self._has_possible_secrets, self._mask_secrets, self._mask_arguments)
        yield_to_others()
        masked, count = self._mask_lines(text, part.masked_lines)
        count += sum(masks_in(before, after) for before, after in spelled)
        return masked.encode("utf-8", "surrogateescape"), count, len(data)

    def _mask_lines(self, text: str, masked_lines: frozenset[int] | None) -> tuple[str, int]:
        """Mask each line of a text: the strings of the JSON in the line, or the whole line if it has no JSON.

        Return the text, and how many secrets were masked. `masked_lines` has the numbers of the lines in which the
        model's text was searched already. None means all lines.
        """
        if not self.must_be_searched(text):
            return text, 0
        masked = [
            self.mask_line(line, are_pieces=masked_lines is None or number in masked_lines)
            for number, line in enumerate(lines_of(text))
        ]
        return "".join(line for line, _ in masked), sum(count for _, count in masked)

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask secrets in bytes that are not UTF-8, before the bytes become base64. Return UTF-8 unchanged."""
        try:
            data.decode()
        except ours(UnicodeDecodeError):
            return self._mask_secrets(data.decode("latin-1")).encode("latin-1", "replace") if self._redactors else data
        return data

    def unfinished(self, text: str) -> int:
        """Return how many characters at the end of a text may belong to a secret that is not complete yet."""
        return max(unfinished(text), self._known.partial_value_length(text))

    def _mask_secrets(self, text: str) -> str:
        """Mask known values and secrets as `mask_plain` does, but do not call the user's redactors."""
        text = self._known.mask(text)
        return mask_json(mask_text(text, self._known.short)) if self._knows_forms else text

    def _mask_arguments(self, text: str) -> str:
        """Mask the arguments of a tool, or a part of them.

        The arguments are JSON, so a secret may be recognised by the name of its member.
        """
        masked = self._mask_secrets(text)
        return mask_fields(masked) if self._knows_forms else masked

    def mask_line(self, line: str, *, are_pieces: bool = False) -> tuple[str, int]:
        """Mask a line: the strings of the JSON in it, or the whole line if it has no JSON.

        Return the line, and how many secrets were masked.
        """
        if not self.must_be_searched(line):
            return line, 0
        begin = _JSON_BEGIN.search(line)
        if begin is not None and is_json(line[begin.start() :]):
            masked, count = self.mask(line[begin.start() :], are_pieces=are_pieces)
            return line[: begin.start()] + masked, count
        field = begin is None and _FIELD.match(line)
        masked = self._mask_secrets(line) if field else self.mask_plain(line)
        return masked, masks_in(line, masked)


_LONG = 3 * MAX_UNINTERRUPTED_CHARS
"""Of a longer string, only the parts that may have a secret are decoded and searched."""
_BEGINS_WITH_JSON = re.compile(r"\"(?:\s|\\[nrt]){0,200}[{\[]")


def _is_judged_by_parts(text: str, start: int, end: int, name: str) -> bool:
    """Return whether a part of a string is masked in the same way alone and with the rest of the string.

    This is not so if the string is JSON, or if the name of its member makes the string a secret.
    """
    if name in ARGUMENTS or name in _SEALED or _BEGINS_WITH_JSON.match(text, start):
        return False
    if MCP_STRING.search(text, start, end):
        return False
    return kind_of(name) is None and not is_secret_name(name)


_PLACEHOLDER = re.compile(r"@string:\d+")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z_./-]{0,60}")
_JSON_BEGIN = re.compile(r"[{\[]")
_FIELD = re.compile(r"(?:event|id|retry|:|\s*$)")
