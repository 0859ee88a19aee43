"""The document of a run with shared messages: a message that many calls repeat is one object in all of them.

Written out, such a document grows with calls x history; in memory it does not. Do not change its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.values.trajectory import Trajectory

WriteMessage = Callable[[Message], list[Payload]]
"""Writes a message as one or several objects."""


class SharedMessages:
    """Writes the messages of calls, each distinct one once."""

    def __init__(self, write: WriteMessage = lambda message: [message.to_document()]) -> None:
        self._write = write
        self._written: dict[int, tuple[Message, list[Payload]]] = {}
        self._last: tuple[SharedSequence[Message], SharedSequence[Payload]] = SharedSequence(), SharedSequence([])

    def of(self, one: LLMInteraction) -> SharedSequence[Payload]:
        """Return the messages of a call; those that it has in common with the call before it are not written again."""
        messages = SharedSequence.of(one.input_messages)
        earlier, written = self._last
        if messages.shared_length(earlier) == len(earlier):
            new = messages[len(earlier) :]
        else:
            new, written = messages, SharedSequence([])
        found = written.extended(each for message in new for each in self._of_message(message))
        self._last = messages, found
        return found

    def _of_message(self, message: Message) -> list[Payload]:
        if id(message) not in self._written:
            self._written[id(message)] = message, self._write(message)
        return self._written[id(message)][1]


def interaction_documents(trajectory: Trajectory, messages: SharedMessages) -> Iterator[dict[str, Payload]]:
    """Yield each interaction as the document has it, with these messages."""
    for one in trajectory.llm_interactions:
        known = one.source.has_request()
        yield one.to_document({"input_messages": [*messages.of(one)]} if known else {})


def shared_document(trajectory: Trajectory) -> dict[str, Payload]:
    """Return the document of a run, with complete lists of messages, whose elements are shared."""
    return {
        **trajectory.head(),
        "llm_interactions": [*interaction_documents(trajectory, SharedMessages())],
        "agent_steps": [step.to_document() for step in trajectory.agent_steps],
        **trajectory.tail("inline"),
    }
