"""Sends runs to a service, one after another: `export --endpoint`. A run that cannot be read or sent is reported."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NoReturn

from trace_recorder.cli.output import warn
from trace_recorder.cli.read_files import UnreadableError, error_message, read
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.exporters.otlp import OtlpTarget
from trace_recorder.guard import try_call


def send_runs(runs: Iterable[Path], target: OtlpTarget, *, resume: bool) -> bool:
    """Send runs; return whether all of them arrived. Raises MissingExtraError."""
    failed = sent = count = 0
    with closing(target.sender()) as sender:
        for path in runs:
            count += 1
            try:
                run = read(path)
                delivery = try_call(partial(target.send_run, path, run, sender, resume=resume), partial(_refuse, path))
            except UnreadableError as error:
                warn(str(error))
                failed += 1
                continue
            sent += delivery.sent
            if delivery.missing:
                warn(f"{path}: {pluralize(delivery.missing, 'span')} did not arrive; --resume sends them again")
                failed += 1
    warn(f"{pluralize(count, 'run')} as otlp: {pluralize(sent, 'span')} sent to {target.name}")
    return not failed


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise UnreadableError(error_message(path, error, "sent")) from error
