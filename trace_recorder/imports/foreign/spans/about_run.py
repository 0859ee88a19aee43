"""Facts of spans beyond calls and tools: scores, and the attributes of our own export.

Scores are events named `gen_ai.evaluation.result`, as the GenAI conventions have them. `trace_recorder.*` is what
`views/otlp/made.py` writes: on the root span the task, the status, the success, the metadata and the annotations; on
the span of a call that was not made, the origin and the usage of its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from trace_recorder.dialects.json_access import as_dict, as_int, as_number, as_text
from trace_recorder.dialects.manual import read_usage
from trace_recorder.imports.foreign.run import Annotation, ForeignRun, Score
from trace_recorder.imports.foreign.spans.span import Span, parsed
from trace_recorder.values.messages import Usage
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.trajectory import Status

OURS = "trace_recorder."
"""The beginning of the attributes that our own export adds to those of the conventions."""
_EVALUATION = "gen_ai.evaluation."


def scores(span: Span) -> Iterator[Score]:
    """Yield the scores of a span that are numbers."""
    for at, event in enumerate(span.events):
        said = event.attributes
        value = as_number(said.get(f"{_EVALUATION}score.value"))
        if event.name != f"{_EVALUATION}result" or value is None:
            continue
        span.read_events.add(at)
        yield Score(
            name=as_text(said.get(f"{_EVALUATION}name")) or "score",
            value=value,
            weight=1.0 if (weight := as_number(said.get(f"{OURS}reward.weight"))) is None else weight,
            step_number=as_int(said.get(f"{OURS}reward.step_number")),
            explanation=as_text(said.get(f"{_EVALUATION}explanation")),
            time=event.time,
        )


def origin_of(span: Span) -> tuple[ReplayedFrom, Usage, str] | None:
    """Return the origin of a call's answer, its usage, and how that is counted; None for a call that was made.

    Only our own export has such a mark. It counts as the conventions do, in spans of every form.
    """
    stated = span.take_json(f"{OURS}replayed_from")
    origin = ReplayedFrom.of_document(stated)
    return None if origin is None else (origin, read_usage(as_dict(as_dict(stated).get("usage"))), "otlp")


def add_own(run: ForeignRun, root: Span) -> None:
    """Add to a run what our own export says of it."""
    status = root.take_text(f"{OURS}status")
    if status in get_args(Status):
        run.status = status  # type: ignore[assignment]
    success = root.take(f"{OURS}success")
    run.success = success if isinstance(success, bool) else None
    run.task = root.take_text(f"{OURS}task") or run.task
    run.max_steps = as_int(root.take(f"{OURS}max_steps"))
    for name, value in [*root.attributes.items()]:
        for kind in ("metadata", "annotation"):
            key = name.removeprefix(f"{OURS}{kind}.")
            if key == name:
                continue
            root.read.add(name)
            if kind == "metadata":
                run.metadata[key] = parsed(value)
            else:
                run.events.append(Annotation(key=key, value=parsed(value)))
