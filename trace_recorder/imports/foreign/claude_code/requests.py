"""The exact requests of a session, whose parts are on file once.

A line `api-request-shape` has the system blocks and the tools under a hash, `api-request-blob` a message as it was
sent. `api-request` has the rest of a request: its time, its parameters, and its messages, which are the first `keep` of
an earlier request (`base`) and the blobs that `tail` names. An answer names its request (`requestRef`). The files of
sub-agents share blobs with that of the session. The places of cache marks (`cacheControl`) stay in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Call, Conversation, Members
from trace_recorder.values.messages import Payload

SHAPE, BLOB, REQUEST = "api-request-shape", "api-request-blob", "api-request"
MAX_COPIED = 5_000_000
"""How many messages may be copied for requests that do not simply continue an earlier one."""


@dataclass(slots=True)
class _Wire:
    """Messages as they were sent, one after another, behind system blocks.

    `begin` is the length of the conversation before them, and `ends` has its length after each of them.
    """

    shape: str | None
    conversation: Conversation = field(default_factory=Conversation)
    ends: list[int] = field(default_factory=list)
    begin: int = 0

    def add(self, messages: Iterable[Members]) -> None:
        """Add one message of the wire, which may be several of ours."""
        for message in messages:
            self.conversation.add(message)
        self.ends.append(len(self.conversation))


@dataclass(slots=True)
class Requests:
    """The requests of one session, by their ids."""

    max_copied: int = MAX_COPIED
    _shapes: dict[str, Members] = field(default_factory=dict)
    _blobs: dict[str, list[Members]] = field(default_factory=dict)
    _lines: dict[str, Members] = field(default_factory=dict)
    _wires: dict[str, tuple[_Wire, int] | None] = field(default_factory=dict)
    _copied: int = 0

    def note(self, line: Members) -> None:
        """Remember a line that describes requests. If several lines have one id or hash, the first counts."""
        kind, hashed = line.get("type"), as_text(line.get("hash")) or ""
        if kind == SHAPE:
            self._shapes.setdefault(as_text(line.get("shapeHash")) or "", as_dict(line.get("shape")))
        elif kind == BLOB and hashed not in self._blobs:
            messages = anthropic_messages.read_message(as_dict(line.get("message")))
            self._blobs[hashed] = [message.to_document() for message in messages]
        elif kind == REQUEST and (identity := as_text(line.get("id"))):
            self._lines.setdefault(identity, line)

    def describe(self, call: Call, identity: str) -> str | None:
        """Make a call the one that was requested with this id. Return why its messages are not known."""
        line = self._lines.get(identity)
        if line is None:
            return "the request is not in the session"
        shape = as_dict(self._shapes.get(as_text(line.get("shapeHash")) or ""))
        parameters = as_dict(line.get("params"))
        call.time = stated_time(line.get("timestamp")) or call.time
        call.model = as_text(parameters.get("model")) or call.model
        call.tools = as_list(shape.get("tools"))
        rest = {name: value for name, value in shape.items() if name not in {"system", "tools"}}
        call.parameters = rest | {name: value for name, value in parameters.items() if name != "model"}
        messages = self._messages_of(identity)
        if messages is None:
            return "not all of its messages are in the session"
        wire, count = messages
        call.conversation, call.length = wire.conversation, wire.ends[count - 1] if count else wire.begin
        return None

    def _messages_of(self, identity: str) -> tuple[_Wire, int] | None:
        """Return the messages of a request, and how many of them are its own. None if some are not known."""
        chain: list[str] = []
        request_id: str | None = identity
        while request_id in self._lines and request_id not in self._wires:
            self._wires[request_id] = None  # a request that refers to itself has no beginning
            chain.append(request_id)
            request_id = as_text(self._lines[request_id].get("base"))
        for name in reversed(chain):
            line = self._lines[name]
            self._wires[name] = self._continued(line, self._wires.get(as_text(line.get("base")) or ""))
        return self._wires.get(identity)

    def _continued(self, line: Members, base: tuple[_Wire, int] | None) -> tuple[_Wire, int] | None:
        keep, tail = as_int(line.get("keep")) or 0, [as_text(blob) or "" for blob in as_list(line.get("tail"))]
        shape = as_text(line.get("shapeHash"))
        if shape not in self._shapes or not all(blob in self._blobs for blob in tail):
            return None
        if keep <= 0:
            wire = self._begun(shape)
        elif base is None or keep > base[1]:
            return None
        elif base[0].shape == shape and keep == len(base[0].ends):
            wire = base[0]
        else:
            self._copied += keep
            if self._copied > self.max_copied:
                return None
            wire = self._copy(base[0], keep, shape)
        for blob in tail:
            wire.add(self._blobs[blob])
        return wire, len(wire.ends)

    def _begun(self, shape: str | None) -> _Wire:
        """Return messages that begin with the system blocks of a shape."""
        wire = _Wire(shape)
        system: Payload = self._shapes[shape or ""].get("system")
        for message in anthropic_messages.read_request({"system": system}).messages:
            wire.conversation.add(message.to_document())
        wire.begin = len(wire.conversation)
        return wire

    def _copy(self, base: _Wire, keep: int, shape: str | None) -> _Wire:
        """Return the first messages of a request, behind the system blocks of a shape."""
        if base.shape == shape:
            return _Wire(shape, base.conversation.fork(base.ends[keep - 1]), base.ends[:keep], base.begin)
        wire, messages, first = self._begun(shape), base.conversation.messages(), base.begin
        for end in base.ends[:keep]:
            wire.add(messages[first:end])
            first = end
        return wire
