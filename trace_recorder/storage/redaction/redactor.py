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
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.dialects.event_forms import PIECES
from trace_recorder.facts import Json
from trace_recorder.guard import try_call
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.first_look import latin_bytes
from trace_recorder.storage.redaction.json_members import (
    ARGUMENTS,
    field_secrets,
    is_json,
    is_judged_by_parts,
    mcp_strings,
    secrets_by_member,
)
from trace_recorder.storage.redaction.json_strings import (
    decode_string,
    encode_string,
    parts_around,
    repair_surrogates,
    strings_at,
)
from trace_recorder.storage.redaction.known_values import KnownSecrets, secrets_of_environment
from trace_recorder.storage.redaction.partial_secrets import unfinished
from trace_recorder.storage.redaction.secret_matches import NOWHERE, OnSecret, Place, SearchedFact, replacement
from trace_recorder.storage.redaction.secret_spans import DEFINED, NO_SPANS, JoinedTexts, Secret, Spans, moved, replace
from trace_recorder.storage.redaction.split_secrets import Part, lines_with_ends
from trace_recorder.storage.redaction.text_masking import (
    default_redactor,
    find_secrets,
    mask_text,
    masks_in,
    possible_secrets,
    with_members,
)
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

if TYPE_CHECKING:
    from trace_recorder.storage.redaction.identities import Identities

Redactor = Callable[[str], str]


class TextRemover(Protocol):
    """Takes the texts out of the records of one run (`storage/content_tiers/records.py`)."""

    def data(self, kind: str, data: Json) -> Json:
        """Return the data of a record without its texts."""

    def expect_items(self, items: Payload) -> None:
        """Learn where the next items belong."""

    def stream_without_texts(self, data: bytes) -> bytes:
        """Return the text of a part of a stream without its texts."""


_SHORT, _TOGETHER = 256, 400
"""Strings of at most `_SHORT` characters are searched together, up to `_TOGETHER` at a time."""


class _String(Struct):
    """A string of JSON text: its position, its value, and its masked value.

    `secrets` are its secrets if the name of its member says them, or None if it must be searched. If `names` is False,
    it is not searched for secrets after names. If `is_json` is True, it is JSON or a part of it.
    """

    start: int
    end: int
    value: str
    masked: str
    secrets: list[Secret] | None = None
    names: bool = True
    is_json: bool = False
    place: Place = NOWHERE


