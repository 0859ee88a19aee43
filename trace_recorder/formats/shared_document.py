"""The document of a run with shared messages: a message that many calls repeat is one object in all of them.

In a file, every call has a copy of its history. In memory, all calls share the objects of their messages. So do not
change the objects in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MadeOnce
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.trajectory import Trajectory

WriteMessage = Callable[[Message], list[Payload]]
"""Converts a message to one or several JSON objects."""


class SharedMessages:
    """Converts the messages of calls to JSON objects. Each distinct message is converted once."""

    def __init__(self, write: WriteMessage = lambda message: [message.to_document()]) -> None:
        self._written = MadeOnce.by(write)

    def of(self, call: LLMInteraction) -> list[Payload]:
        """Return the messages of a call as JSON objects. A message of several calls is the same object in all lists."""
        return [each for written in self._written.of(call.input_messages) for each in written]


def interaction_documents(trajectory: Trajectory, messages: SharedMessages) -> Iterator[dict[str, Payload]]:
    """Yield each interaction as an object of the document.

    `messages` converts the messages, so that interactions with equal messages share the objects.
    """
    for call in trajectory.llm_interactions:
        if call.source.has_request():
            yield call.to_document({"input_messages": messages.of(call)})
        else:
            yield call.to_document({})


def shared_document(trajectory: Trajectory) -> dict[str, Payload]:
    """Return the document of a run, with complete lists of messages. Equal messages are one object in all lists."""
    return {
        **trajectory.head(),
        "llm_interactions": [*interaction_documents(trajectory, SharedMessages())],
        "agent_steps": [step.to_document() for step in trajectory.agent_steps],
        **trajectory.tail("inline"),
    }
