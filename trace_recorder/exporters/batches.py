"""Delivers the spans of a run in batches, and notes what arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_recorder.background_work import yield_to_others
from trace_recorder.exporters.delivered import Delivered
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.otlp.span import Span
from trace_recorder.views.otlp.span_maker import Conventions, SpanMaker
from trace_recorder.views.otlp.spans import PlannedSpan, plan_additions
from trace_recorder.views.otlp.tree import SpanTree

MAX_SPANS = 256
MAX_CHARACTERS = 2 * 1024 * 1024
"""The largest number of spans and characters in a batch. A larger span is sent alone."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How many spans arrived, how many spans are missing, and how many scores are missing."""

    sent: int = 0
    missing: int = 0
    missing_scores: int = 0


def deliver(
    planned: Sequence[PlannedSpan],
    delivered: Delivered,
    send: Callable[[Sequence[Span]], bool],
    additions: Iterable[PlannedSpan] = (),
) -> Delivery:
    """Send the spans that were not delivered yet, until a batch is refused.

    The next call sends the rest. `additions` follow, unless they were delivered as spans of their own or inside another
    span (`addition_ids`). A span is made together with its batch, so few spans are in memory. Raises OSError if the
    delivery cannot be noted.
    """
    names = {one.span_id: one.addition_ids for one in planned if one.addition_ids}
    sent = 0
    for listed in (planned, additions):
        waiting = [one for one in listed if one.span_id not in delivered.ids]
        done = 0
        for batch in batches(waiting):
            if not send(batch):
                return Delivery(sent + done, len(waiting) - done)
            delivered.add(name for span in batch for name in (span.span_id, *names.get(span.span_id, ())))
            done += len(batch)
        sent += done
    return Delivery(sent)


def batches(planned: Iterable[PlannedSpan]) -> Iterator[list[Span]]:
    """Make spans, and yield them in batches."""
    batch: list[Span] = []
    size = 0
    for one in planned:
        span = one.make()
        yield_to_others()
        length = sum(len(value) for value in span.attributes.values() if isinstance(value, str))
        if batch and (len(batch) >= MAX_SPANS or size + length > MAX_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += length
    if batch:
        yield batch


def additions(trajectory: Trajectory, maker: SpanMaker, conventions: Conventions) -> Iterable[PlannedSpan]:
    """Return the additions of a run that has ended. Langfuse gets rewards as scores."""
    of_run = maker.for_run(trajectory)
    return () if conventions == "langfuse" else plan_additions(SpanTree.of(trajectory, of_run.ids), of_run)
