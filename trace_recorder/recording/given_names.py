"""Masks the names that an agent gives: of models, providers, tools, agents, states and rewards.

A run repeats few names in most of its calls. So names without a secret are remembered, and searched once.
"""

from __future__ import annotations

from collections.abc import Mapping

from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import masks_in
from trace_recorder.values.jsonable import is_description, to_jsonable
from trace_recorder.values.messages import Payload, without_none

_LONGEST, _MOST = 100, 256
"""At most `_MOST` names without a secret are remembered, each of at most `_LONGEST` characters."""


class GivenNames:
    """The names that one run was given."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._harmless: tuple[object, set[str]] = None, set()
        """Names without a secret, and the known secret values with which they were searched."""

    def mask(self, names: Mapping[str, object]) -> dict[str, Payload]:
        """Copy the values of some members, with the secrets in them masked. `redacted` is the number of masks.

        The user's redactors do not see names. A value that is not a name, but a description of another value, is masked
        as any text.
        """
        copied: dict[str, Payload] = {}
        count = 0
        for member, value in names.items():
            copied[member] = copy = to_jsonable(value)
            if isinstance(copy, str):
                copied[member] = self._mask_name(copy)
                count += masks_in(copy, copied[member])
            elif is_description(copy):
                copied[member] = {part: self._redaction.mask_description(text) for part, text in copy.items()}
                count += sum(masks_in(text, copied[member][part]) for part, text in copy.items())
        return copied | without_none(redacted=count or None)

    def _mask_name(self, name: str) -> str:
        known, harmless = self._harmless
        if known is not self._redaction.known_values:
            known, harmless = self._harmless = self._redaction.known_values, set()
        if name in harmless:
            return name
        masked = self._redaction.mask_name(name)
        if masked == name and len(name) <= _LONGEST:
            if len(harmless) >= _MOST:
                harmless.clear()
            harmless.add(name)
        return masked
