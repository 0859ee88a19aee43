"""Begins and ends the runs of one recorder, also in forked children and at the exit of the process.

A recorder has at most one open run. A run belongs to one process: a forked child that records begins its own run in a
new file, which names the parent's run. Recorded facts are never deleted, in whatever order methods are called.
`recorder.py` has the recording methods and the current recorder.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from trace_recorder.attach.exporting import Exporter, Exporting
from trace_recorder.attach.main_flow import is_main_flow
from trace_recorder.attach.unended_runs import say_at_end_of_interpreter, say_how_to_end
from trace_recorder.capture.unseen_clients import unseen_clients
from trace_recorder.errors import AlreadyFinalizedError, RecorderStateError, TrajectoryPathError
from trace_recorder.guard import Guard, ignore_failures, log_limit, logger
from trace_recorder.locks import new_lock
from trace_recorder.recording import process
from trace_recorder.recording.limits import Limits
from trace_recorder.recording.process import NOT_PICKLED, start_of
from trace_recorder.recording.run import Run
from trace_recorder.recording.stand_ins import origin_in_progress
from trace_recorder.storage.content_tiers.tiers import Content
from trace_recorder.storage.paths import RunPaths, is_wrong_argument
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.values.final_status import FinalStatus, status_of_process, uncaught_exception
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ForkedFrom, RunOrigin
from trace_recorder.values.structs import Struct


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Return whether the environment turns recording off."""
    return environment.get("TRACE_RECORDER_DISABLED", "").lower() not in ("", "0", "false", "no")


