"""Delivers the spans of a run in batches, and notes which spans arrived.

The notes are in a small file next to the journal, `<run>.delivered`. Each line is JSON: a target, and the ids of the
spans that the target accepted. A line is appended for each batch, so its cost does not grow with the run. A damaged
line is skipped, and its spans are sent again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.background_work import yield_to_others
from trace_recorder.formats.spans.writing.span import Span
from trace_recorder.formats.spans.writing.span_maker import Conventions, SpanMaker
from trace_recorder.formats.spans.writing.spans import PlannedSpan, plan_additions
from trace_recorder.formats.spans.writing.tree import SpanTree
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.trajectory import Trajectory

MAX_SPANS = 256
MAX_CHARACTERS = 2 * 1024 * 1024
"""A batch has at most this many spans, and attributes of at most this many characters.

A span with longer attributes is sent alone.
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of a delivery: how many spans arrived, how many spans are missing, and how many scores are missing."""

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

    After the last planned span, send the `additions` that were not delivered yet. If a batch is refused, the next call
    sends the rest. An addition may have been delivered as its own span, or inside another span, whose `addition_ids`
    name the addition. Spans are made batch by batch, so that few spans are in memory. Raises OSError if the ids of the
    delivered spans cannot be written to their file.
    """
    names = {span.span_id: span.addition_ids for span in planned if span.addition_ids}
    sent = 0
    for spans in (planned, additions):
        waiting = [span for span in spans if span.span_id not in delivered.ids]
        accepted = 0
        for batch in batches(waiting):
            if not send(batch):
                return Delivery(sent + accepted, len(waiting) - accepted)
            delivered.add(name for span in batch for name in (span.span_id, *names.get(span.span_id, ())))
            accepted += len(batch)
        sent += accepted
    return Delivery(sent)


def batches(planned: Iterable[PlannedSpan]) -> Iterator[list[Span]]:
    """Make the planned spans, and yield them in batches."""
    batch: list[Span] = []
    size = 0
    for planned_span in planned:
        span = planned_span.make()
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
    """Return the spans of rewards and annotations of a run that has ended.

    Langfuse gets no such spans, because rewards are sent to it as scores.
    """
    if conventions == "langfuse":
        return ()
    run_maker = maker.for_run(trajectory)
    return plan_additions(SpanTree.of(trajectory, run_maker.ids), run_maker)


SUFFIX = ".delivered"


class Delivered:
    """The ids of the spans and scores of one run that one target accepted."""

    def __init__(self, run: Path, target: str) -> None:
        self.path = journal_path_for(run).with_suffix(SUFFIX)
        self._target = target
        self.ids: set[str] = set()

    def read(self) -> None:
        """Read the ids of delivered spans. Raises OSError if the file exists and cannot be read."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            self.ids.update(_ids_in(line, self._target))

    def add(self, ids: Iterable[str]) -> None:
        """Append the ids of delivered spans or scores to the file. Raises OSError if the file cannot be written."""
        new = [*ids]
        self.ids.update(new)
        line = json.dumps({"target": self._target, "ids": new}) + "\n"
        with open(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:  # noqa: PTH123 - its mode
            if file.tell() and not self._ends_with_line():
                file.write(b"\n")
            file.write(line.encode())

    def _ends_with_line(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def _ids_in(line: bytes, target: str) -> list[str]:
    try:
        note = json.loads(line)
    except ValueError:
        return []
    if not isinstance(note, dict) or note.get("target") != target or not isinstance(note.get("ids"), list):
        return []
    return [span_id for span_id in note["ids"] if isinstance(span_id, str)]
