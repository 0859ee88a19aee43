"""Records the calls of a block of code in a journal, or replays the block from the journal, depending on a mode.

The modes are the record modes of vcrpy. In each mode, the calls of the block are recorded in a scratch directory, so
that the run can be read while the block runs. The new journal replaces the old journal only if the block ended without
an exception. `pytest_trace_recorder` runs each test in such a block.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

from trace_recorder.attach.lifecycle import RecorderTarget, is_disabled
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.all_clients import TransportPatch
from trace_recorder.capture.method_seams import method_patch, recording
from trace_recorder.capture.seam import Binding
from trace_recorder.capture.transport import recording_class
from trace_recorder.errors import RecorderStateError, TrajectoryFormatError
from trace_recorder.rerun.replayer import Replay, Tools
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.storage.paths import journal_path_for

Mode = Literal["once", "none", "new_episodes", "all"]
MODES: tuple[Mode, ...] = get_args(Mode)


def is_only_replayed(journal: Path, mode: Mode) -> bool:
    """Return whether a block with this journal and mode sends no call, so that its clients need no real keys."""
    return mode == "none" or (mode == "once" and journal_path_for(journal).is_file())


class RecordOrReplay:
    """A block whose LLM calls and tools are recorded in `journal`, or are answered from it.

    `mode` "once" replays if the journal exists, and records otherwise. "none" only replays; "all" only records.
    "new_episodes" replays the calls that the journal has, and sends and records all other calls. The block affects all
    HTTP clients of the process. `scratch` is a directory for the files of this run. `path` is the journal of this run,
    which may be read at any time.

    A replay raises ReplayMismatchError as `Replay` does, except in the mode "new_episodes". Raises
    TrajectoryFormatError if the mode is "none" and there is no journal, and RecorderStateError if
    TRACE_RECORDER_DISABLED is set.
    """

    def __init__(  # noqa: PLR0913 - a name for each thing that a user may decide
        self,
        journal: Path,
        scratch: Path,
        *,
        mode: Mode = "once",
        ignore: Iterable[str] = (),
        tools: Tools = "recorded",
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        _check(mode, tools)
        self.journal = journal_path_for(journal)
        self.mode: Mode = mode
        self.path = scratch / self.journal.name
        self.is_kept = False
        """Whether the journal of this run has replaced the old journal."""
        self.replay = self._replay_for(ignore, tools)
        self._recorder = TrajectoryRecorder(self.path, metadata=metadata)
        self._binding = Binding(RecorderTarget(self._recorder), None)
        self._blocks = ExitStack()

    def _replay_for(self, ignore: Iterable[str], tools: Tools) -> Replay | None:
        if self.mode == "none" and not self.journal.is_file():
            raise TrajectoryFormatError(
                f"mode 'none' replays, and there is no journal {self.journal}. Record it with mode 'once' "
                "(pytest --trajectory-mode=once), and commit it with the test."
            )
        if self.mode == "all" or not self.journal.is_file():
            return None
        adds = self.mode == "new_episodes"
        return Replay(
            self.journal,
            ignore=ignore,
            tools=tools,
            instrument=True,
            strict=not adds,
            missing="live" if adds else "error",
        )

    def __enter__(self) -> Self:
        with ExitStack() as blocks:
            if self.replay is not None:
                blocks.enter_context(self.replay)
            blocks.enter_context(self._recorder)
            everywhere = TransportPatch(self._recording)
            blocks.callback(everywhere.remove)
            everywhere.install()
            blocks.callback(method_patch.add(recording(self._binding)))
            self._blocks = blocks.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._blocks.__exit__(kind, error, traceback)
        if error is None and (self.replay is None or self.replay.live_calls):
            self._keep()

    def _recording(self, transport: Any, library: str, *, asynchronous: bool) -> Any:
        """Return a recording transport around `transport`, which may be a replay, the network, or a recorder."""
        return recording_class(library, asynchronous=asynchronous)(transport, self._binding)

    def _keep(self) -> None:
        """Replace the old journal with the journal of this run, if this run has a call."""
        data = self.path.read_bytes()
        if b'"kind":"llm_request"' not in data and b'"kind":"tool_call"' not in data:
            return
        # made here, because git ignores a directory that a recorder makes
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.journal, [data])
        self.is_kept = True


def _check(mode: str, tools: str) -> None:
    for name, value, allowed in (("mode", mode, MODES), ("tools", tools, get_args(Tools))):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, and must be one of {', '.join(map(repr, allowed))}")
    if is_disabled(os.environ):
        raise RecorderStateError("TRACE_RECORDER_DISABLED is set, so nothing can be recorded: unset it.")
