"""Makes up ids for tool calls without an id. Gemini and Ollama may omit the id, and some other servers send null.

Made-up ids are call_0, call_1 …, counted over the calls without an id in the order of the conversation. So a call has
the same id in every longer request that repeats it. An id of the provider is never changed. A result without an id is
matched with an open call by name and order. The dialects read the wire form of calls and results.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from trace_recorder.values.messages import Message, ToolCall
from trace_recorder.values.structs import replace

_call_id_of, _is_made_up = attrgetter("call_id"), attrgetter("call_id_made_up")


def number_calls(calls: Iterable[ToolCall], made_up_ids: int = 0) -> tuple[ToolCall, ...]:
    """Make up the missing ids of calls. The first made-up id has the number `made_up_ids`."""
    calls = tuple(calls)
    if all(map(_call_id_of, calls)):
        return calls
    numbered: list[ToolCall] = []
    for call in calls:
        if call.call_id:
            numbered.append(call)
            continue
        numbered.append(replace(call, call_id=f"call_{made_up_ids}", call_id_made_up=True))
        made_up_ids += 1
    return tuple(numbered)


def count_made_up(calls: Iterable[ToolCall]) -> int:
    """Count the calls with a made-up id."""
    return sum(map(_is_made_up, calls))


def number_messages(messages: Iterable[Message]) -> list[Message]:
    """Make up the missing ids in a whole conversation, and match results without an id to their calls."""
    numbering = CallNumbering()
    return [numbering.number(message) for message in messages]


class CallNumbering:
    """Makes up the missing ids of a conversation, message by message.

    A result without an id answers the first open call of the same name in the latest turn. If the result has no name
    either, it answers the first open call. If there is no such call, the result gets no id. Adjacent messages with
    calls are one turn. `made_up` is how many calls got a made-up id. `has_added_ids` is True if any call or result got
    an id.
    """

    def __init__(self) -> None:
        self.made_up = 0
        self.has_added_ids = False
        self._open_turns: list[list[ToolCall]] = []
        self._is_asking = False

    @property
    def has_open_calls(self) -> bool:
        """Whether some call has no result yet, so that a result without an id may answer it."""
        return any(self._open_turns)

    def number(self, message: Message) -> Message:
        """Return the next message, with all ids. A message without calls ends the turn."""
        if not message.tool_calls and message.role != "tool":
            self._is_asking = False
            return message
        calls = number_calls(message.tool_calls, self.made_up)
        self.made_up += count_made_up(calls)
        call_id = message.call_id
        if message.role == "tool":
            call_id = self._close(message.call_id, message.name)
        if calls and not self._is_asking:
            self._open_turns.append([])
        if calls:
            self._open_turns[-1].extend(calls)
        self._is_asking = bool(calls)
        if calls == message.tool_calls and call_id == message.call_id:
            return message
        self.has_added_ids = True
        return replace(message, tool_calls=calls, call_id=call_id)

    def _close(self, call_id: str | None, name: str | None) -> str | None:
        """Close the call that a result answers, and return its id.

        If there is no such call, return the result's own id.
        """
        for turn in reversed(self._open_turns):
            for position, call in enumerate(turn):
                if call_id:
                    is_answered = call.call_id == call_id
                else:
                    is_answered = not name or call.name == name
                if is_answered:
                    return turn.pop(position).call_id
        return call_id
