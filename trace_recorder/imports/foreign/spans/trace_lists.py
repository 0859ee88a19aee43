"""Files with one trace, a list of them, or one a line, as MLflow and Langfuse write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.run import ForeignRun, Members, Missing
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import Payload


def has_trace(source: Source, is_trace: Callable[[Payload], bool]) -> bool:
    """Whether the document, its first element, or one of the first lines is a trace."""
    document = source.document
    first = document[0] if isinstance(document, list) and document else document
    return is_trace(first) or any(is_trace(line.value) for line in source.first_lines)


def read_traces(
    source: Source, is_trace: Callable[[Payload], bool], run_of: Callable[[Members], ForeignRun]
) -> Iterator[ForeignRun]:
    """Yield the run of each trace. What is no trace, or has none of its parts, is missing from the run before it.

    Raises TrajectoryFormatError if no trace can be read.
    """
    missing: list[Missing] = []
    last: ForeignRun | None = None
    for name, value, why in _values(source):
        run = why or _read(value, is_trace, run_of)
        if isinstance(run, str):
            missing.append(Missing(what=name, why=run))
            continue
        if last is not None:
            yield last
        last, run.events, missing = run, [*run.events, *missing], []
    if last is None:
        raise TrajectoryFormatError(f"{source.path} has no trace that can be read: {missing[0].why if missing else ''}")
    last.events += missing
    yield last


def _read(
    value: Payload, is_trace: Callable[[Payload], bool], run_of: Callable[[Members], ForeignRun]
) -> ForeignRun | str:
    """Return the run of a trace, or why there is none."""
    if not is_trace(value):
        return "it is no trace"
    try:
        return run_of(value)
    except TrajectoryFormatError as error:
        return str(error)


def _values(source: Source) -> Iterator[tuple[str, Payload, str | None]]:
    """Yield the name of each part of a file, its value, or why it has none."""
    document = source.document
    if document is not None:
        listed = document if isinstance(document, list) else [document]
        yield from ((f"element {number}", value, None) for number, value in enumerate(listed, start=1))
        return
    yield from ((f"line {line.number}", line.value, line.why) for line in source.each_line())
