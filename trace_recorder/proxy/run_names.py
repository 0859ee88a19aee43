"""The names of the proxy's runs: which name a new run gets, and which earlier run belongs to the same session.

The name of a session that a header or a path names ends in a digest of the session. The directory is listed once, when
the first such session begins. After that, the names are in memory. So the search for an earlier run costs the same,
however many runs the directory has. A run that another process begins later in this directory is not found.

One thread calls all methods. The event loop does not call them, because they look at files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from trace_recorder.facts import StartFact
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.free_names import free_paths
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.paths import default_name, journal_path_for
from trace_recorder.storage.redaction.headers import secrets
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

_NAME = re.compile(r"(?P<begun>[^.]*_(?P<digest>[0-9a-f]{8}))(?:\.(?P<number>\d+))?\.json")
_MAX_LABEL_CHARS = 40


def mask_of(headers: list[tuple[bytes, bytes]], url: str) -> Callable[[str], str]:
    """Return a function that masks secrets in a text: those of known forms, and those of a request."""
    redaction = Redaction(default_redactor)
    redaction.learn(*secrets(headers, url))
    return redaction.mask_plain


def session_name(source: str, identity: str, mask: Callable[[str], str]) -> str:
    """Return the part of a file's name that identifies a session: a readable label, and a digest.

    If `mask` changes the identity or a word of it, there is no label.
    """
    digest = blake2b(f"{source}\0{identity}".encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    if any(mask(word) != word for word in (identity, *identity.split("\0"))):
        return f"_{digest}"
    return f"_{re.sub(r'[^A-Za-z0-9]+', '-', identity)[:_MAX_LABEL_CHARS].strip('-')}_{digest}"


class RunNames:
    """The names of the runs in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._by_session: dict[str, list[str]] | None = None
        """The names of documents by the digest of their session, the newest last."""

    def new_path(self, name: str) -> Path:
        """Return a path at which there is no run. `name` is the result of `session_name`, or "".

        The path is free: otherwise the recorder would rename the files of the run at that path.
        """
        now = datetime.now()  # noqa: DTZ005 - local time, as in all names of files
        document = self._directory / f"{Path(default_name(now)).stem}{name}.json"
        return next(free_paths(document, lambda path: journal_path_for(path).exists()))

    def add(self, document: Path) -> None:
        """Remember the document of a run that has begun."""
        if (match := _NAME.fullmatch(document.name)) is not None:
            self._listed().setdefault(match["digest"], []).append(document.name)

    def earlier(self, name: str) -> dict[str, str] | None:
        """Return the `resumed_from` of a new run: the last run of the same session, or None if there is no such run."""
        if not name:
            return None
        for earlier in reversed(self._listed().get(name[-8:], [])):
            try:
                with journal_path_for(self._directory / earlier).open("rb") as journal:
                    first = next(read_records(journal.readline()), None)
            except ours(OSError):  # somebody removed the run
                continue
            identity = ""
            if isinstance(first, Record) and isinstance(first.fact, StartFact):
                identity = first.fact.trajectory_id
            return {"trajectory_id": identity, "file": earlier}
        return None

    def _listed(self) -> dict[str, list[str]]:
        """Return the names by session. List the directory at the first call."""
        if self._by_session is None:
            self._by_session = {}
            matches = [match for path in self._directory.glob("*.json") if (match := _NAME.fullmatch(path.name))]
            # The run of `a.json` began before the run of `a.1.json`.
            for match in sorted(matches, key=lambda match: (match["begun"], int(match["number"] or 0))):
                self._by_session.setdefault(match["digest"], []).append(match.string)
        return self._by_session
