"""Sends a run while it is being recorded.

A thread reads the growing journal. It sends the spans that are final, which means that later records cannot change
them. The agent's calls do no work for the export. The thread works for a small share of the time, and yields to other
threads. If an endpoint does not answer, the thread tries again after a growing pause. Nothing waits in memory
meanwhile, because the journal has everything. At the end of a run, the recorder waits a limited time for the remaining
spans. Then the log says how many spans did not arrive. `trace-recorder export --resume` sends these spans.
`formats/spans/writing/spans.py` makes the spans and decides which are final. `delivery.py` sends each span once, and
`otlp.py` is the target.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from trace_recorder.background_work import Event, run_yielding, start_thread
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.exporters.delivery import Delivered, Delivery, additions, deliver
from trace_recorder.formats.spans.writing.span import Span
from trace_recorder.formats.spans.writing.span_maker import Conventions, SpanMaker
from trace_recorder.formats.spans.writing.spans import plan_spans
from trace_recorder.guard import logger, try_call
from trace_recorder.reading.growing_journal import GrowingJournal, ReplacedError

POLL_SECONDS = 0.5
"""The thread pauses at least this long between two readings of the journal."""
MAX_SHARE = 0.05
"""The thread reads the journal, and makes and sends spans, for at most this share of the time."""
MAX_PAUSE_SECONDS = 30.0
"""After failures, the thread pauses at most this long before it tries again."""


class SpanSender(Protocol):
    """A sender of spans to one target."""

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans in one request. Return whether the target accepted them."""

    def close(self) -> None:
        """Give up a request that waits for its next attempt."""


if TYPE_CHECKING:

    class LiveTarget(Protocol):
        """A destination of spans, and the settings of the export."""

        @property
        def name(self) -> str:
            """The name of this target in messages."""

        @property
        def conventions(self) -> Conventions:
            """The conventions for the attributes of the spans, such as "genai"."""

        @property
        def content(self) -> bool:
            """Whether prompts, answers, arguments and results are sent."""

        @property
        def new_messages(self) -> bool:
            """Whether a call's span has only the new messages of its prompt."""

        @property
        def flush_seconds(self) -> float:
            """The end of a run waits at most this many seconds for the export."""

        def sender(self) -> SpanSender:
            """Return a sender."""

        def delivered(self, run: Path) -> Delivered:
            """Return a `Delivered` for a run and this target. Its ids are not read yet."""


class LiveExport:
    """The export of one run, in its own thread, which ends with the run."""

    def __init__(self, journal: Path, target: LiveTarget, poll_seconds: float = POLL_SECONDS) -> None:
        self.name = target.name
        self._journal = GrowingJournal(journal)
        self._target = target
        self._delivered = target.delivered(journal)
        self._maker = SpanMaker.of(target.conventions, content=target.content)
        self._poll_seconds = poll_seconds
        self._pid = os.getpid()
        self._sender: SpanSender | None = None
        self._requests: SimpleQueue[Event] = SimpleQueue()
        self._requested: list[Event] = []
        self._closed = self._stopped = False
        self._failures = 0
        self._is_over = False
        self._missing = 0
        start_thread(partial(run_yielding, self._run), "trace_recorder export")

    def flush(self, seconds: float) -> int:
        """Wait until the thread has sent the spans that are final now.

        Return how many spans are missing. Wait at most `seconds`, and not at all if the last request failed. If the
        thread has not finished by then, the number may be too small, but it is at least 1. In a forked child, return 0.
        """
        if os.getpid() != self._pid:  # a forked child does not have the thread
            return 0
        done = Event()
        self._requests.put(done)
        if not (self._failures or self._stopped):
            done.wait(seconds)
        return self._missing if done.is_set() or self._stopped else max(1, self._missing)

    def close(self, seconds: float) -> int:
        """Call `flush`, and then stop the thread, even if spans are missing. Log and return how many are missing."""
        if os.getpid() != self._pid:
            return 0
        missing = self.flush(seconds)
        self._closed = True
        self._requests.put(Event())
        if self._sender is not None:
            self._sender.close()
        if missing:
            logger.warning(
                "at least %d spans of %s were not delivered to %s: trace-recorder export --format otlp --endpoint … "
                "--resume sends them",
                missing,
                self._journal.path,
                self.name,
            )
        return missing

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            try_call(self._send_all, self._give_up)
        finally:
            self._stopped = True  # set before the queue is emptied, so that later callers do not wait
            for request in (*self._requested, *self._next_requests(0)):
                request.set()

    def _give_up(self, error: Exception) -> None:
        logger.warning("the export of %s to %s ended: %s", self._journal.path, self.name, error, exc_info=error)
        self._missing = max(1, self._missing)

    def _send_all(self) -> None:
        self._sender = self._target.sender()
        while not (self._closed or self._is_over):
            began = monotonic_seconds()
            delivery, is_over = try_call(self._send_new, self._note_failure)
            spent = monotonic_seconds() - began
            self._note(delivery, is_over)
            if not (self._closed or self._is_over):
                self._requested = self._next_requests(self._pause(spent))

    def _next_requests(self, seconds: float) -> list[Event]:
        """Wait at most `seconds` for a call of `flush`. Return the events of all calls that wait."""
        events = []
        with suppress(Empty):
            events.append(self._requests.get(timeout=seconds))
            while True:
                events.append(self._requests.get_nowait())
        return events

    def _note_failure(self, error: Exception) -> tuple[Delivery, bool]:
        if not self._failures:
            logger.warning("could not export %s to %s: %s", self._journal.path, self.name, error, exc_info=error)
        return Delivery(missing=max(1, self._missing)), False

    def _note(self, delivery: Delivery, is_over: bool) -> None:  # noqa: FBT001 - whether the run has ended
        self._missing = delivery.missing
        if delivery.missing:
            self._failures += 1
        else:
            self._failures = 0
        self._is_over = is_over and not delivery.missing
        for request in self._requested:
            request.set()

    def _pause(self, spent: float) -> float:
        """Return the seconds to wait, so that the work is a small share of the time. Failures make the wait longer."""
        if self._failures:
            return float(min(MAX_PAUSE_SECONDS, 2.0 ** min(self._failures - 1, 10)))
        return max(self._poll_seconds, spent / MAX_SHARE)

    def _send_new(self) -> tuple[Delivery, bool]:
        """Send the spans that became final. Return the delivery, and whether the run has ended."""
        try:
            self._journal.read_more()
        except ReplacedError:
            self._journal = GrowingJournal(self._journal.path)
            self._journal.read_more()
        run = self._journal.trajectory()
        planned = plan_spans(run, self._maker, new_messages=self._target.new_messages)
        final = [span for span in planned if span.is_final]
        sender = self._sender
        send: Callable[[Sequence[Span]], bool] = sender.send if sender is not None else lambda _: False
        is_over = self._journal.status not in {"running", "unknown"}
        added = additions(run, self._maker, self._target.conventions) if is_over else ()
        return deliver(final, self._delivered, send, added), is_over
