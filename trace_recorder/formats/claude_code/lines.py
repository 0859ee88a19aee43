"""Reads the lines of a session in each of their forms, and joins the lines of an answer.

There are four forms: a session's own file, the export of the web page (`{"loglines": [...]}`), the messages that the
SDK exchanges with the program (`{"messages": [{"direction", "message"}]}`), and the same messages as lines
(`--output-format stream-json`).

An answer is several lines with the same `message.id`. Results of the answer's tools may be between these lines. A
block that is written again under another `uuid` is one block. Each line repeats the usage, but only the last line has
all counts. Lines of `stream-json` are written before an answer has
ended, so their `output_tokens` are only the count in the first event of the answer's stream.
`--include-partial-messages` adds the events of the stream, and the last event states the whole usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload

FORKED_FROM = "forkedFrom"
"""The member of a copied line with the id of the other session and the `uuid` of the line there."""
_SPEAKERS = {"user", "assistant"}
_OF_THE_SDK = "parent_tool_use_id"
"""A member that only the SDK's messages have."""
_PARTIAL = "output_tokens_at_start"
"""The member of a usage's `extra` with the output tokens of the answer's first event."""
_KINDS = {"system", "summary", "progress", "attachment", "queue-operation", "file-history-snapshot"}
_MESSAGE = Signs(values={"type": _SPEAKERS}, members=("message/content",))
_EXCHANGED = Signs(values={"direction": {"send", "recv"}})
_OTHER_LINES = (
    Signs(values={"type": _KINDS}, members=("parentUuid", "sessionId")),
    Signs(values={"type": _KINDS}, members=("leafUuid",)),
    Signs(values={"type": _KINDS}, members=("messageId", "snapshot")),
)


@dataclass(slots=True)
class SessionEntry:
    """One line, or all lines of an answer, with the `uuids` of these lines. `why` says why a line cannot be read."""

    number: int
    line: Members
    why: str | None = None
    uuids: list[str] = field(default_factory=list)
    last: Members = field(default_factory=dict)
    """The last line of an answer."""
    is_copy: bool = False
    """Whether the session was forked from another session, and the line is a copy of that session's line."""

    @property
    def kind(self) -> str:
        """The type of the line."""
        return as_text(self.line.get("type")) or ""

    @property
    def message(self) -> Members:
        """The message of the line."""
        return as_dict(self.line.get("message"))

    @property
    def is_message(self) -> bool:
        """Whether the model sees the line: a message with content, or a prompt that was typed in advance."""
        if self.kind == "attachment":
            return as_dict(self.line.get("attachment")).get("type") == "queued_command"
        return self.kind in _SPEAKERS and isinstance(self.message.get("content"), str | list)


def is_session(source: Source) -> bool:
    """Return whether a file has lines of a session, in any of the forms."""
    lines = [line.value for line in source.first_lines]
    if any(_is_message(line) or any(signs.match(line) for signs in _OTHER_LINES) for line in lines):
        return True
    if len(lines) > 1 or not source.may_be_object:
        return False
    document = as_dict(source.document)
    if loglines := as_list(document.get("loglines")):
        return any(map(_is_message, loglines))
    exchanged = [message for message in as_list(document.get("messages")) if _EXCHANGED.match(message)]
    return any(_is_message(message.get("message")) for message in exchanged)


def _is_message(line: Payload) -> bool:
    return _MESSAGE.match(line) and "parts" not in line["message"]


def entries(source: Source) -> list[SessionEntry]:
    """Return the lines of a file in their order.

    The lines of an answer are one entry, at the position of the first line.
    """
    return _joined(_lines(source))


def _lines(source: Source) -> Iterable[Line]:
    if len(source.first_lines) < 2 and isinstance(source.document, dict):
        listed = as_list(source.document.get("loglines"))
        listed = listed or [as_dict(message).get("message") for message in as_list(source.document.get("messages"))]
        if listed:
            return [Line(number, value) for number, value in enumerate(listed, start=1)]
    return source.lines()


