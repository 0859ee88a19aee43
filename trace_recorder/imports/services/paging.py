"""Pages of a service that do not end: it sends the same ones again and again, or empty ones."""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.imports.services.failures import FetchError

MAX_STALE = 100
"""So many pages one after another without anything new are taken for endless."""


class Progress:
    """What has been listed by its ids, and how many pages one after another had nothing new. `of` is what is listed."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._known: set[str] = set()
        self._stale = 0

    def new_ids(self, page: Iterable[str]) -> list[str]:
        """Return the ids of a page that are new, each once. Raises FetchError where the pages do not end."""
        new = [identity for identity in dict.fromkeys(page) if identity not in self._known]
        self._known.update(new)
        self._stale = 0 if new else self._stale + 1
        if self._stale == MAX_STALE:
            raise FetchError(f"{self._of}: {MAX_STALE} pages one after another have nothing new; the service lists on.")
        return new
