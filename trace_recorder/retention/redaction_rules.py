"""The rules of one redaction: what a person wants removed, before it is known in which run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from trace_recorder.errors import RedactionRuleError
from trace_recorder.reading.own_files import load_own
from trace_recorder.retention.removed_texts import MASK, Change, RemovedTexts
from trace_recorder.retention.run_addresses import check_address, texts_at
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.text_edits import TextPlace, apply_edits

_REMOVED_EVERYWHERE = 16
"""A text at an address with fewer characters is removed only where nothing else is in the string."""


class RedactionRules:
    """Texts, patterns, functions and addresses of what is removed. Raises RedactionRuleError for one that is unusable.

    `names` says for the file which rules these are, and never what they remove.
    """

    def __init__(
        self,
        texts: Iterable[str] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        functions: Iterable[Change] = (),
        addresses: Iterable[str] = (),
    ) -> None:
        self.texts = [*dict.fromkeys(texts)]
        self.patterns = [*map(_compiled, patterns)]
        self.functions = [*functions]
        self.addresses = [*dict.fromkeys(addresses)]
        if not (self.texts or self.patterns or self.functions or self.addresses):
            raise RedactionRuleError("give a text, a pattern, a function or an address: nothing says what to remove")
        for address in self.addresses:
            check_address(address)
        self.everywhere = RemovedTexts(self.texts, self.patterns, self.functions)
        """What is removed without the addresses, which differ from run to run."""

    @property
    def names(self) -> list[str]:
        """The kinds of the rules, with the names of functions, and the addresses. None of them has a removed text."""
        functions = [
            (getattr(function, "__module__", ""), getattr(function, "__qualname__", type(function).__qualname__))
            for function in self.functions
        ]
        return [
            *["text"][: len(self.texts)],
            *["pattern"][: len(self.patterns)],
            *(f"function {self._masked(':'.join(filter(None, names)))}" for names in functions),
            *(f"path {self._masked(address)}" for address in self.addresses),
        ]

    def _masked(self, name: str) -> str:
        return apply_edits(name, self.everywhere.without_functions().edits(name, TextPlace("", ())))

    def removed_from(self, run: Path) -> RemovedTexts:
        """Return what is removed from a run. Raises RedactionRuleError if it has no value at an address."""
        if not self.addresses:
            return self.everywhere
        trajectory = load_own(run)
        journal = journal_path_for(run)
        texts = [text for address in self.addresses for text in texts_at(trajectory, journal, address) if text != MASK]
        everywhere = [text for text in texts if len(text) >= _REMOVED_EVERYWHERE]
        return RemovedTexts([*self.texts, *everywhere], self.patterns, self.functions, whole_texts=texts)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise RedactionRuleError(f"{pattern!r} is not a regular expression: {error}") from None
    if not isinstance(compiled.pattern, str):
        raise RedactionRuleError(f"{pattern!r} is a pattern for bytes, and texts are str: remove the b before it")
    return compiled
