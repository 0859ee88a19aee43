"""Rebuilds the exact requests of a session.

A line `api-request-shape` has the system blocks and the tools of requests, under a hash. A line `api-request-blob` has
one message as it was sent. A line `api-request` has the rest of a request: its time, its parameters, and its messages.
The messages are the first `keep` messages of an earlier request (`base`) and the blobs that `tail` names. An answer
names its request (`requestRef`). The files of sub-agents share blobs with the file of the session. The positions of
cache marks (`cacheControl`) are kept in the journal only.

Newer versions write no blob for a message that is a line of the session: an answer, or the results of its tools. The
hash in `tail` is the SHA-256 of the message as compact JSON with sorted keys. So the hash shows which lines were sent.
If no line has the hash, the message is taken from the lines between the request and the request before it, and the run
gets a gap: the line is not exactly what was sent.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.formats.claude_code.lines import SessionEntry
from trace_recorder.formats.foreign_runs.run import Call, ForeignConversation, Members
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.values.messages import Payload

SHAPE, BLOB, REQUEST = "api-request-shape", "api-request-blob", "api-request"
MAX_COPIED = 5_000_000
"""A request that keeps only a part of an earlier request copies this part.

At most this many messages are copied. After that, the messages of a request that needs a copy are unknown.
"""


@dataclass(slots=True)
class _RequestMessages:
    """A conversation with the system blocks and then the messages of a request.

    `begin` is the length of the conversation after the system blocks. `ends` has the length after each message of the
    request.
    """

    shape: str | None
    conversation: ForeignConversation = field(default_factory=ForeignConversation)
    ends: list[int] = field(default_factory=list)
    begin: int = 0

    def add(self, messages: Iterable[Members]) -> None:
        """Add one message of the request. The dialect may have read it as several messages."""
        for message in messages:
            self.conversation.add(message)
        self.ends.append(len(self.conversation))


@dataclass(slots=True)
class _LineMessage:
    """A message that was made of lines: an answer, or consecutive messages of the user."""

    role: str
    contents: list[Payload]

    def merged(self) -> Members:
        """Return the lines as one message."""
        blocks: list[Payload] = []
        for content in self.contents:
            blocks += content if isinstance(content, list) else [{"type": "text", "text": content}]
        return {"role": self.role, "content": blocks}

    def forms(self) -> Iterator[Members]:
        """Yield the messages that may have been sent: all lines as one message, or one of the lines."""
        yield self.merged()
        for content in self.contents:
            yield {"role": self.role, "content": content}


def _requests_with_messages(entries: Iterable[SessionEntry]) -> Iterator[tuple[Members, list[_LineMessage]]]:
    """Yield each request of a file with the messages between it and the request before it."""
    messages: list[_LineMessage] = []
    for entry in entries:
        if entry.kind == REQUEST:
            yield entry.line, messages
            messages = []
        elif entry.kind in {"user", "assistant"} and entry.is_message:
            content = entry.message["content"]
            if entry.kind == "user" and messages and messages[-1].role == "user":
                messages[-1].contents.append(content)
            else:
                messages.append(_LineMessage(entry.kind, [content]))


def _hash_of(message: Members) -> str:
    """Return the hash under which a request names a message."""
    text = json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _tail(request: Members) -> list[str]:
    return [as_text(blob) or "" for blob in as_list(request.get("tail"))]


@dataclass(slots=True)
class SessionRequests:
    """The requests of one session, by their ids."""

    max_copied: int = MAX_COPIED
    _shapes: dict[str, Members] = field(default_factory=dict)
    _blobs: dict[str, list[Members]] = field(default_factory=dict)
    _lines: dict[str, Members] = field(default_factory=dict)
    _requests: dict[str, tuple[_RequestMessages, int] | None] = field(default_factory=dict)
    _unproven: Counter[str] = field(default_factory=Counter)
    """How many messages of a request are lines with other hashes, by the id of the request."""
    _copied: int = 0

    def note(self, line: Members) -> None:
        """Remember a line that describes requests. If several lines have the same id or hash, the first line counts."""
        kind, hashed = line.get("type"), as_text(line.get("hash")) or ""
        if kind == SHAPE:
            self._shapes.setdefault(as_text(line.get("shapeHash")) or "", as_dict(line.get("shape")))
        elif kind == BLOB:
            self._note_blob(hashed, as_dict(line.get("message")))
        elif kind == REQUEST and (identity := as_text(line.get("id"))):
            self._lines.setdefault(identity, line)

    def note_messages(self, entries: Iterable[SessionEntry]) -> None:
        """Find the messages of a file's requests that have no blob among the lines of the file.

        All requests and blobs of the session must have been noted.
        """
        requests = [*_requests_with_messages(entries)]
        wanted = {blob for request, _ in requests for blob in self._missing(request)}
        if not wanted:
            return
        for form in chain.from_iterable(message.forms() for _, messages in requests for message in messages):
            if (hashed := _hash_of(form)) in wanted:
                self._note_blob(hashed, form)
        for request, messages in requests:
            missing = self._missing(request)
            unused = [message for message in messages if not any(_hash_of(form) in wanted for form in message.forms())]
            if missing and len(missing) == len(unused):
                self._unproven[as_text(request.get("id")) or ""] = len(missing)
                for blob, message in zip(missing, unused, strict=True):
                    self._note_blob(blob, message.merged())

    def _missing(self, request: Members) -> list[str]:
        """Return the hashes of a request's messages that are not known."""
        return [blob for blob in _tail(request) if blob not in self._blobs]

    def _note_blob(self, hashed: str, message: Members) -> None:
        if hashed not in self._blobs:
            self._blobs[hashed] = [read.to_document() for read in anthropic_messages.read_message(message)]

    def add_details(self, call: Call, identity: str) -> str | None:
        """Give a call the details of the request with this id.

        Return the reason if the request's messages are unknown.
        """
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
            return "its messages are not all in the session, or are too many to copy"
        request, count = messages
        call.conversation, call.length = request.conversation, request.begin
        if count:
            call.length = request.ends[count - 1]
        if unproven := self._unproven[identity]:
            return f"{unproven} of them are lines of the session with other hashes"
        return None

    def _messages_of(self, identity: str) -> tuple[_RequestMessages, int] | None:
        """Return an object with the messages of a request, and their number.

        Later requests may add messages to the object. Return None if some messages are unknown.
        """
        chain: list[str] = []
        request_id: str | None = identity
        while request_id in self._lines and request_id not in self._requests:
            self._requests[request_id] = None  # stays None if the request refers to itself
            chain.append(request_id)
            request_id = as_text(self._lines[request_id].get("base"))
        for name in reversed(chain):
            line = self._lines[name]
            self._requests[name] = self._request_of(line, self._requests.get(as_text(line.get("base")) or ""))
        return self._requests.get(identity)

    def _request_of(
        self, line: Members, base: tuple[_RequestMessages, int] | None
    ) -> tuple[_RequestMessages, int] | None:
        keep, tail = as_int(line.get("keep")) or 0, _tail(line)
        shape = as_text(line.get("shapeHash"))
        if shape not in self._shapes or not all(blob in self._blobs for blob in tail):
            return None
        if keep <= 0:
            request = self._without_messages(shape)
        elif base is None or keep > base[1]:
            return None
        elif base[0].shape == shape and keep == len(base[0].ends):
            request = base[0]
        else:
            self._copied += keep
            if self._copied > self.max_copied:
                return None
            request = self._copy(base[0], keep, shape)
        for blob in tail:
            request.add(self._blobs[blob])
        return request, len(request.ends)

    def _without_messages(self, shape: str | None) -> _RequestMessages:
        """Return a request that has only the system blocks of a shape, as messages."""
        request = _RequestMessages(shape)
        system: Payload = self._shapes[shape or ""].get("system")
        for message in anthropic_messages.read_request({"system": system}).messages:
            request.conversation.add(message.to_document())
        request.begin = len(request.conversation)
        return request

    def _copy(self, base: _RequestMessages, keep: int, shape: str | None) -> _RequestMessages:
        """Return a copy of the first `keep` messages of a request, after the system blocks of a shape."""
        if base.shape == shape:
            return _RequestMessages(shape, base.conversation.branch(base.ends[keep - 1]), base.ends[:keep], base.begin)
        request, messages, first = self._without_messages(shape), base.conversation.messages(), base.begin
        for end in base.ends[:keep]:
            request.add(messages[first:end])
            first = end
        return request
