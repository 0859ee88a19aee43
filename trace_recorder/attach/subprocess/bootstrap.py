"""Records a process of an agent that runs under `trace-recorder run`.

The run begins with the first LLM call and ends with the process. A process without a call leaves no file. No failure
here reaches the agent. `site/sitecustomize.py` calls `begin` when the process imports its first HTTP library.
`supervisor.py` runs in the parent process. The parent passes the settings of the recording in a `Handoff`
(`handoff.py`). In a process of `trace-recorder fork`, `rerun/subprocess/fork_bootstrap.py` uses the `ProcessRecorder`.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import threading
from types import FrameType

from trace_recorder.attach.current import defaults, following
from trace_recorder.attach.handoff import Handoff
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.all_clients import client_patch
from trace_recorder.capture.seam import guard
from trace_recorder.capture.unseen_clients import unseen_clients, unseen_programs
from trace_recorder.recording import process
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.final_status import uncaught_exception


def begin() -> None:
    """Record this process if the environment requests it."""
    with guard.protect("record this process"):
        handoff = Handoff.from_environment(os.environ)
        if handoff is not None:
            handoff.report_library()
            recording = ProcessRecorder(handoff)
            unseen_clients.listeners.append(handoff.report_unseen)
            client_patch.install(following)
            defaults.of_command = recording.recorder
            recording.end_with_process()


class ProcessRecorder:
    """Makes the recorder of this process when it is first needed, and ends its run with the process."""

    def __init__(self, handoff: Handoff) -> None:
        self._handoff = handoff
        self._made: dict[str, TrajectoryRecorder] = {}
        self._exit_code = 0
        """The exit code of this process if it is a worker of multiprocessing, and otherwise 0."""

    def recorder(self) -> TrajectoryRecorder:
        """Return the recorder. All threads get the same recorder."""
        if not self._made:
            recorder = TrajectoryRecorder(
                self._handoff.document(),
                task=self._handoff.task,
                metadata={"command": _masked(sys.orig_argv)},
                directory=self._handoff.directory,
            )
            recorder._lifecycle.serve_command()
            if self._made.setdefault("recorder", recorder) is recorder:
                self._handoff.report_document(recorder.trajectory_path)
        return self._made["recorder"]

    def end_with_process(self) -> None:
        """Report runs to the parent process as they begin, and end the recording when this process ends."""
        process.run_listeners.append(self._handoff.report_run)
        atexit.register(self.end)
        _end_with_workers(self)

    def end(self) -> None:
        """End the run.

        Its status is completed, or, after an uncaught exception, failed or interrupted. If there is no uncaught
        exception in a worker of multiprocessing, the worker's exit code determines the status. The exit code of any
        other process is known only to its parent.
        """
        with guard.protect("record the end of this process"):
            for program in unseen_programs():
                self._handoff.report_unseen(program)
            error = uncaught_exception()
            if error is None and self._exit_code:
                error = SystemExit(self._exit_code)
            for recorder in self._made.values():
                if error is None:
                    recorder.__exit__(None, None, None)
                else:
                    recorder.__exit__(type(error), error, error.__traceback__)

    def note_exit_code(self) -> None:
        """Keep the exit code of a worker of multiprocessing for `end`.

        Since Python 3.13, the worker's exception is gone before `end` is called. But the exit code is a local variable
        of the worker's bootstrap function, which is still running.
        """
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_name != "_bootstrap":
            frame = frame.f_back
        self._exit_code = 0
        if frame is not None and isinstance(frame.f_locals.get("exitcode"), int):
            self._exit_code = frame.f_locals["exitcode"]


def _masked(words: list[str]) -> list[str]:
    """Return the words of a command line, masked.

    The words are masked as one text, because an option, such as `--token`, shows that the next word is a secret.
    """
    masked = default_redactor(shlex.join(words))
    try:
        return shlex.split(masked)
    except ours(ValueError):
        return [masked]


def _end_with_workers(recording: ProcessRecorder) -> None:
    """End the recording at the end of a worker of multiprocessing too.

    Such a process does not run the functions of `atexit`.
    """
    listening: list[object] = []

    def finish(recording_process: ProcessRecorder) -> None:
        sys.modules["multiprocessing.util"].Finalize(recording_process, recording_process.end, exitpriority=-100)
        # This function is not documented, and refuses if the process is ending already.
        with suppress(AttributeError, RuntimeError):
            threading._register_atexit(recording_process.note_exit_code)  # type: ignore[attr-defined]

    def listen() -> None:
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not listening:
            listening.append(util)
            util.register_after_fork(recording, finish)
            finish(recording)  # for a spawned worker, which is not forked; in any other process this is like `atexit`

    listen()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=listen)