def _joined(lines: Iterable[Line]) -> list[SessionEntry]:
    entries: list[SessionEntry] = []
    answers: dict[tuple[str, str], _AnswerLines] = {}
    streamed: dict[str, str | None] = {}
    seen: set[str] = set()
    copied: set[str | None] = set()
    for entry in _entries(lines):
        uuid = as_text(entry.line.get("uuid"))
        if isinstance(entry.line.get(FORKED_FROM), dict):
            entry.is_copy = True
            copied.add(uuid)
        if uuid is not None and uuid in seen:
            entry.line = {"type": "repeated line", "line": entry.line}
        elif uuid is not None:
            seen.add(uuid)
            entry.uuids.append(uuid)
        identity = as_text(entry.message.get("id"))
        agent = as_text(entry.line.get("agentId")) or str(entry.line.get("parent_tool_use_id"))
        if entry.kind == "stream_event":
            _read_event(as_dict(entry.line.get("event")), agent, streamed, answers)
        if entry.kind != "assistant" or identity is None:
            entries.append(entry)
            continue
        key = agent, identity
        if key in answers:
            answers[key].add(entry)
        else:
            answers[key] = _AnswerLines(entry)
            entries.append(entry)
    for answer in answers.values():
        answer.close()
    for entry in entries:  # some versions write a copy twice, but mark only one of the two lines
        entry.is_copy = entry.is_copy or not copied.isdisjoint(entry.uuids)
    return entries


def _read_event(
    event: Members, agent: str, streamed: dict[str, str | None], answers: dict[tuple[str, str], _AnswerLines]
) -> None:
    """Set the usage of an answer from the last event of the answer's stream.

    `streamed` has the id of each agent's open answer.
    """
    if event.get("type") == "message_start":
        streamed[agent] = as_text(as_dict(event.get("message")).get("id"))
    elif event.get("type") == "message_delta" and (answer := answers.get((agent, streamed.get(agent) or ""))):
        answer.end(event)


def _entries(lines: Iterable[Line]) -> Iterator[SessionEntry]:
    for line in lines:
        if line.why is None and isinstance(line.value, dict):
            yield SessionEntry(line.number, line.value)
        else:
            yield SessionEntry(line.number, {"value": line.value}, line.why or "it is not an object")


class _AnswerLines:
    """The lines of one answer of the model."""

    def __init__(self, first: SessionEntry) -> None:
        self._first = first
        first.last = first.line
        self._members = dict(first.message)
        self._blocks = [*_blocks(first)]
        self._digests = {*map(json_digest, self._blocks)}
        self._newest = as_text(first.line.get("uuid"))
        self._is_streamed = _OF_THE_SDK in first.line

    def add(self, part: SessionEntry) -> None:
        """Add a line of the answer.

        The line's blocks continue the answer, and its other members replace the same members of earlier lines. If the
        line does not follow the answer's newest line, it may have blocks of the answer again. They are left out.
        """
        self._members.update({name: value for name, value in part.message.items() if value is not None})
        blocks = _blocks(part)
        if as_text(part.line.get("parentUuid")) != self._newest:
            blocks = [block for block in blocks if json_digest(block) not in self._digests]
        if blocks:
            self._newest = as_text(part.line.get("uuid"))
        self._digests.update(map(json_digest, blocks))
        self._blocks += blocks
        self._first.uuids += part.uuids
        self._first.last = part.line

    def end(self, event: Members) -> None:
        """Set the finish reason and the whole usage from the last event of the answer's stream."""
        usage = as_dict(self._members.get("usage")) | as_dict(event.get("usage"))
        self._members |= as_dict(event.get("delta")) | {"usage": usage}

    def close(self) -> None:
        """Make the first line the whole answer.

        If the output tokens were counted before the answer ended, their count gets the name `_PARTIAL`.
        """
        usage = self._members.get("usage")
        if self._is_streamed and self._members.get("stop_reason") is None and isinstance(usage, dict):
            names = {"output_tokens": _PARTIAL}
            self._members["usage"] = {names.get(name, name): value for name, value in usage.items()}
        self._first.line = {**self._first.line, "message": {**self._members, "content": self._blocks}}


def _blocks(entry: SessionEntry) -> list[Payload]:
    content = entry.message.get("content")
    if isinstance(content, list):
        return content
    if content is None:
        return []
    return [{"type": "text", "text": content}]
