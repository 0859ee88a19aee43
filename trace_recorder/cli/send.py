"""Sends runs to a service one by one, for `export --endpoint`. A run that cannot be read or sent is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from trace_recorder.cli.output import warn
from trace_recorder.cli.read_files import UnreadableError, process_or_error, read
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.exporters.delivery import Delivery
from trace_recorder.values.trajectory import Trajectory


class SendTarget(Protocol):
    """A service that runs are sent to."""

    @property
    def name(self) -> str:
        """The name of the service in messages."""

    def sender(self) -> Any:
        """Return a connection to the service. Raises MissingExtraError."""

    def send_run(self, path: Path, trajectory: Trajectory, sender: Any, /, *, resume: bool = False) -> Delivery:
        """Send a run."""


SERVICES: dict[str, tuple[str, str]] = {
    "otlp": ("trace_recorder.exporters.otlp", "otlp"),
    "langfuse": ("trace_recorder.exporters.langfuse", "langfuse"),
    "langsmith": ("trace_recorder.exporters.langsmith", "langsmith"),
}
"""The module and its function that makes the target, for each service by the value of `--format`."""


def target_of(name: str, endpoint: str | None, **settings: object) -> SendTarget:
    """Return a service's target. Raises ImportError, ValueError and PushError."""
    module, function = SERVICES[name]
    target: SendTarget = getattr(import_module(module), function)(endpoint, **settings)
    return target


MAX_FAILURES = 3
"""The command ends if nothing of this many consecutive runs arrived, because then the runs are not the cause."""


def send_runs(runs: Sequence[Path], target: SendTarget, *, resume: bool) -> bool:
    """Send runs, and return whether all of them arrived. Raises MissingExtraError."""
    failed = sent = count = consecutive = 0
    with closing(target.sender()) as sender, _quiet("opentelemetry"):
        for path in runs:
            count += 1
            delivery = process_or_error(path, partial(_send, path, target, sender, resume=resume), "sent")
            if isinstance(delivery, UnreadableError):
                warn(str(delivery))
                failed += 1
                continue
            sent += delivery.sent
            if delivery.missing or delivery.missing_scores:
                warn(f"{path}: {_missing(delivery)} did not arrive; --resume sends them again")
                failed += 1
            consecutive = 0 if delivery.sent or not delivery.missing else consecutive + 1
            if consecutive == MAX_FAILURES and count < len(runs):
                warn(f"nothing of {MAX_FAILURES} runs in a row arrived at {target.name}: the others are not tried")
                break
    warn(f"{pluralize(count, 'run')} read: {pluralize(sent, 'span')} sent to {target.name}")
    return not failed


@contextmanager
def _quiet(library: str) -> Iterator[None]:
    """Keep a library's log of each request off stderr. Spans that did not arrive are reported run by run."""
    log = logging.getLogger(library)
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def _send(path: Path, target: SendTarget, sender: Any, *, resume: bool) -> Delivery:
    return target.send_run(path, read(path), sender, resume=resume)


def _missing(delivery: Delivery) -> str:
    counts = {"span": delivery.missing, "score": delivery.missing_scores}
    return " and ".join(pluralize(count, name) for name, count in counts.items() if count)