class Redaction:
    """The masking of one run: its redactors, and the secret values that the run has learned.

    If `redact` is None, nothing is masked. `on_secret` is asked what replaces each secret that the package's own rules
    find.
    """

    def __init__(
        self,
        redact: Redactor | Sequence[Redactor] | None,
        environment: Mapping[str, str] = os.environ,
        on_secret: OnSecret | None = None,
        *,
        identities: Identities | None = None,
        textless: TextRemover | None = None,
    ) -> None:
        self.textless = textless
        """Takes the texts out of records before they are masked, or None if texts are written."""
        self._on_secret = on_secret
        self._redactors: tuple[Redactor, ...] = ()
        if callable(redact):
            self._redactors = (redact,)
        elif redact is not None:
            self._redactors = tuple(redact)
        self._knows_forms = default_redactor in self._redactors
        self._has_user_redactors = any(redactor is not default_redactor for redactor in self._redactors)
        self._known = KnownSecrets()
        self._possible_secrets: Callable[..., list[int]] = lambda _, **__: []
        """Returns the positions in JSON text at which a secret may be, or the name of a secret."""
        if self._redactors:
            self._known = KnownSecrets(secrets_of_environment(environment), identities)
            self._possible_secrets = partial(possible_secrets, known=self._known, forms=self._knows_forms)
        self._harmless: tuple[list[str], object, object] = [], None, None
        """The last text of the newest request without a possible secret, and the secret values that were known then."""

    def learn(self, keys: Iterable[str], cookies: Iterable[str] = ()) -> list[str]:
        """Mask these values from now on.

        Return the keys that are new and will be masked wherever they occur. A short key, and a key that is a word, is
        masked only after the name of a secret, and is not returned.
        """
        if not self._redactors:
            return []
        new = self._known.learn(keys, cookies)
        if self.textless is not None:  # no text on file has the key
            return []
        return new

    @property
    def known_values(self) -> object:
        """The known secret values. If the run learns another value, this is another object."""
        return self._known.all

    def mask_plain(self, text: str, place: Place = NOWHERE, *, names: bool = True, is_json: bool = False) -> str:
        """Mask a text that is not JSON, or the decoded text of one JSON string.

        If `names` is False, do not search for secrets after names. If `is_json` is True, the text is JSON or a part of
        it, whose members may be secrets.
        """
        if self._redactors[:1] != (default_redactor,):
            text = self._replace(text, self._known.secrets(text), place)
        for redactor in self._redactors:
            if redactor is default_redactor:
                text = self._replace(text, self._secrets(text, names=names, is_json=is_json), place)
                continue
            masked = redactor(text)
            if not isinstance(masked, str):
                raise TypeError(f"the redactor {redactor!r} returned {type(masked).__name__}, and must return a str")
            if masked != text:
                text = repair_surrogates(masked, text)
        return text

    def _replace(self, text: str, secrets: Sequence[Secret], place: Place) -> str:
        """Replace the secrets of a text by their masks, or by what `on_secret` returns."""
        if not secrets:
            return text
        ask = self._on_secret and partial(replacement, self._on_secret, place, text)
        return repair_surrogates(replace(text, secrets, ask), text)

    def _secrets(self, text: str, *, names: bool = True, is_json: bool = False) -> list[Secret]:
        """Return the secrets that the package's own rules find in a text.

        A long text is searched in blocks. If possible, each block ends at a position that is outside of every secret.
        """
        secrets: list[Secret] = []
        done = 0
        while len(text) - done > MAX_UNINTERRUPTED_CHARS:
            yield_to_others()
            part = text[done : done + MAX_UNINTERRUPTED_CHARS]
            part = part[: len(part) - unfinished(part)] or part
            secrets += moved(find_secrets(part, self._known, names=names).secrets, done)
            done += len(part)
        spans = find_secrets(text[done:], self._known, names=names)
        if done:
            spans = Spans([*secrets, *moved(spans.secrets, done)])
        return self._with_members(text, spans, names=names, is_json=is_json).secrets

    def _with_members(self, text: str, spans: Spans, *, names: bool, is_json: bool) -> Spans:
        """Return what was found in a text, and its secret members."""
        if not names:
            return spans
        spans = with_members(text, spans)
        if is_json:
            spans = spans.with_more(field_secrets(text, spans))
        return spans

    def mask_description(self, text: str, fact: str = "") -> str:
        """Mask the description of a value, or of a failure of recording.

        If a function of the user fails, mask the description without these functions.
        """
        place = NOWHERE if self._on_secret is None else Place(SearchedFact(fact))
        return try_call(lambda: self.mask_plain(text, place), lambda _: mask_text(text, self._known))

    def mask_name(self, text: str) -> str:
        """Mask a name, such as a JSON member's, without the user's redactors.

        Mask secrets that are recognised by their form or by a name before them, and long known values with a digit.
        """
        text = self._known.mask(text, names=True)
        if not self._knows_forms:
            return text
        return mask_text(text)

    def _mask_member_name(self, name: str, names: dict[str, str]) -> str:
        """Mask the name of a member.

        `names` has the masked names so far, by the name before masking. If two names have the same mask, the second
        gets a number, so that no member is lost.
        """
        masked = self.mask_name(name)
        if masked == name:
            return name
        if masked in names.values():
            masked = f"{masked} {len(names) + 1}"
        return names.setdefault(name, masked)

    def mask(self, text: str, fact: str = "", *, member: str = "", are_pieces: bool = False) -> tuple[str, int]:
        """Mask the strings of JSON text, which are members of a fact of this kind, or the value of its member `member`.

        Return the text, and how many secrets were masked. A redactor of the user is called with values, not with the
        names of members. A string that such a redactor changes counts as one secret. If `are_pieces` is True, `text` is
        an event of a stream, and its members in `PIECES` have a few letters of the model's text each. These strings are
        not searched for secrets after names, because the end of such a string is not the end of a line. The caller has
        searched the joined strings for these secrets.
        """
        positions = None
        if not self._has_user_redactors:
            positions = self._possible_secrets(text)
        if positions == []:
            return text, 0
        return self._mask_strings(text, positions, fact, member=member, are_pieces=are_pieces)

    def _mask_strings(
        self,
        text: str,
        positions: list[int] | None,
        fact: str = "",
        *,
        member: str = "",
        are_pieces: bool = False,
        event_of: SearchedFact | None = None,
    ) -> tuple[str, int]:
        """Mask the strings at these positions, or all strings if `positions` is None.

        `event_of` is the stream whose event the text is.
        """
        strings = list(self._strings(text, positions, are_pieces=are_pieces))
        if self._on_secret is not None:
            starts = tuple(string.start for string in strings)
            searched = event_of or SearchedFact(fact, text, starts, member=member)
            for string in strings:
                string.place = Place(searched, string.start)
        self._search(strings)
        parts: list[str] = []
        done = count = 0
        for string in strings:
            if string.masked != string.value:
                count += masks_in(string.value, string.masked)
                parts += (text[done : string.start + 1], encode_string(string.masked)[1:-1])
                done = string.end - 1
        if not parts:
            return text, 0
        return "".join([*parts, text[done:]]), count

    def _strings(self, text: str, positions: list[int] | None, *, are_pieces: bool) -> Iterator[_String]:
        """Yield the strings of JSON text that are searched, or are secrets by the names of their members."""
        defined: set[tuple[int, int]] = set()
        if self._knows_forms:
            defined.update(mcp_strings(text).secrets)
        names: dict[str, str] = {}
        for start, end, name, is_name in strings_at(text, positions):
            is_long = end - start > _LONG and not is_name and (start, end) not in defined
            names_too = not (are_pieces and name in PIECES)
            if positions is not None and is_long and is_judged_by_parts(text, start, end, name):
                for begin, part_end in parts_around(text, start, end, positions, self.unfinished):
                    value = decode_string(text, begin, part_end)
                    yield _String(begin, part_end, value, value, names=names_too)
                continue
            value = decode_string(text, start, end)
            string = _String(start, end, value, value, names=names_too, is_json=name in ARGUMENTS)
            if is_name:
                string.masked = self._mask_member_name(value, names)
                string.secrets = []
            elif (start, end) in defined:
                string.secrets = [Secret(0, len(value), DEFINED)]
            else:
                string.secrets = secrets_by_member(name, value, self._known, forms=self._knows_forms)
            yield string

    def _search(self, strings: list[_String]) -> None:
        """Mask the strings in which secrets may be. Short strings are searched together."""
        together: dict[bool, list[_String]] = defaultdict(list)
        for string in strings:
            if string.secrets is not None:
                if string.secrets:
                    string.masked = self._replace(string.value, string.secrets, string.place)
            elif len(string.value) <= _SHORT and self._redactors == (default_redactor,):
                together[string.names].append(string)
            else:
                is_json = string.is_json and string.names and self._knows_forms
                string.masked = self.mask_plain(string.value, string.place, names=string.names, is_json=is_json)
        for names, group in together.items():
            for at in range(0, len(group), _TOGETHER):
                yield_to_others()
                self._search_together(group[at : at + _TOGETHER], names=names)

    def _search_together(self, strings: list[_String], *, names: bool) -> None:
        joined = JoinedTexts([string.value for string in strings])
        divided: dict[int, list[Secret]] = defaultdict(list)
        for number, secret in joined.divide(find_secrets(joined.text, self._known, names=names).secrets):
            divided[number].append(secret)
        for number, string in enumerate(strings):
            spans = NO_SPANS
            if number in divided:
                spans = Spans(divided[number])
            spans = self._with_members(string.value, spans, names=names, is_json=string.is_json)
            if spans.secrets:
                string.masked = self._replace(string.value, spans.secrets, string.place)

    def mask_all(self, texts: list[str], fact: str = "") -> list[tuple[str, int]]:
        """Mask several JSON texts of a request, each as `mask` does. All but the last are items, the last is the fact.

        The last text is often the same as the last text of the request before, and is then not searched again.
        """
        if self._has_user_redactors or sum(map(len, texts)) > MAX_UNINTERRUPTED_CHARS:
            return [*(self.mask(text, "item") for text in texts[:-1]), *(self.mask(text, fact) for text in texts[-1:])]
        last = texts[-1:], self._known.all, self._known.short
        searched = texts
        if last == self._harmless:
            searched = texts[:-1]
        # one search of all texts of a small request; a letter beyond Latin-1 in one of them slows down only that one
        positions = self._possible_secrets("\n".join(searched), data=b"\n".join(map(latin_bytes, searched)))
        if not positions:
            self._harmless = last
            return [(text, 0) for text in texts]
        masked: list[tuple[str, int]] = []
        begin = 0
        for text in searched:
            end = begin + len(text)
            own = [at - begin for at in positions[bisect_left(positions, begin) : bisect_left(positions, end)]]
            if not own:
                masked.append((text, 0))
            elif len(masked) == len(texts) - 1:
                masked.append(self._mask_strings(text, own, fact))
            else:
                masked.append(self._mask_strings(text, own, "item"))
            begin = end + 1
        if searched is not texts:
            masked.append((texts[-1], 0))
        return masked

    def must_be_searched(self, text: str) -> bool:
        """Return whether the strings of a text must be searched: it may have a secret, or the user has a redactor."""
        return self._has_user_redactors or bool(self._possible_secrets(text))

    def mask_stream(self, data: bytes, *, last: bool = True, fact: str = "") -> tuple[bytes, int, int]:
        """Mask the next bytes of a stream, which become facts of this kind.

        Return the masked bytes, how many secrets were masked, and how many bytes of `data` were masked. If `last` is
        False, events at the end of `data` in which a secret may begin are not masked yet. The caller passes these
        events again with the bytes that follow.
        """
        if self.textless is not None:
            textless = self.textless.stream_without_texts(data)
            masked, count = self._mask_lines(textless.decode(), None, NOWHERE)
            return masked.encode(), count, len(data)
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
        place = NOWHERE if self._on_secret is None else Place(SearchedFact(fact, is_searched_again=True))
        mask = partial(self._mask_secrets, place=place)
        text, spelled = part.mask(self._possible_secrets, mask, partial(mask, is_json=True))
        yield_to_others()
        masked, count = self._mask_lines(text, part.masked_lines, place)
        count += sum(masks_in(before, after) for before, after in spelled)
        return masked.encode("utf-8", "surrogateescape"), count, len(data)

    def _mask_lines(self, text: str, masked_lines: frozenset[int] | None, place: Place) -> tuple[str, int]:
        """Mask each line of a text: the strings of the JSON in the line, or the whole line if it has no JSON.

        Return the text, and how many secrets were masked. `masked_lines` has the numbers of the lines in which the
        model's text was searched already. None means all lines.
        """
        lines = lines_with_ends(text)
        masked: list[str] = []
        count = 0
        for first in range(0, len(lines), _LINES_TOGETHER):
            together = lines[first : first + _LINES_TOGETHER]
            if not self.must_be_searched("".join(together)):
                masked += together
                continue
            for number, line in enumerate(together, first):
                are_pieces = masked_lines is None or number in masked_lines
                new, secrets = self._mask_line(line, place, are_pieces=are_pieces)
                masked.append(new)
                count += secrets
        return "".join(masked), count

    def assembled_text(self, data: bytes, masked: bytes) -> bytes:
        """Return the text of a part from which the response is assembled: the masked one, if that has the texts."""
        return masked if self.textless is None else data

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask secrets in bytes that are not UTF-8, before the bytes become base64. Return UTF-8 unchanged."""
        if not self._redactors:
            return data
        try:
            data.decode()
        except ours(UnicodeDecodeError):
            return self._mask_secrets(data.decode("latin-1")).encode("latin-1", "replace")
        return data

    def unfinished(self, text: str) -> int:
        """Return how many characters at the end of a text may belong to a secret that is not complete yet."""
        return max(unfinished(text), self._known.partial_value_length(text))

    def _mask_secrets(self, text: str, place: Place = NOWHERE, *, is_json: bool = False) -> str:
        """Mask known values and secrets as `mask_plain` does, but do not call the user's redactors.

        If `is_json` is True, the text is the arguments of a tool, or a part of them.
        """
        if not self._knows_forms:
            return self._replace(text, self._known.secrets(text), place)
        spans = self._with_members(text, find_secrets(text, self._known), names=True, is_json=is_json)
        return self._replace(text, spans.secrets, place)

    def _mask_line(self, line: str, place: Place, *, are_pieces: bool) -> tuple[str, int]:
        """Mask a line of a stream: the strings of the JSON in it, or the whole line if it has no JSON.

        Return the line, and how many secrets were masked.
        """
        if not self.must_be_searched(line):
            return line, 0
        begin = _JSON_BEGIN.search(line)
        if begin is not None and is_json(line[begin.start() :]):
            event = line[begin.start() :]
            positions = None
            if not self._has_user_redactors:
                positions = self._possible_secrets(event)
            masked, count = self._mask_strings(event, positions, are_pieces=are_pieces, event_of=place.fact)
            return line[: begin.start()] + masked, count
        if begin is None and _FIELD.match(line):
            masked = self._mask_secrets(line, place)
        else:
            masked = self.mask_plain(line, place)
        return masked, masks_in(line, masked)


_LINES_TOGETHER = 16
"""The lines of a stream are searched together, and one by one only if a secret may be in some of them."""
_LONG = 3 * MAX_UNINTERRUPTED_CHARS
"""Of a longer string, only the parts that may have a secret are decoded and searched."""
_JSON_BEGIN = lazy_pattern(r"[{\[]")
_FIELD = lazy_pattern(r"(?:event|id|retry|:|\s*$)")
