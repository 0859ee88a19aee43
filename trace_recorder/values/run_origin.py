"""Which other run a run repeats, as a replay, or continues, as a fork; and how the run itself states this."""

from __future__ import annotations

from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct, asdict

_REPLAY, _FORK = "replay_of", "forked_from"
"""The members of a run's metadata."""


class ReplayOf(Struct, frozen=True, gc=False):
    """The run that a replay repeats. `file` is the name of its journal."""

    trajectory_id: str | None = None
    file: str | None = None

    def in_start(self) -> dict[str, Payload]:
        """Return the members of the first record."""
        return without_none(replay_of=self.trajectory_id)

    def in_metadata(self) -> dict[str, Payload]:
        """Return the member of the metadata."""
        return {_REPLAY: without_none(**asdict(self))}

    def __str__(self) -> str:
        return f"replay of {name_of(self)}"


class ForkedFrom(Struct, frozen=True, gc=False):
    """The run that a fork continues, and its first call that is sent live."""

    trajectory_id: str | None = None
    file: str | None = None
    interaction_id: str | None = None
    step_number: int | None = None

    def in_start(self) -> dict[str, Payload]:
        """Return the members of the first record."""
        return {"forked_at": {"interaction_id": self.interaction_id, "step_number": self.step_number}}

    def in_metadata(self) -> dict[str, Payload]:
        """Return the member of the metadata."""
        return {_FORK: asdict(self)}

    def __str__(self) -> str:
        step = "" if self.step_number is None else f" (step {self.step_number})"
        return f"fork of {name_of(self)}" + (f" at {self.interaction_id}{step}" if self.interaction_id else "")


RunOrigin = ReplayOf | ForkedFrom


def name_of(origin: RunOrigin) -> str:
    """Return the file of the other run, or else its id."""
    return origin.file or origin.trajectory_id or "another run"


def run_origin_of(metadata: Payload) -> RunOrigin | None:
    """Read the origin in a run's metadata. Return None for a run that is neither a replay nor a fork."""
    known = metadata if isinstance(metadata, dict) else {}
    fork, replay = known.get(_FORK), known.get(_REPLAY)
    if isinstance(fork, dict):
        step = fork.get("step_number")
        texts = _texts(fork, "trajectory_id", "file", "interaction_id")
        return ForkedFrom(**texts, step_number=step if isinstance(step, int) else None)
    return ReplayOf(**_texts(replay, "trajectory_id", "file")) if isinstance(replay, dict) else None


def _texts(members: dict[str, Payload], *names: str) -> dict[str, str]:
    return {name: one for name in names if isinstance(one := members.get(name), str)}
