"""Where the answer of a call came from, if the call was not made: another run's recorded call, or a person's answer.

A replay, a fork and `trace-recorder serve` state it with each answer: in a header of the response, or if no response
came, as an attribute of the exception. Recording writes it into the records of the answer.
"""

from __future__ import annotations

import json
from typing import Self

from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct

REPLAYED_FROM_HEADER = "trace-recorder-replayed-from"
"""The header of a response that was given; its value is the JSON of `ReplayedFrom.to_document`."""
_ATTRIBUTE = "trace_recorder_replayed_from"


class ReplayedFrom(Struct, frozen=True, gc=False):
    """The recorded call that gave a call its answer. `by_hand`: a person wrote the answer, in place of that call's."""

    trajectory_id: str | None = None
    interaction_id: str | None = None
    by_hand: bool = False

    @classmethod
    def of_document(cls, value: Payload) -> Self | None:
        """Read the member `replayed_from` of a record or a document. Return None if the call was made."""
        if not isinstance(value, dict):
            return None
        ids = {name: one for name in ("trajectory_id", "interaction_id") if isinstance(one := value.get(name), str)}
        return cls(**ids, by_hand=value.get("by_hand") is True)

    @classmethod
    def of_header(cls, text: str) -> Self | None:
        """Read the header. Return None for text that is not its JSON."""
        try:
            return cls.of_document(parse(text))
        except NotJsonError:
            return None

    @classmethod
    def of_error(cls, error: BaseException) -> Self | None:
        """Return the origin that an exception states; None if the call was made."""
        origin = getattr(error, _ATTRIBUTE, None)
        return origin if isinstance(origin, cls) else None

    def to_document(self) -> dict[str, Payload]:
        """Render for the document, and for records."""
        known = without_none(trajectory_id=self.trajectory_id, interaction_id=self.interaction_id)
        return known | ({"by_hand": True} if self.by_hand else {})

    def to_headers(self) -> dict[str, str]:
        """Render as headers of a response."""
        return {REPLAYED_FROM_HEADER: json.dumps(self.to_document())}

    def mark(self, error: BaseException) -> None:
        """State the origin on an exception that is raised because no response was recorded."""
        setattr(error, _ATTRIBUTE, self)
