"""Writes the file that is shared, as a zip or as one HTML page. The runs themselves are never changed.

The file is written under a temporary name, and takes its own name last: a crash leaves the whole file, or none. The
journal and the document of one run at a time are in a temporary directory of the system, with the content that they are
shared with.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple

from trace_recorder.errors import SharingError
from trace_recorder.formats.shared_files import SharedZip, page_with_runs
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.reading.own_files import load_own
from trace_recorder.retention.spelled_texts import SHORTEST
from trace_recorder.sharing.runs import RunToShare, names_in_file
from trace_recorder.sharing.textless_runs import TextlessRuns, state_of
from trace_recorder.sharing.tier_masker import TierMasker
from trace_recorder.storage.atomic_write import create_filled, rename_exclusive, replace_file, write_all
from trace_recorder.storage.content_tiers.textless_journal import TextlessJournal, with_content
from trace_recorder.storage.content_tiers.tiers import Content
from trace_recorder.storage.file_system import close_ignoring_errors, sync_file
from trace_recorder.storage.paths import temporary_path
from trace_recorder.storage.redaction.identities import Identities
from trace_recorder.storage.rewritten_journal import RewrittenJournal
from trace_recorder.storage.text_edits import TextPlace, apply_edits
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.version import __version__
from trace_recorder.viewer.one_file import one_file, several_runs_file

MOST_RUNS_IN_A_PAGE = 20
"""A page has the viewer once for each run, and is one text in memory. A zip has any number of runs."""


@dataclass(frozen=True, slots=True)
class SharePlan:
    """How the runs are shared: the tier, the names that "masked" masks, and what a person decided in the review.

    `kept` are found texts that stay, and `removed` are texts that are masked in every tier.
    """

    content: Content
    names: Sequence[str] = ()
    kept: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


@dataclass(slots=True)
class Written:
    """What was written: how many bytes, and how many places were masked. `damaged` lines were no records."""

    size: int = 0
    masked: int = 0
    damaged: int = 0
    names: list[str] = field(default_factory=list)


class _SharedJournal(NamedTuple):
    """A run as it is shared: its name in the file, and its new journal, which exists until the next one is made."""

    name: str
    journal: Path


def write_shared_file(
    runs: Sequence[RunToShare],
    target: Path,
    plan: SharePlan,
    *,
    textless: TextlessRuns | None = None,
    replace: bool = False,
) -> Written:
    """Write the runs into a zip, or into an HTML page if the name of the target ends in .html.

    `textless` has runs without their texts that the summary has made. They are used if the plan removes nothing else.
    Raises FileExistsError if the target exists and `replace` is False, SharingError, OSError and TrajectoryFormatError.
    After an exception, the target is as it was.
    """
    is_page = is_page_name(target)
    if is_page and len(runs) > MOST_RUNS_IN_A_PAGE:
        raise SharingError(
            f"a page has at most {MOST_RUNS_IN_A_PAGE} runs, and {len(runs)} are selected: write a .zip, or select "
            "fewer with --where."
        )
    if os.path.lexists(target) and not replace:
        raise FileExistsError(errno.EEXIST, "File exists", str(target))
    written = Written()
    temporary = temporary_path(target.absolute())
    with suppress(FileNotFoundError):  # of a killed process with the same id
        temporary.unlink()

    def fill(fd: int) -> None:
        with TemporaryDirectory(prefix="trace-recorder-share-") as directory:
            journals = _journals(runs, Path(directory), plan, written, textless)
            if is_page:
                write_all(fd, _page(journals, Path(directory), plan))
            else:
                with os.fdopen(os.dup(fd), "wb") as file:
                    _write_zip(_Appended(file), journals, Path(directory), plan)
        sync_file(fd)
        written.size = os.fstat(fd).st_size

    def take_name(filled: Path) -> None:
        if replace:
            filled.replace(target)
        else:
            rename_exclusive(filled, target)

    fd, _ = create_filled(temporary, fill, take_name)
    close_ignoring_errors(fd)
    return written


def is_page_name(target: Path) -> bool:
    """Return whether a file with this name is an HTML page. Any other file is a zip."""
    return target.suffix.lower() in {".html", ".htm"}


# ── the journals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _journals(
    runs: Sequence[RunToShare], directory: Path, plan: SharePlan, written: Written, textless_runs: TextlessRuns | None
) -> Iterator[_SharedJournal]:
    """Write the journal of each run with the content that is shared, and yield it."""
    kept = textless_runs
    if kept is None or plan.removed:
        kept = TextlessRuns(directory)
    names = names_in_file(_name_of(run, number, plan) for number, run in enumerate(runs, 1))
    for run, name in zip(runs, names, strict=True):
        before = state_of(run.journal)
        journal = directory / "shared.jsonl"
        made = kept.made.get(run.journal)
        if made is not None:
            before, journal = made.state, made.journal
            written.damaged += made.damaged
        elif plan.content == "none":
            textless = TextlessJournal(run.journal, kept.key, plan.removed)
            replace_file(journal, textless.lines())
            written.damaged += textless.damaged
        else:
            masker = _masker(plan)
            rewritten = RewrittenJournal(run.journal, masker)
            replace_file(journal, _with_content(rewritten.lines(), plan.content))
            written.damaged += rewritten.counts.damaged
            written.masked += rewritten.counts.places.total()
        if state_of(run.journal) != before:
            raise SharingError(f"{run.journal} was written to while it was read; nothing was written. Try again.")
        written.names.append(name)
        yield _SharedJournal(name, journal)


def _masker(plan: SharePlan) -> TierMasker:
    """Return what masks the texts of one run in the tiers "full" and "masked"."""
    short = {text for text in plan.removed if len(text) < SHORTEST}
    identities = None
    if plan.content == "masked":
        identities = Identities([*plan.names, *short])
    elif short:
        identities = Identities(short, addresses=False)
    return TierMasker(identities, kept=plan.kept, removed=plan.removed - short)


def _with_content(lines: Iterator[bytes], content: Content) -> Iterator[bytes]:
    """Yield the lines of a journal whose first record states the tier, and no host."""
    for line in lines:
        yield with_content(line, content)
        break
    yield from lines


def _name_of(run: RunToShare, number: int, plan: SharePlan) -> str:
    """Return the name of a run in the file. The name of its own file may say more than is shared."""
    if plan.content == "none":
        return f"run-{number}"
    masker, name = _masker(plan), run.name
    return apply_edits(name, masker.edits(name, TextPlace("", ())))


# ── the forms of the file ────────────────────────────────────────────────────────────────────────────────────────────


class _Appended:
    """A file to which a zip is written in order. `zipfile` asks for `seek` to know that it need not go back."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _write_zip(file: Any, journals: Iterable[_SharedJournal], directory: Path, plan: SharePlan) -> None:
    """Write a zip with the journal and the document of each run."""
    with SharedZip(file, _about(plan)) as zipped:
        for name, journal in journals:
            document = directory / "shared.json"
            WholeDocument(journal, "auto", status=load_own(journal).status).write(document)
            zipped.add_run(name, journal, document)
    file.flush()


def _page(journals: Iterable[_SharedJournal], directory: Path, plan: SharePlan) -> Iterator[bytes]:
    """Return an HTML page that shows the runs, and has a zip of their journals."""
    runs: list[tuple[Trajectory, str]] = []
    archive = directory / "runs.zip"
    with archive.open("wb") as file, SharedZip(file, _about(plan)) as zipped:
        for name, journal in journals:
            zipped.add_run(name, journal, None)
            runs.append((load_own(journal), name))
    page = one_file(*runs[0]) if len(runs) == 1 else several_runs_file(runs)
    return page_with_runs(page, archive)


def _about(plan: SharePlan) -> dict[str, Payload]:
    return {"content": plan.content, "recorder": __version__}
