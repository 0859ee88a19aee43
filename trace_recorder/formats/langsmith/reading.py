"""LangSmith's runs, one in each line, and batches as LangSmith's SDK sends them: `{"post": […], "patch": […]}`.

Source: https://docs.smith.langchain.com/reference/data_formats/run_data_format. The members of a patch replace the
members of the post with the same id. Each trace becomes one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, line_values
from trace_recorder.formats.spans.attribute_names import genai, own
from trace_recorder.formats.spans.reading.span import ForeignSpan, ForeignSpanEvent, utc_time
from trace_recorder.formats.spans.reading.trace import run_of, traces
from trace_recorder.values.messages import Payload, without_none

_THREAD_NAMES = ("session_id", "thread_id", "conversation_id")
"""The members of the metadata by which LangSmith groups traces into threads."""
_BATCH = ("post", "patch")


def recognizes(source: Source) -> bool:
    """Return whether the document is a batch, a list of runs or a run, or one of the first lines has runs."""
    return any(_is_run(value) for value in _listed(source.document)) or any(
        _is_run(value) for line in source.first_lines for value in _listed(line.value)
    )


def _listed(value: Payload) -> list[Payload]:
    """Return the runs in a document or a line, which is a batch, a list of runs, or a run."""
    members = as_dict(value)
    if any(isinstance(members.get(name), list) for name in _BATCH):
        return [run for name in _BATCH for run in as_list(members.get(name))]
    if isinstance(value, list):
        return value
    return [value]


def _is_run(value: Payload) -> bool:
    members = as_dict(value)
    return isinstance(members.get("run_type"), str) and isinstance(members.get("id"), str)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each trace."""
    missing: list[TimedFact] = []
    for run in runs_of(_values(source, missing)):
        run.events += missing
        missing = []
        yield run


def _values(source: Source, missing: list[TimedFact]) -> Iterator[Payload]:
    if source.document is not None:
        yield from _listed(source.document)
        return
    for value in line_values(source.lines(), missing.append):
        yield from _listed(value)


def runs_of(values: Iterable[Payload]) -> Iterator[ForeignRun]:
    """Yield a run for each trace in a list of LangSmith's runs. Patches of unknown runs are ignored."""
    by_id: dict[str, Members] = {}
    for value in map(as_dict, values):
        identity = as_text(value.get("id")) or _root_of_patch(value, by_id)
        if identity is not None:
            members = {name: member for name, member in value.items() if member not in (None, {}, [])}
            by_id[identity] = by_id.get(identity, {}) | members
    runs = {run["id"]: run for run in by_id.values() if _is_run(run)}
    for run in runs.values():
        _drop_inherited(run, runs.get(as_text(run.get("trace_id")) or "", run))
    for trace in traces(map(_span, runs.values())):
        run_of_trace = run_of(trace)
        _add_facts(run_of_trace, runs.get(run_of_trace.identity, {}))
        yield run_of_trace


def _drop_inherited(run: Members, root: Members) -> None:
    """Remove the metadata and tags of a run that repeat the metadata and tags of its trace's root."""
    if run is root:
        return
    extra, inherited = as_dict(run.get("extra")), as_dict(as_dict(root.get("extra")).get("metadata"))
    metadata = as_dict(extra.get("metadata"))
    own_metadata = {
        name: value for name, value in metadata.items() if name not in inherited or inherited[name] != value
    }
    run["extra"] = {**extra, "metadata": own_metadata}
    if run.get("tags") == root.get("tags"):
        run.pop("tags", None)


def _root_of_patch(patch: Members, known: dict[str, Members]) -> str | None:
    """Return the id of the run to which a patch without an id belongs.

    Only the root of a trace can be found, because the root's id is the trace's id. Return None for other patches.
    """
    identity = as_text(patch.get("trace_id"))
    order = as_text(patch.get("dotted_order")) or ""
    if identity in known and order.endswith(identity or "-") and "." not in order:
        return identity
    return None


def _span(run: Members) -> ForeignSpan:
    extra = as_dict(run.get("extra"))
    error = as_text(run.get("error"))
    metadata = as_dict(extra.get("metadata"))
    own_metadata = {name: value for name, value in metadata.items() if name.startswith(own.PREFIX)}
    attributes: Members = {
        **own_metadata,
        "langsmith.span.kind": run["run_type"],
        "langsmith.inputs": run.get("inputs"),
        "langsmith.outputs": run.get("outputs"),
        "langsmith.metadata": {name: value for name, value in metadata.items() if name not in own_metadata},
    }
    events = []
    tokens = [event for event in map(as_dict, as_list(run.get("events"))) if event.get("name") == "new_token"]
    if tokens:
        events.append(ForeignSpanEvent("First Token Stream Event", utc_time(tokens[0].get("time"))))
    if error:
        events.append(ForeignSpanEvent(genai.EXCEPTION_EVENT, attributes=_exception(error)))
    more = without_none(tags=run.get("tags") or None, feedback_stats=run.get("feedback_stats") or None)
    return ForeignSpan(
        as_text(run.get("trace_id")) or run["id"],
        run["id"],
        as_text(run.get("parent_run_id")),
        as_text(run.get("name")) or "",
        utc_time(run.get("start_time")),
        utc_time(run.get("end_time")),
        bool(error),
        error,
        attributes,
        events,
        more=more,
    )


def _exception(error: str) -> Members:
    """Return an error text as the attributes of an exception.

    The text has the exception's `repr`, then its traceback.
    """
    first, _, trace = error.partition("\n\n")
    kind, bracket, rest = first.partition("(")
    if not bracket or not kind.isidentifier():
        return {genai.EXCEPTION_MESSAGE: first, "exception.stacktrace": trace}
    message = rest.removesuffix(")")
    if len(message) > 1 and message[0] == message[-1] and message[0] in "'\"":
        message = message[1:-1]
    return {genai.EXCEPTION_TYPE: kind, genai.EXCEPTION_MESSAGE: message, "exception.stacktrace": trace}


def _add_facts(run: ForeignRun, root: Members) -> None:
    """Add the facts about a run that the root of its trace states."""
    extra = as_dict(root.get("extra"))
    runtime, metadata = as_dict(extra.get("runtime")), as_dict(extra.get("metadata"))
    run.source |= without_none(runtime=runtime or None, project=root.get("session_name"))
    run.metadata |= without_none(name=root.get("name"), tags=root.get("tags") or None, metadata=metadata or None)
    run.session = run.session or next(filter(None, (as_text(metadata.get(name)) for name in _THREAD_NAMES)), None)
    run.events += [
        TimedFact.annotation(key=name, value=value) for name, value in as_dict(root.get("feedback_stats")).items()
    ]
