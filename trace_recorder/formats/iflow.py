"""iFlow's sessions: lines like Claude Code's, but the lines of an answer overlap.

Each line of an answer repeats the last tool call of the line before it. So consecutive lines are one answer, in which
each tool call counts once. `parentUuid` is ignored, because it does not name the line before. A result is in an
envelope of Gemini's API. Token counts are left out, because they are always 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import add_answer, add_message
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_ANSWER, _SESSION = "response-", "session-"
_SOURCE_MEMBERS = ("version", "cwd", "gitBranch")


def recognizes(source: Source) -> bool:
    """Return whether the first lines have the ids of iFlow's sessions and answers."""
    lines = [as_dict(line.value) for line in source.first_lines]
    sessions = [as_text(line.get("sessionId")) or "" for line in lines]
    if not any(session.startswith(_SESSION) for session in sessions):
        return False
    answers = [as_dict(line.get("message")) for line in lines if line.get("type") == "assistant"]
    return any((as_text(answer.get("id")) or "").startswith(_ANSWER) for answer in answers)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _IflowReader(ForeignRun(identity=source.path.stem))
    for line in reader.lines(source):
        reader.read_line(line)
    reader.close()
    yield reader.finish()


class _IflowReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._answer: Members | None = None
        self._time = ""
        self._seen: set[str] = set()

    def read_line(self, line: Members) -> None:
        time = stated_time(line.get("timestamp"))
        message = as_dict(line.get("message"))
        self.run.source |= stated_members(line, _SOURCE_MEMBERS)
        self.note_identity(line.get("sessionId"))
        if line.get("type") == "assistant":
            self._extend(message, time)
            return
        self.close()
        if line.get("type") == "user":
            content = message.get("content")
            self.note_task(content)
            if isinstance(content, list):
                content = [_result(block) for block in content]
            add_message(self.history, content, time)
            if (value := line.get("toolUseResult")) is not None:
                self.keep("toolUseResult", value, time)
        else:
            self.keep(as_text(line.get("type")) or "line", line, time)

    def _extend(self, message: Members, time: str) -> None:
        """Add the new blocks of an answer's line."""
        if self._answer is None:
            members = {name: value for name, value in message.items() if name != "usage"}
            self._answer, self._time = {**members, "content": []}, time
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in as_list(content):
            identity = as_text(as_dict(block).get("id"))
            if identity is None or identity not in self._seen:
                self._answer["content"].append(block)
            if identity is not None:
                self._seen.add(identity)

    def close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        answer, self._answer = self._answer, None
        if answer is not None and answer["content"]:
            call = add_answer(self.history, answer, self._time)
            self.note_model(call.model)


def _result(block: Payload) -> Payload:
    """Return a result's block with the text that the model saw as its content. Return any other block unchanged."""
    content = as_dict(as_dict(block).get("content"))
    answer = as_dict(as_dict(as_dict(content.get("responseParts")).get("functionResponse")).get("response"))
    text = as_text(answer.get("output", answer.get("error")))
    if text is None or len(answer) != 1:
        return block
    result = {**block, "content": text}
    if "error" in answer:
        result["is_error"] = True
    return result


FORMAT = Format(
    name="iflow",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(HomePlace(program="iFlow", directory=".iflow", files=("projects/*/*.jsonl",)),),
)
