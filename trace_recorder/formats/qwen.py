"""Qwen Code's sessions: lines that form a tree by `uuid` and `parentUuid`.

The content of a line is in Google's dialect.

An answer may be several lines with the same `uuid`. A `chat_compression` line begins a new conversation. A session
that was forked begins with copies of another session's lines (`forkedFrom`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import google_generate
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import (
    AgentHistory,
    Position,
    first_text,
    given_by_another_session,
)
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.token_counts import WHOLE

_SPEAKERS = {"user", "assistant", "tool_result"}
_COMPRESSION = "chat_compression"
_FORKED_FROM = "forkedFrom"
_SOURCE_MEMBERS = ("version", "cwd", "gitBranch", _FORKED_FROM)


def recognizes(source: Source) -> bool:
    """Return whether one of the first lines is a message with `parts`."""
    lines = [as_dict(line.value) for line in source.first_lines]
    return any(
        as_text(line.get("type")) in _SPEAKERS and "uuid" in line and "parts" in as_dict(line.get("message"))
        for line in lines
    )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.stem)
    reader = _QwenSessionReader(run)
    for line in session_lines(source.lines(), run.events.append):
        reader.read_line(line)
    reader.close()
    reader.history.finish()
    yield run


class _QwenSessionReader:
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self.history = AgentHistory(run.events)
        self._positions: dict[str, Position] = {}
        self._answer: Members | None = None
        self._parts: list[Payload] = []

    def read_line(self, line: Members) -> None:
        time = stated_time(line.get("timestamp"))
        kind, uuid = as_text(line.get("type")), as_text(line.get("uuid"))
        if kind == "assistant" and self._answer is not None and uuid == self._answer.get("uuid"):
            self._answer |= {name: value for name, value in line.items() if value is not None}
            self._parts += as_list(as_dict(line.get("message")).get("parts"))
            return
        self.close()
        if isinstance(line.get(_FORKED_FROM), dict):
            self.run.parent = as_text(line[_FORKED_FROM].get("sessionId"))
            with given_by_another_session(self.run, self.run.events):
                self._read_new_line(line, time)
        else:
            self._read_new_line(line, time)

    def _read_new_line(self, line: Members, time: str) -> None:
        kind, uuid, parent = (as_text(line.get(name)) for name in ("type", "uuid", "parentUuid"))
        parts = as_list(as_dict(line.get("message")).get("parts"))
        self.run.identity = as_text(line.get("sessionId")) or self.run.identity
        self.run.source |= {name: line[name] for name in _SOURCE_MEMBERS if line.get(name)}
        if kind in _SPEAKERS and parent in self._positions:
            self.history.return_to(self._positions[parent])
        if kind == "assistant":
            self._answer, self._parts = dict(line), [*parts]
            return
        if kind in _SPEAKERS:
            messages = google_generate.read_message({"role": "user", "parts": parts})
            if kind == "user":
                self.run.task = self.run.task or next(
                    (text for message in messages if (text := first_text(message.content))), None
                )
            self.history.add_all(messages, time)
        else:
            self._read_other(line, time)
        if uuid is not None:
            position = self.history.position
            is_new = kind in _SPEAKERS or line.get("subtype") == _COMPRESSION
            self._positions[uuid] = position if is_new else self._positions.get(parent or "", position)

    def _read_other(self, line: Members, time: str) -> None:
        subtype = as_text(line.get("subtype"))
        if subtype == _COMPRESSION:
            self.history.restart()
            for content in as_list(as_dict(line.get("systemPayload")).get("compressedHistory")):
                self.history.add_all(google_generate.read_message(content), time)
        kinds = (as_text(line.get("type")) or "line", subtype)
        self.run.events.append(TimedFact.unread(what=" ".join(filter(None, kinds)), value=line, time=time))

    def close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        line, self._answer = self._answer, None
        if line is None:
            return
        if isinstance(line.get(_FORKED_FROM), dict):
            with given_by_another_session(self.run, self.run.events):
                self._add_call(line)
        else:
            self._add_call(line)
        if uuid := as_text(line.get("uuid")):
            self._positions[uuid] = self.history.position

    def _add_call(self, line: Members) -> None:
        content = {"role": "model", "parts": self._parts}
        body = {"candidates": [{"content": content}], "usageMetadata": line.get("usageMetadata")}
        response = google_generate.read_response({**body, "modelVersion": line.get("model")}, self.history.made_up_ids)
        messages = google_generate.read_message(content)
        answer = messages[-1] if messages else Message("assistant")
        call = self.history.call(stated_time(line.get("timestamp")), response, answer)
        self.run.model = self.run.model or call.model


FORMAT = Format(name="qwen", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
