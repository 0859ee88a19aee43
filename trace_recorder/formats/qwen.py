"""Qwen Code's sessions: lines that form a tree by `uuid` and `parentUuid`.

The content of a line is in Google's dialect.

An answer may be several lines with the same `uuid`. A `chat_compression` line begins a new conversation. A session
that was forked begins with copies of another session's lines (`forkedFrom`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import google_generate
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import Position, given_by_another_session, last_answer
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_SPEAKERS = {"user", "assistant", "tool_result"}
_COMPRESSION = "chat_compression"
_FORKED_FROM = "forkedFrom"
_SOURCE_MEMBERS = ("version", "cwd", "gitBranch", _FORKED_FROM)
_MESSAGE = Signs(values={"type": _SPEAKERS}, members=("uuid", "message/parts"))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _QwenReader(ForeignRun(identity=source.path.stem))
    for line in reader.lines(source):
        reader.read_line(line)
    reader.close()
    yield reader.finish()


class _QwenReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
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
        self.note_identity(line.get("sessionId"))
        self.run.source |= stated_members(line, _SOURCE_MEMBERS)
        if kind in _SPEAKERS and parent in self._positions:
            self.history.return_to(self._positions[parent])
        if kind == "assistant":
            self._answer, self._parts = dict(line), [*parts]
            return
        if kind in _SPEAKERS:
            messages = google_generate.read_message({"role": "user", "parts": parts})
            if kind == "user":
                for message in messages:
                    self.note_task(message.content)
            self.history.add_all(messages, time)
        else:
            self._read_other(line, time)
        if uuid is not None:
            position = self.history.position
            if kind not in _SPEAKERS and line.get("subtype") != _COMPRESSION:
                position = self._positions.get(parent or "", position)
            self._positions[uuid] = position

    def _read_other(self, line: Members, time: str) -> None:
        subtype = as_text(line.get("subtype"))
        if subtype == _COMPRESSION:
            self.history.restart()
            for content in as_list(as_dict(line.get("systemPayload")).get("compressedHistory")):
                self.history.add_all(google_generate.read_message(content), time)
        kinds = (as_text(line.get("type")) or "line", subtype)
        self.keep(" ".join(filter(None, kinds)), line, time)

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
        answer = last_answer(google_generate.read_message(content))
        call = self.history.call(stated_time(line.get("timestamp")), response, answer)
        self.note_model(call.model)


FORMAT = Format(name="qwen", reader=FormatReader(recognizes=_MESSAGE.in_any_line, read=read, counting=WHOLE))