class Lifecycle:
    """Begins and ends the runs of one recorder.

    When a run begins, `facts` and `metadata` are written to its journal. `TrajectoryRecorder` holds `lock` while it
    uses several methods of this class that must not be interleaved with another thread. `lock` is taken before the
    locks of the run; see "Locks and their order" in docs/architecture.md.
    """

    def __init__(  # noqa: PLR0913 - a recorder's settings
        self,
        files: RunPaths,
        make_redaction: Callable[[], Redaction],
        guard: Guard,
        *,
        history: str,
        content: Content,
        limits: Limits,
        facts: dict[str, Payload],
        metadata: Mapping[str, Payload],
        disabled: bool,
        exporters: Sequence[Exporter] = (),
    ) -> None:
        self.lock = new_lock()
        self.guard = guard
        self.facts = facts
        self.run: Run | None = None
        self.ended = False
        self.began_in_main_flow = False
        self.is_of_command = False
        """Whether a command, such as `trace-recorder run`, made the recorder, and not the program."""
        self._files = files
        self._make_redaction = make_redaction
        self._history = history
        self._content = content
        self._limits = limits
        self.metadata = metadata
        self._disabled = disabled
        self._path: Path | None = None
        self._parent: str | None = None
        self._forked_from: ForkedFrom | None = None
        self._exporting = Exporting(exporters, guard)
        self._warned = self._warned_of_files = False
        self._last_step = 0
        process.observers.add(self)

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because a recorder cannot leave its process.

        Pickling an object that refers to a recorder, such as an agent, raises TypeError too.
        """
        raise TypeError(NOT_PICKLED)

    def has_open_run(self) -> bool:
        """Return whether a run has begun and has not been closed."""
        return self.run is not None and not self.run.closed

    def begin(self) -> None:
        """Begin a run in a new file.

        If the file cannot be created, no run begins. Raises TrajectoryPathError then, if `strict` is set or the program
        chose a wrong path.
        """
        self.ended = False
        self._last_step = 0
        if self._disabled:
            return
        if "TRACE_RECORDER_RUN" in os.environ:
            from trace_recorder.attach.handoff import report_own_runs  # noqa: PLC0415 - few programs are run by a command

            with ignore_failures:
                report_own_runs()
        try:
            document, journal = self._files.take(self._earlier_run())
        except TrajectoryPathError as error:
            self._continue_without_files(error)
            return
        run = Run(journal, document, self._make_redaction(), self.guard, history=self._history, limits=self._limits)
        with self.guard.protect("find out where the run begins"):
            self.began_in_main_flow = is_main_flow()
        # The finalizer is made before `self.run` is set, because a fork or a signal may come at any point.
        self._finalizer = weakref.finalize(self, _interrupt, run)
        self._finalizer.atexit = False
        self.run, self._path = run, document
        unseen_clients.watch(run.trajectory_id)
        session = self.facts["session"] or process.session_of_environment()
        with self.guard.protect("record the start of the run"):
            metadata = dict(self.metadata)
            if not self.is_of_command:
                metadata |= process.command_metadata()
            names, parent = dict(self.facts), self._parent
            foreign = {name: names.pop(name) for name in ("task", "session")} | {"session": session}
            members = run.named(**names)
            origin, self._forked_from = self._origin(), None
            if isinstance(origin, ForkedFrom):
                parent = origin.trajectory_id
            if self._content != "full":
                members["content"] = self._content
            if origin is not None:
                members |= origin.in_start()
                metadata |= origin.in_metadata()
            foreign["metadata"] = to_jsonable(metadata)
            run.start(start_of(run.trajectory_id, run.pid, parent, **foreign, **members))
            self._exporting.begin(run, journal.path)
        process.add_open_run(run.trajectory_id, document, session, is_of_command=self.is_of_command)

    def _origin(self) -> RunOrigin | None:
        """Return the run that the next run replays or forks, or None."""
        return self._forked_from or origin_in_progress()

    def _earlier_run(self) -> str | None:
        """Return the id of the run whose files must keep their names.

        The program may give the next run the path of this run: of the run that it replays or forks, or of the run of a
        parent process.
        """
        origin = self._origin()
        return self._parent or (origin and origin.trajectory_id) or process.parent_run()

    def _continue_without_files(self, error: TrajectoryPathError) -> None:
        """Let the agent run unrecorded until a file can be created, and log the reason once.

        Raises the error instead if `strict` is set or the program chose a wrong path. A wrong path of the environment,
        or of a command, must not end an agent that knows nothing of it.
        """
        if self.guard.strict or (self._files.chosen_by_program and is_wrong_argument(error)):
            raise error
        self.run = self._path = None
        self.guard.queue_failure("create the files of the run", str(error))
        if not self._warned_of_files:
            self._warned_of_files = True
            if not log_limit("record a run", error, logging.ERROR):
                message = "%s: the agent runs unrecorded (logged once)"
                with ignore_failures:
                    logger.error(message, error)
            process.report_run(self._files.disabled_path())  # it does not exist, so its reader knows of the failure

    def serve_command(self) -> None:
        """Note that a command made this recorder, and not the program. A wrong path must not end the program then."""
        self.is_of_command = True
        self._files.chosen_by_program = False

    def fork_from(self, origin: ForkedFrom) -> None:
        """Mark the next run as a fork: it continues another run from one of that run's calls.

        Raises RecorderStateError if a run of this recorder is open.
        """
        if self.has_open_run():
            raise RecorderStateError(
                f"fork() was given a recorder that has begun {self._path}. Pass a recorder that has not been started: "
                "its first record names the run that it continues."
            )
        self._forked_from = origin

    def end(self, ending: FinalStatus, final_result: object = None) -> None:
        """End the run. Everything is on file when this returns."""
        self.ended = True
        if self.run is not None:
            self._report_unseen_clients(self.run)
            _stop_watching(self.run)
            self._exporting.flush(self.run)
            self.run.finish(ending, final_result)
            self._exporting.end()
            self._finalizer.detach()  # otherwise the finalizer would keep the run in memory as long as this recorder

    def end_locked(self, ending: FinalStatus) -> None:
        """Take the lock, and end the run. The calling thread does not hold the lock yet."""
        with self.lock:
            self.end(ending)

    def _report_unseen_clients(self, run: Run) -> None:
        """Warn if a client that is not recorded has connected to a model during the run.

        Do not warn if calls of the run were recorded by hand.
        """
        if not run.has_calls_by_hand and self._path is not None:
            unseen_clients.report(self._path, run.trajectory_id if run.has_calls else None)

    def run_for(self, what: str) -> Run | None:
        """Return the run to which a method of the recorder writes, and begin a run if the recorder has no run.

        Raises AlreadyFinalizedError if the run has ended. `what` names the method in the error.
        """
        if self.ended:
            raise AlreadyFinalizedError(
                f"{what}: this run has been finalized, its file is {self._path}. Call start() to begin a new run."
            )
        if self.run is None and not self._disabled:
            with self.lock, self.guard.protect("begin the run") if self._parent else nullcontext():
                if self.run is None:
                    self.begin()
        return self.run

    def open_run(self, who: str) -> Run | None:
        """Return the run that records a captured call, and begin the run if necessary.

        If the run has ended, warn once and return None. `who` says in the warning which caller goes on unrecorded.
        """
        if self.ended and not self._warned:
            self._warned = True
            logger.warning("%s goes on unrecorded: its recorder has ended (%s)", who, self._path)
        if self.ended:
            return None
        if self.run is not None:
            return self.run
        with self.guard.protect("begin the run"):
            return self.run_for("a captured call")
        return None

    def run_in_progress(self) -> Run | None:
        """Return the run if it is open. Never begin a run."""
        if self.run is None or self.run.closed:
            return None
        return self.run

    def is_running(self) -> bool:
        """Return whether a run is open, or will begin in this forked child with its first record."""
        if self.run is not None:
            return not self.run.closed
        return self._parent is not None and not self.ended

    def number_step(self, number: object) -> int:
        """Return the number of a new step: `number` if it is an int, or else the number of the last step plus one."""
        with self.lock:
            self._last_step = number if isinstance(number, int) else self._last_step + 1
            return self._last_step

    def document(self) -> Path:
        """Return the path of the run's document.

        If no run is open, reserve and return the path of the next run's document.
        """
        if self.run is not None and self._path is not None:
            return self._path
        if self._disabled:
            return self._files.disabled_path()
        with self.lock:
            try:
                return self._files.reserve(self._earlier_run())
            except TrajectoryPathError as error:
                self._continue_without_files(error)
                return self._files.disabled_path()

    def after_fork(self) -> None:
        """Leave the open run to the parent process.

        Called in the child after a fork. If this child records, a run begins in a new file.
        """
        self.lock = new_lock()  # a thread of the parent, which does not exist here, may have held the old lock
        self.guard.discard_failures()
        if self.run is not None and not self.run.closed:
            self._parent = self.run.trajectory_id
            self.run.abandon()
            self._finalizer.detach()
            self.run = None
        self._files.release_after_fork()

    def at_exit(self) -> None:
        """Write everything that is not on file yet. Called when the interpreter exits."""
        if self.run is not None:
            ending = status_of_process()
            if not self.run.closed:
                self._report_unseen_clients(self.run)
                if uncaught_exception() is None:
                    say_at_end_of_interpreter(self.run)
            self.run.exit(ending)
            self._exporting.end()

    def __str__(self) -> str:
        if self.ended:
            state = "ended"
        elif self.is_running():
            state = "running"
        else:
            state = "not started"
        return f"{self._path or self._files}: {state}"


class Nested(Protocol):
    """The attributes of a recorder that `RecorderTarget` and `not_ended` need.

    `_outer` refers to the recorder that was active where this recorder's run began.
    """

    _lifecycle: Lifecycle
    _outer: weakref.ref[Any] | None


Recorder = TypeVar("Recorder", bound=Nested)


def not_ended(recorder: Recorder | None) -> Recorder | None:
    """Return a recorder if its run has not ended.

    Otherwise return the nearest outer recorder whose run has not ended, or None.

    A context may still name a recorder whose run ended in another context. An example is an async generator that
    another task closed: the generator's own context still names the recorder.
    """
    passed: list[Recorder] = []
    while recorder is not None and recorder._lifecycle.ended and recorder not in passed:
        passed.append(recorder)
        recorder = recorder._outer() if recorder._outer else None
    if recorder is None or recorder._lifecycle.ended:
        return None
    return recorder


class RecorderTarget(Struct, frozen=True):
    """The target of captured calls that one recorder records.

    A client refers to its target, which refers to the recorder. Two targets are equal if they have the same recorder.
    """

    follows_context: ClassVar[bool] = False
    recorder: Nested

    def open_run(self) -> Run | None:
        """Return the recorder's run, and begin it if necessary. If the run has ended, warn once and return None."""
        lifecycle = self.recorder._lifecycle
        run = lifecycle.run  # the quick test comes first: a run is open in nearly all calls
        if run is not None and not lifecycle.ended:
            return run
        return lifecycle.open_run("a wrapped client")

    def run_of_tool(self) -> Run | None:
        """Return the recorder's run for the call of a tool."""
        return self.recorder._lifecycle.open_run("a tool")

    def run_in_progress(self) -> Run | None:
        """Return the recorder's run if it is open. Never begin a run."""
        return self.recorder._lifecycle.run_in_progress()

    def is_running(self) -> bool:
        """Return whether the recorder's run is open."""
        return self.recorder._lifecycle.is_running()

    def is_inferred(self, _: Run, /) -> bool:
        """Return False, because the recorder was chosen explicitly."""
        return False


def _stop_watching(run: Run) -> None:
    """Remove a run from the open runs of the process, and stop watching for clients that are not recorded."""
    process.remove_open_run(run.trajectory_id)
    unseen_clients.unwatch(run.trajectory_id)


def _interrupt(run: Run) -> None:
    """End a run as interrupted, because its recorder was freed without `finalize`."""
    if not run.closed and run.pid == os.getpid():
        say_how_to_end(run)
        _stop_watching(run)
        run.finish(FinalStatus("interrupted"))
