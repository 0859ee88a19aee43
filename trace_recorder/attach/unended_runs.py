"""Says how to end a run, if a program has started a run and not ended it. The sentence is logged once in a process."""

from __future__ import annotations

import sys

from trace_recorder.guard import ignore_failures, logger
from trace_recorder.recording.run import Run

_reported: list[str] = []
"""The id of the run that the sentence was about."""


def say_how_to_end(run: Run) -> None:
    """Log that a run was not ended, although nothing interrupted the program."""
    if not _reported:
        _reported.append(run.trajectory_id)
        message = (
            "%s was started and not ended, so its status is interrupted. End a run with recorder.finalize(), or record "
            "it in a block: `with TrajectoryRecorder(...)`. (logged once)"
        )
        with ignore_failures:
            logger.warning(message, run.document)


def say_at_end_of_interpreter(run: Run) -> None:
    """Log the sentence when the interpreter ends, unless another exit handler or a daemon thread has ended the run.

    A log file with the mode "w" does not get the sentence, because `logging` has closed the file by then.
    """
    _LastSentence(run)


class _LastSentence:
    """Garbage whose deletion logs the sentence.

    The interpreter collects garbage when exit handlers and threads have stopped, and before it deletes modules. If an
    instance is collected earlier, it makes another instance.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.itself = self

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _LastSentence(self.run)
        elif not self.run.closed:
            say_how_to_end(self.run)
