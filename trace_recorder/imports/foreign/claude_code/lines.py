"""The lines of a session, from each of the forms in which they come, with the parts of an answer put together.

The forms: a session's own file, the export of the web page (`{"loglines": [...]}`), the messages that the SDK exchanges
with the program (`{"messages": [{"direction", "message"}]}`), and these as lines (`--output-format stream-json`).

An answer is written in several lines with the same `message.id`, between which results of its tools may stand. Its
usage is repeated in each of them; only that of the last one is complete. The lines of `stream-json` are written before
an answer has ended: their `output_tokens` are those of its first event. `--include-partial-messages` adds the events,
of which the last states the whole usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.messages import Payload

_SPEAKERS = {"user", "assistant"}
_OF_THE_SDK = "parent_tool_use_id"
"""A member that only the SDK's messages have."""
_PARTIAL = "output_tokens_at_start"
"""The name under which the output tokens of an answer's first event are kept."""
_KINDS = {"system", "summary", "progress", "attachment", "queue-operation", "file-history-snapshot"}


@dataclass(slots=True)
class Entry:
    """One line; of an answer, all its lines. `why` says why it cannot be read. `uuids` are those of its lines."""

    number: int
    line: Members
    why: str | None = None
    uuids: list[str] = field(default_factory=list)
    last: Members = field(default_factory=dict)
    """The last line of an answer."""

    @property
    def kind(self) -> str:
        """The type of the line."""
        return as_text(self.line.get("type")) or ""

    @property
    def message(self) -> Members:
        """The message in it."""
        return as_dict(self.line.get("message"))


def is_session(source: Source) -> bool:
    """Whether a file has lines of a session, in any of the forms."""
    lines = [line.value for line in source.first_lines]
    if any(map(_is_message, lines)):
        return True
    if any(as_text(as_dict(line).get("type")) in _KINDS and _says_session(as_dict(line)) for line in lines):
        return True
    document = source.document if source.head.lstrip()[:1] == b"{" and len(lines) < 2 else None
    listed = as_list(as_dict(document).get("loglines")) or [
        as_dict(one).get("message") for one in as_list(as_dict(document).get("messages")) if _is_exchanged(one)
    ]
    return any(map(_is_message, listed))


def _is_message(line: Payload) -> bool:
    members = as_dict(line)
    message = as_dict(members.get("message"))
    return as_text(members.get("type")) in _SPEAKERS and "content" in message and "parts" not in message


def _says_session(line: Members) -> bool:
    """Whether a line that is no message is one that only a session has."""
    return ("parentUuid" in line and "sessionId" in line) or "leafUuid" in line or {"messageId", "snapshot"} <= {*line}


def _is_exchanged(one: Payload) -> bool:
    return as_text(as_dict(one).get("direction")) in {"send", "recv"}


def entries(source: Source) -> list[Entry]:
    """Return the lines of a file, in their order; the lines of one answer at the place of the first."""
    return _joined(_lines(source))


def _lines(source: Source) -> Iterable[Line]:
    if len(source.first_lines) < 2 and isinstance(source.document, dict):
        listed = as_list(source.document.get("loglines"))
        listed = listed or [as_dict(one).get("message") for one in as_list(source.document.get("messages"))]
        if listed:
            return [Line(number, value) for number, value in enumerate(listed, start=1)]
    return source.lines()


def _joined(lines: Iterable[Line]) -> list[Entry]:
    entries: list[Entry] = []
    answers: dict[tuple[str, str], _AnswerLines] = {}
    streamed: dict[str, str | None] = {}
    seen: set[str] = set()
    for entry in _entries(lines):
        uuid = as_text(entry.line.get("uuid"))
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
    return entries


def _read_event(
    event: Members, agent: str, streamed: dict[str, str | None], answers: dict[tuple[str, str], _AnswerLines]
) -> None:
    """Take the usage of an answer from the last event of its stream. `streamed` has the answer that each agent gets."""
    if event.get("type") == "message_start":
        streamed[agent] = as_text(as_dict(event.get("message")).get("id"))
    elif event.get("type") == "message_delta" and (answer := answers.get((agent, streamed.get(agent) or ""))):
        answer.end(event)


def _entries(lines: Iterable[Line]) -> Iterator[Entry]:
    for line in lines:
        if line.why is None and isinstance(line.value, dict):
            yield Entry(line.number, line.value)
        else:
            yield Entry(line.number, {"value": line.value}, line.why or "it is no object")


class _AnswerLines:
    """The lines of one answer of the model."""

    def __init__(self, first: Entry) -> None:
        self._first = first
        first.last = first.line
        self._members = dict(first.message)
        self._blocks = [*_blocks(first)]
        self._is_streamed = _OF_THE_SDK in first.line

    def add(self, part: Entry) -> None:
        """Add a line: its blocks are more of the answer, and its other members are newer."""
        self._members.update({name: value for name, value in part.message.items() if value is not None})
        self._blocks += _blocks(part)
        self._first.uuids += part.uuids
        self._first.last = part.line

    def end(self, event: Members) -> None:
        """Take what the last event of the answer's stream states: the reason of its end and the whole usage."""
        usage = as_dict(self._members.get("usage")) | as_dict(event.get("usage"))
        self._members |= as_dict(event.get("delta")) | {"usage": usage}

    def close(self) -> None:
        """Make the first line the whole answer. Output tokens from before its end are not those of the answer."""
        usage = self._members.get("usage")
        if self._is_streamed and self._members.get("stop_reason") is None and isinstance(usage, dict):
            named = ((_PARTIAL if name == "output_tokens" else name, value) for name, value in usage.items())
            self._members["usage"] = dict(named)
        self._first.line = {**self._first.line, "message": {**self._members, "content": self._blocks}}


def _blocks(entry: Entry) -> list[Payload]:
    content = entry.message.get("content")
    return content if isinstance(content, list) else [] if content is None else [{"type": "text", "text": content}]
