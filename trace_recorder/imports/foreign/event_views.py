"""The messages that a model sees of an event log, from which a condenser removes events, or puts a summary for them."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from trace_recorder.imports.foreign.run import Conversation, Members


@dataclass(slots=True)
class EventView:
    """The messages of a conversation, each with the id of its event."""

    conversation: Conversation = field(default_factory=Conversation)
    _messages: list[tuple[object, Members]] = field(default_factory=list)

    def add(self, event_id: object, message: Members) -> None:
        """Add the message of an event."""
        self._messages.append((event_id, message))
        self.conversation.add(message)

    def condense(self, forgotten: Container[object], summary: Members | None, offset: int | None) -> None:
        """Remove events, and insert a summary at a position. The conversation goes on as a fork."""
        remaining = [(event_id, message) for event_id, message in self._messages if event_id not in forgotten]
        if summary is not None and offset is not None:
            remaining.insert(offset, (None, summary))
        pairs = zip(self._messages, remaining, strict=False)
        shorter = min(len(self._messages), len(remaining))
        shared = next((at for at, (one, other) in enumerate(pairs) if one is not other), shorter)
        self.conversation, self._messages = self.conversation.fork(shared), remaining[:shared]
        for event_id, message in remaining[shared:]:
            self.add(event_id, message)
