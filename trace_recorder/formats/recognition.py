"""Recognises the format of another tool's file by the file's content, and reads the file's runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import NoReturn

from trace_recorder import registry
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import AgentStepFact, AnnotationFact, GapFact, SourceRecordFact
from trace_recorder.formats.foreign_runs.run import UNANSWERED, UNSEEN, Event, ForeignRun, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import FormatReader
from trace_recorder.guard import try_call
from trace_recorder.storage.redaction.text_masking import default_redactor

IMPORT_FORMATS: registry.Records[FormatReader] = registry.IMPORT_FORMATS


_recognizes_none = ContextVar("recognizes_none", default=False)


@contextmanager
def only_own_files() -> Iterator[None]:
    """Recognise no format in a block, so that `load` refuses the files of other tools.

    Some tools have a run in several files, and their readers look for these files in directories above. In the block,
    nothing but the files of the run itself is read.
    """
    token = _recognizes_none.set(True)
    try:
        yield
    finally:
        _recognizes_none.reset(token)


def format_of(source: Source) -> str | None:
    """Return the name of a file's format, or None if the format is unknown.

    Raises OSError and TrajectoryFormatError.
    """
    if _recognizes_none.get():
        return None
    for name, record in IMPORT_FORMATS.items():
        if try_call(partial(record.recognizes, source), _not_recognized):
            return name
    return None


def _not_recognized(error: Exception) -> bool:
    if isinstance(error, TrajectoryFormatError | OSError):
        raise error
    return False


def read_foreign_runs(source: Source) -> Iterator[ForeignRun]:
    """Yield the runs of a file of another tool.

    Raises TrajectoryFormatError if the format is unknown or the content is damaged, and OSError if the file cannot be
    read.
    """
    format_name = format_of(source)
    if format_name is None:
        why = ""
        if source.why_no_document:
            why = f": as one document, {source.why_no_document}"
        raise TrajectoryFormatError(f"{source.path} has an unknown format{why}. docs/import.md lists the formats.")
    runs = iter(IMPORT_FORMATS[format_name].read(source))
    while True:
        run = try_call(partial(next, runs, None), partial(_refuse, source.path, format_name))
        if run is None:
            return
        run.format = format_name
        run.identity = _without_secret_name(run.identity, source.path)
        run.source.setdefault("file", masked_name(source.path.name))
        if not run.is_fork and not any(map(_is_content, run.events)):
            why = f"the file, read as {format_name}, has no calls and no messages"
            run.events.append(TimedFact.gap(what="every call and message", why=why))
        yield run


def _is_content(event: Event) -> bool:
    """Return whether an event is a call, a step, an execution, a message or a gap."""
    if not isinstance(event, TimedFact):
        return True
    match event.fact:
        case SourceRecordFact(what=what):
            return what == UNSEEN
        case AnnotationFact(key=key):
            return key == UNANSWERED
        case AgentStepFact() | GapFact():
            return True
    return False


def masked_name(name: str) -> str:
    """Return the name of a file with its secrets masked.

    The name is also masked without its suffix, because the suffix could look like a part of the secret.
    """
    parts = ((name, "", ""), name.rpartition("."), name.partition("."))
    names = (default_redactor(stem) + dot + suffix for stem, dot, suffix in parts)
    return next((masked for masked in names if masked != name), name)


def _without_secret_name(identity: str, path: Path) -> str:
    """Return a run's identity with the secrets of the file's name masked.

    A format may have made the identity from that name and a number.
    """
    for name in (path.name, path.name.removesuffix(path.suffix), path.name.partition(".")[0]):
        if name and (masked := masked_name(name)) != name:
            identity = identity.replace(name, masked)
    return identity


def _refuse(path: Path, name: str, error: Exception) -> NoReturn:
    if isinstance(error, TrajectoryFormatError | OSError):
        raise error
    raise TrajectoryFormatError(f"{path} cannot be read as {name}: {type(error).__name__}: {error}") from error
