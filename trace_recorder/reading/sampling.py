"""Finds the calls of models that MCP servers asked for, where only the messages and the calls are known.

A server asks the client to call a model (`sampling/createMessage`). The recorder in the client's process states the
tool in which it does so. A tap and the proxy see two messages and a call, and nothing joins them. So a call is inside
the tool only if there is one answer: the server asked while it had one open call of a tool, and between its request and
the client's answer one call of the run's main agent began and ended with exactly the text of that answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trace_recorder.facts import MCPMessageFact
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.mcp_calls import ServerConnection, result_texts
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload
from trace_recorder.values.structs import replace

_METHOD = "sampling/createMessage"


@dataclass(slots=True)
class _Request:
    """A request of a server without an answer: where the tool runs, and the calls that ended since, with their texts."""

    execution_id: str
    seq: int
    calls: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class SampledCalls:
    """Call the methods in the order of the records. `inside` has the executions of the calls that were found."""

    inside: dict[str, str] = field(default_factory=dict)
    _requests: dict[tuple[str, str], _Request] = field(default_factory=dict)

    def read_message(self, record: Record, fact: MCPMessageFact, connection: ServerConnection) -> str | None:
        """Read a message. Return the id of a call that the message shows to be inside a tool, or None."""
        message = fact.message
        if not isinstance(message, Mapping) or "id" not in message:
            return None
        key = fact.connection_id, repr(message["id"])
        if fact.direction == "received" and message.get("method") == _METHOD:
            if len(connection.open) == 1:
                [call] = connection.open.values()
                execution = call.made_in if call.is_inside else call.execution_id
                self._requests[key] = _Request(str(execution), record.seq)
        elif fact.direction == "sent" and key in self._requests:
            request, said = self._requests.pop(key), _text_of(message.get("result"))
            same = [identity for identity, text in request.calls if text == said and identity not in self.inside]
            if len(same) == 1:
                self.inside[same[0]] = request.execution_id
                return same[0]
        return None

    def read_response(self, call: CallFacts, response: LLMResponse) -> None:
        """Read the response of a call."""
        sent = call.sent
        if not self._requests or sent is None or sent.agent_id is not None or not isinstance(response.content, str):
            return
        for request in self._requests.values():
            if call.first_seq > request.seq:
                request.calls.append((call.interaction_id, response.content))

    def placed(self, interaction: LLMInteraction) -> LLMInteraction:
        """Return an interaction inside the tool in which it was found, if any."""
        execution_id = self.inside.get(interaction.interaction_id)
        if execution_id is None:
            return interaction
        return replace(interaction, parent_execution_id=execution_id)

    def end_connection(self, connection_id: str) -> None:
        """Forget the requests of a connection that has ended."""
        for key in [key for key in self._requests if key[0] == connection_id]:
            del self._requests[key]


def _text_of(result: Payload) -> str | None:
    if not isinstance(result, Mapping):
        return None
    return "".join(result_texts(result.get("content"))) or None
