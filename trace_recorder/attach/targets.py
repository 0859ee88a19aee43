"""To which run a captured call goes: to that of one recorder. `current.py` and `instrument.py` have the other rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trace_recorder.attach.lifecycle import Lifecycle
from trace_recorder.recording.run import Run


class WithLifecycle(Protocol):
    """A recorder, as far as its calls need it."""

    _lifecycle: Lifecycle


@dataclass(frozen=True, slots=True)
class RecorderTarget:
    """Gives captured calls to one recorder, and keeps it for as long as its client; equal where the recorder is."""

    recorder: WithLifecycle

    def open_run(self) -> Run | None:
        """Return the recorder's run; None, with one warning, if it has ended."""
        return self.recorder._lifecycle.open_run("a wrapped client")

    def run_of_tool(self) -> Run | None:
        """Return the same for the call of a tool."""
        return self.recorder._lifecycle.open_run("a tool")

    def run_in_progress(self) -> Run | None:
        """Return the recorder's run if it is open; none is begun."""
        return self.recorder._lifecycle.run_in_progress()

    def is_running(self) -> bool:
        """Whether its run is open."""
        return self.recorder._lifecycle.is_running()
