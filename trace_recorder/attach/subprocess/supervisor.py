"""Runs an agent in a child process: starts it, forwards signals, waits for it, and records its exit code.

The agent inherits the standard streams, other open files, the working directory and the process group. The parent
process, such as the process of `trace-recorder run`, records no calls. The processes of the agent record their own
calls (`bootstrap.py`).
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from trace_recorder.attach.handoff import Handoff
from trace_recorder.attach.lifecycle import is_disabled
from trace_recorder.guard import Guard
from trace_recorder.reading.own_files import load_own
from trace_recorder.recording.amend import append_end
from trace_recorder.recording.process import SESSION_VARIABLE
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.paths import DIRECTORY_VARIABLE, absolute_path, journal_path_for
from trace_recorder.values.final_status import status_from_exit_code
from trace_recorder.values.messages import without_none

SITE = Path(__file__).parent / "site"
FORWARDED_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
KEYBOARD_SIGNALS = ("SIGINT", "SIGQUIT")
"""The signals that a key such as Ctrl-C sends to all processes in the foreground of the terminal."""
_guard = Guard()


class CommandError(Exception):
    """A command cannot be started. `exit_code` is the exit code that a shell has in this case."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command, and facts about its recording.

    `code` is its exit code, or -n if signal n ended it. `documents` has the documents of its runs.
    `imported_http_library` is True if one of its processes imported an HTTP library that can be recorded. `unseen` has
    the connections to models by clients that are not recorded. `has_recorder` is True if a run began, or could not
    begin because its files could not be created.
    """

    code: int
    documents: list[Path]
    imported_http_library: bool
    disabled: bool
    unseen: list[str]
    has_recorder: bool


def run(
    command: Sequence[str], directory: Path, file: Path | None, task: str | None, session: str | None
) -> CommandResult:
    """Run a command to its end, and record its Python processes.

    If `task` is None, the command line is the task. If `session` is None, the session is that of the environment.
    Raises CommandError if the command cannot be started.
    """
    reports = tempfile.mkdtemp(prefix="trace-recorder-")
    document = str(absolute_path(file)) if file else None
    handoff = Handoff(str(absolute_path(directory)), reports, document, task or shlex.join(command))
    try:
        variables = handoff.to_environment() | without_none(**{SESSION_VARIABLE: session})
        return run_recorded(command, handoff, variables)
    finally:
        shutil.rmtree(reports, ignore_errors=True)


def run_recorded(command: Sequence[str], handoff: Handoff, variables: Mapping[str, str]) -> CommandResult:
    """Run a command to its end with these additional environment variables, which request recording.

    Recorders of the program's own write to the directory of the command, unless the program chose a directory. Record
    the exit code. Raises CommandError if the command cannot be started.
    """
    defaults = {"PYTHONPATH": python_path(), DIRECTORY_VARIABLE: handoff.directory}
    pid, code = run_process(command, {**os.environ, **defaults, **variables})
    with _guard.protect("record how the agent ended"):
        document = handoff.document_of(pid)
        # If recording is turned off, the document has no journal.
        if document is not None and journal_path_for(document).is_file():
            record_exit(document, code)
    runs = handoff.reported_runs()
    return CommandResult(
        code,
        [path for path in runs if path.is_file() or journal_path_for(path).is_file()],
        handoff.has_library(),
        is_disabled(os.environ),
        handoff.unseen(),
        bool(runs),
    )


def python_path() -> str:
    """Return PYTHONPATH with the directory of our `sitecustomize.py` in front."""
    return os.pathsep.join(filter(None, (str(SITE), os.environ.get("PYTHONPATH"))))


def run_process(
    command: Sequence[str],
    environment: Mapping[str, str],
    attend: Callable[[subprocess.Popen[bytes]], object] | None = None,
) -> tuple[int, int]:
    """Run a command to its end, and forward signals to it.

    Return its process id and its exit code. If `attend` is given, the command's standard input and output are pipes,
    and `attend` is called when the command runs. Raises CommandError if the command cannot be started.
    """
    pipe = None if attend is None else subprocess.PIPE
    with _forwarding_signals() as forwarder:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                command, bufsize=0, env=environment, stdin=pipe, stdout=pipe, close_fds=False
            )
        except ours(FileNotFoundError):
            raise CommandError(f"command not found: {command[0]}", 127) from None
        except ours(OSError) as error:
            raise CommandError(f"{command[0]} cannot be run: {error.strerror}", 126) from None
        forwarder.to(process)
        if attend is not None:
            attend(process)
        return process.pid, process.wait()


class _SignalForwarder:
    """A signal handler that forwards signals to a process.

    Signals that arrive before the process has started are forwarded when the process has started.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []

    def to(self, process: subprocess.Popen[bytes]) -> None:
        """Forward signals to this process from now on, and the signals that have arrived already."""
        self._process = process
        while self._waiting:
            process.send_signal(self._waiting.pop(0))

    def __call__(self, number: int, _: FrameType | None) -> None:
        if signal.Signals(number).name in KEYBOARD_SIGNALS and _is_in_foreground():
            return  # the terminal has sent this signal to the agent too
        if self._process is None:
            self._waiting.append(number)
        else:
            self._process.send_signal(number)


@contextmanager
def _forwarding_signals() -> Iterator[_SignalForwarder]:
    """Forward signals to the agent in the block.

    A signal that this process ignores stays ignored, here and in the agent.
    """
    numbers = [signal.Signals[name] for name in FORWARDED_SIGNALS if name in signal.Signals.__members__]
    handlers = {number: signal.getsignal(number) for number in numbers}
    forwarder = _SignalForwarder()
    try:
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, forwarder)
        yield forwarder
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    """Return whether our process group, which is also the agent's, is in the foreground of a terminal.

    Then a key such as Ctrl-C sends its signal to the whole group.
    """
    if os.name == "nt":  # on Windows, Ctrl-C reaches every process of the console
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except ours(OSError):
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except ours(OSError):
        return False
    finally:
        os.close(terminal)


def record_exit(document: Path, code: int) -> None:
    """Record the exit code of an agent in its run.

    The agent itself has recorded its exception, but cannot know its exit code.
    """
    status = load_own(document).status
    ended = status_from_exit_code(code)
    exit_code = code if code >= 0 else 128 - code
    recorded = "completed" if ended == "completed" else "failed"
    if status == recorded:
        append_end(document, exit_code)
    elif ended == "failed":
        append_end(document, exit_code, ended, {"type": "SystemExit", "message": str(code)})
    else:
        append_end(document, exit_code, ended)
