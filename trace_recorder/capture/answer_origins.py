"""How a replay tells the recording of a websocket, in the same process, which recorded answer it gives."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from weakref import WeakValueDictionary

from trace_recorder.values.origins import ReplayedFrom

ORIGIN_HEADER = "trace-recorder-answers"


class AnswerOrigins:
    """The origin of the newest answer that a replay in this process gives over a websocket.

    The replay's server states `key` in the header `ORIGIN_HEADER` of its handshake. Nobody else can know it.
    """

    def __init__(self) -> None:
        self.key = token_hex(16)
        self.newest: ReplayedFrom | None = None
        _origins[self.key] = self

    @classmethod
    def stated_in(cls, headers: Sequence[tuple[bytes, bytes]]) -> AnswerOrigins | None:
        """Return the object that the headers of a handshake name, or None if no replay in this process answers."""
        keys = [value.decode("latin-1") for name, value in headers if name.lower() == ORIGIN_HEADER.encode()]
        return _origins.get("".join(keys))


_origins: WeakValueDictionary[str, AnswerOrigins] = WeakValueDictionary()
