"""Masks the texts of saved runs in the tiers "full" and "masked", and counts what it masks.

It is a `Masker` of `storage/text_edits.py`, so a text that a stream spells over many events is masked too. Both tiers
mask the secrets that today's rules find: older rules may have missed some when the run was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from trace_recorder.retention.removed_texts import RemovedTexts
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.redaction.identities import Identities
from trace_recorder.storage.redaction.json_members import secrets_by_member
from trace_recorder.storage.redaction.known_values import KnownSecrets
from trace_recorder.storage.redaction.secret_spans import EMAIL, KINDS, MASKS, Secret
from trace_recorder.storage.redaction.text_masking import find_secrets, possible_secrets, with_members
from trace_recorder.storage.text_edits import Edit, TextPlace, joined_edits

MAX_FOUND = 1_000
"""At most this many different texts are kept for the summary and the review. Further ones are counted by kind alone."""


class FoundText(NamedTuple):
    """A text that was found: the name of its kind, such as "openai-key", and the text."""

    kind: str
    text: str


class TierMasker:
    """Masks secrets, and what identifies people and machines if `identities` are given.

    `kept` are texts that a person wants to keep, and `removed` are texts that she wants to have masked. `found` counts
    what was masked, and `places` has the first place of each.
    """

    def __init__(
        self, identities: Identities | None, *, kept: Collection[str] = (), removed: Collection[str] = ()
    ) -> None:
        self._known = KnownSecrets((), identities)
        self._kept = frozenset(kept)
        self._removed = RemovedTexts(removed) if removed else None
        self._words = format_words()
        self.found: Counter[FoundText] = Counter()
        self.places: dict[FoundText, TextPlace] = {}
        self.kinds: Counter[str] = Counter()
        self.numbers: Mapping[str, str] = {}

    def may_change(self, json_text: str) -> bool:
        """Return False if nothing in this JSON is masked."""
        if self._removed is not None and self._removed.may_change(json_text):
            return True
        return bool(possible_secrets(json_text, self._known))

    def edits(self, text: str, place: TextPlace) -> Sequence[Edit]:
        """Return the masks of a text."""
        edits = [*self._edits_of_secrets(text, place)]
        if self._removed is not None:
            return joined_edits([*edits, *self._removed.edits(text, place)])
        return edits

    def _edits_of_secrets(self, text: str, place: TextPlace) -> Iterator[Edit]:
        if text in self._words:
            return
        for secret in self._secrets(text, place):
            match = FoundText(KINDS[secret.kind], secret.text(text))
            if match.text in self._kept:
                continue
            self.kinds[match.kind] += 1
            if match in self.found or len(self.found) < MAX_FOUND:
                self.found[match] += 1
                self.places.setdefault(match, place)
            yield Edit(secret.start, secret.end, MASKS[secret.kind])

    def _secrets(self, text: str, place: TextPlace) -> Sequence[Secret]:
        if place.is_name:
            return find_secrets(text, self._known, names=False).secrets
        name = place.path[-1] if place.path else ""
        secrets = secrets_by_member(name, text, self._known, forms=True) if isinstance(name, str) else None
        if secrets is None:
            return with_members(text, find_secrets(text, self._known)).secrets
        return secrets


def identifies_people(kind: str) -> bool:
    """Return whether a kind of found texts identifies people or machines, and is not a secret."""
    return KINDS.index(kind) >= EMAIL
