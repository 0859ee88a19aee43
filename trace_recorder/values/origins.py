"""The origins of answers and runs: the recorded call that gave an answer, and the run that a run replays or forks.

`trace-recorder serve` states the origin of each answer in a header of the response. A replay and a fork state the
origin in an extension of httpx's response or in an attribute of another library's response, so that the caller sees
only the recorded headers. If the recorded call failed or is incomplete, the replay raises an exception, and the origin
is an attribute of this exception. The recorder writes the origin into the records of the answer. A run has its own
origin in its first record and in its metadata.
"""

from __future__ import annotations

import json
from typing import Self
from urllib.parse import urlsplit

from trace_recorder.loopback import LOOPBACK_NAMES
from trace_recorder.values.document_members import render
from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct, asdict

REPLAYED_FROM_HEADER = "trace-recorder-replayed-from"
"""The header of a replayed response. Its value is the JSON of `ReplayedFrom.to_document`."""
PARENT_CONTEXT = "traceparent"
"""The annotation that has the `traceparent` (W3C) of the application's span. The run began in that span."""
_ATTRIBUTE = "trace_recorder_replayed_from"


class ReplayedFrom(Struct, frozen=True, gc=False):
    """The recorded call that gave a call its answer.

    If `by_hand` is True, a person wrote the answer in place of the recorded answer.
    """

    trajectory_id: str | None = None
    interaction_id: str | None = None
    by_hand: bool = False

    @classmethod
    def of_document(cls, value: Payload) -> Self | None:
        """Read the member `replayed_from` of a record or a document.

        Return None if the call was sent to the provider.
        """
        if not isinstance(value, dict):
            return None
        return cls(**_texts(value, "trajectory_id", "interaction_id"), by_hand=value.get("by_hand") is True)

    @classmethod
    def of_server(cls, url: str, text: str) -> Self | None:
        """Read the text of the header that a server at `url` sent. Return None if the text is not the expected JSON.

        Return None also if the server is not on this machine, so that a provider cannot make its answers look like
        recorded answers.
        """
        if not is_believed(url):
            return None
        try:
            return cls.of_document(parse(text))
        except NotJsonError:
            return None

    @classmethod
    def of_error(cls, error: BaseException) -> Self | None:
        """Return the origin that `mark` attached to an exception, or None if the call was sent to the provider."""
        origin = getattr(error, _ATTRIBUTE, None)
        if isinstance(origin, cls):
            return origin
        return None

    to_document = render

    def to_headers(self) -> dict[str, str]:
        """Return the headers of a response that states this origin."""
        return {REPLAYED_FROM_HEADER: json.dumps(self.to_document())}

    def mark(self, error: BaseException) -> None:
        """Attach the origin to the exception that a replay raises if the recorded call failed or is incomplete."""
        setattr(error, _ATTRIBUTE, self)


def is_believed(url: str) -> bool:
    """Return whether a server at a URL is on this machine.

    Only such a server may state that its answers are recorded.
    """
    return urlsplit(url).hostname in LOOPBACK_NAMES


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_REPLAY, _FORK = "replay_of", "forked_from"
"""The members of a run's metadata that have the origin of a replay and of a fork."""


class ReplayOf(Struct, frozen=True, gc=False):
    """The run that a replay repeats. `file` is the name of that run's journal."""

    trajectory_id: str | None = None
    file: str | None = None

    def in_start(self) -> dict[str, Payload]:
        """Return the members that a run's first record has because of this origin."""
        return without_none(replay_of=self.trajectory_id)

    def in_metadata(self) -> dict[str, Payload]:
        """Return the member that a run's metadata has because of this origin."""
        return {_REPLAY: without_none(**asdict(self))}

    def __str__(self) -> str:
        return f"replay of {name_of(self)}"


class ForkedFrom(Struct, frozen=True, gc=False):
    """The run that a fork continues, and the first call of that run that the fork sends to the provider."""

    trajectory_id: str | None = None
    file: str | None = None
    interaction_id: str | None = None
    step_number: int | None = None

    def in_start(self) -> dict[str, Payload]:
        """Return the members that a run's first record has because of this origin."""
        return {"forked_at": {"interaction_id": self.interaction_id, "step_number": self.step_number}}

    def in_metadata(self) -> dict[str, Payload]:
        """Return the member that a run's metadata has because of this origin."""
        return {_FORK: asdict(self)}

    def __str__(self) -> str:
        text = f"fork of {name_of(self)}"
        if self.interaction_id:
            text += f" at {self.interaction_id}"
            if self.step_number is not None:
                text += f" (step {self.step_number})"
        return text


RunOrigin = ReplayOf | ForkedFrom


def name_of(origin: RunOrigin) -> str:
    """Return the file name of the run that was replayed or forked, or else its id."""
    return origin.file or origin.trajectory_id or "another run"


def run_origin_of(metadata: Payload) -> RunOrigin | None:
    """Read the origin in a run's metadata. Return None for a run that is neither a replay nor a fork.

    An agent may use the same names for its own metadata. An object without any of our members is not an origin.
    """
    if not isinstance(metadata, dict):
        return None
    fork, replay = metadata.get(_FORK), metadata.get(_REPLAY)
    if isinstance(fork, dict) and not fork.keys().isdisjoint(ForkedFrom.__struct_fields__):
        step = fork.get("step_number")
        texts = _texts(fork, "trajectory_id", "file", "interaction_id")
        return ForkedFrom(**texts, step_number=step if isinstance(step, int) else None)
    if isinstance(replay, dict) and not replay.keys().isdisjoint(ReplayOf.__struct_fields__):
        return ReplayOf(**_texts(replay, "trajectory_id", "file"))
    return None


def _texts(members: dict[str, Payload], *names: str) -> dict[str, str]:
    return {name: text for name in names if isinstance(text := members.get(name), str)}
