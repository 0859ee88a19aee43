"""Gemini CLI's sessions, in an older and a newer form, and answers that Gemini CLI recorded.

The older form is one document, `{"sessionId", "messages": [...]}`. The newer form is a file of lines. A line may have
members of that document, or a message. A later line with the same `id` replaces a message. `{"$set": {...}}` sets
members. `{"$rewindTo": id}` goes back to the position before the message with that id.

Each message of type "gemini" is a call. The message also has the results of the call's tools, which the next call sees.
The model saw `result`, and the terminal showed `resultDisplay`. Tokens are counted as in Google's API: `input` includes
cached tokens, and `output` leaves out the tokens of thoughts.

Recorded answers are lines of `{"method", "response"}`, without the requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects import google_generate
from trace_recorder.dialects.google_chunks import join_chunks
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, text_part
from trace_recorder.formats.foreign_runs.agent_history import Position
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_time, usage_at
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage, without_none
from trace_recorder.values.token_counts import THOUGHTS_APART

_HEAD = Signs(members=("sessionId", "projectHash"))
"""The signs of the first line of the newer form. The older form is an object with `messages`, too."""
_SPEAKERS = {"user", "gemini"}
REWIND = "$rewindTo"


@dataclass(slots=True)
class GeminiSession:
    """The content of a file: the members of the session, its messages in order, and other lines."""

    members: Members = field(default_factory=dict)
    messages: list[Members] = field(default_factory=list)
    missing: list[TimedFact] = field(default_factory=list)
    others: list[Members] = field(default_factory=list)


def _is_session(source: Source) -> bool:
    """Return whether a file is a session, in either form."""
    if _has_session_lines(source):
        return True
    if len(source.first_lines) > 1 or not source.may_be_object:
        return False
    document = as_dict(source.document)
    kinds = {as_text(as_dict(message).get("type")) for message in as_list(document.get("messages"))}
    return "sessionId" in document and bool(kinds & _SPEAKERS) and ("projectHash" in document or "gemini" in kinds)


def _has_session_lines(source: Source) -> bool:
    return _HEAD.in_first_line(source) and "messages" not in source.first_lines[0].value


def _read_session(source: Source) -> GeminiSession:
    """Read a file in either form."""
    if _has_session_lines(source):
        return _from_lines(source.lines())
    document = as_dict(source.document)
    session = GeminiSession({name: value for name, value in document.items() if name != "messages"})
    for number, message in enumerate(as_list(document.get("messages")), start=1):
        if isinstance(message, dict):
            session.messages.append(message)
        else:
            session.missing.append(TimedFact.gap(what=f"message {number}", why="it is not an object"))
    return session


def _from_lines(lines: Iterable[Line]) -> GeminiSession:
    session = GeminiSession()
    positions: dict[str, int] = {}
    for members in _each_line(lines, session):
        identity = as_text(members.get("id"))
        if identity in positions and "type" in members:
            session.messages[positions[identity or ""]] = members
        elif "type" in members or REWIND in members:
            if identity is not None:
                positions[identity] = len(session.messages)
            session.messages.append(members)
        elif "sessionId" in members:
            session.members |= members
        else:
            session.others.append(members)
    return session


def _each_line(lines: Iterable[Line], session: GeminiSession) -> Iterator[Members]:
    """Yield the lines, and the messages in a `$set`, such as the context at the beginning of a session."""
    for members in session_lines(lines, session.missing.append):
        changes = members.get("$set")
        if not isinstance(changes, dict):
            yield members
            continue
        session.members |= {name: value for name, value in changes.items() if name != "messages"}
        yield from (message for message in as_list(changes.get("messages")) if isinstance(message, dict))


_METHODS = ("generateContent", "generateContentStream", "countTokens", "embedContent")
_SOURCE_MEMBERS = ("projectHash", "kind", "summary", "directories")
_API_ERROR = "[API Error"
_CONTEXT = "<session_context>"
"""The beginning of the message in which the program tells the model where it runs."""
_FAILED = {"error", "cancelled"}


def recognizes(source: Source) -> bool:
    """Return whether the file is a session, or has recorded answers."""
    return _is_session(source) or _has_answers(source)


def _has_answers(source: Source) -> bool:
    lines = [as_dict(line.value) for line in source.first_lines]
    return bool(lines) and all(line.get("method") in _METHODS and "response" in line for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    if _has_answers(source):
        yield _read_answers(source)
        return
    session = _read_session(source)
    run = ForeignRun(
        identity=as_text(session.members.get("sessionId")) or source.path.stem,
        provider="google",
        start_time=stated_time(session.members.get("startTime")),
        end_time=stated_time(session.members.get("lastUpdated")),
        source={name: session.members[name] for name in _SOURCE_MEMBERS if name in session.members},
    )
    reader = _GeminiReader(run)
    for message in session.messages:
        reader.read_message(message, stated_time(message.get("timestamp")))
    reader.finish()
    run.executions = reader.history.executions()
    for other in session.others:
        reader.keep("line", other)
    run.events += session.missing
    yield run


def _read_answers(source: Source) -> ForeignRun:
    reader = SessionReader(ForeignRun(identity=source.path.name.partition(".")[0], provider="google"))
    made_up_ids = 0
    for line in source.lines():
        members = as_dict(line.value)
        if line.why is not None or "response" not in members:
            reader.add_gap(f"line {line.number}", line.why or "it has no response")
            continue
        if members.get("method") not in _METHODS[:2]:
            reader.keep(as_text(members.get("method")) or "line", members)
            continue
        body = members["response"]
        is_stream = isinstance(body, list)
        if is_stream:
            body = join_chunks(body).body
        response = google_generate.read_response(body, made_up_ids)
        made_up_ids += sum(call.call_id_made_up for call in response.tool_calls)
        reader.run.events.append(
            Call(
                time="",
                conversation=None,
                response=response.to_document(),
                model=response.model,
                provider="google",
                stream=is_stream,
            )
        )
    return reader.run


class _GeminiReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._positions: dict[str, Position] = {}
        self._answered: set[str | None] = set()

    def read_message(self, message: Members, time: str) -> None:
        if (target := as_text(message.get(REWIND))) is not None:
            if target in self._positions:
                self.history.return_to(self._positions[target])
            return
        if identity := as_text(message.get("id")):
            self._positions.setdefault(identity, self.history.position)
        kind = as_text(message.get("type"))
        content = content_of(_parts(message.get("content")))
        if kind == "user" and self._repeats_results(message.get("content")):
            self.keep("results", message, time)
        elif kind == "user":
            self.history.add(Message("user", content), time)
            text = _text(content)
            if not text.startswith(_CONTEXT):
                self.note_task(text)
        elif kind == "gemini":
            self._read_answer(message, content, time)
        else:
            text = _text(content)
            if kind == "error" and text.startswith(_API_ERROR):
                self.history.failed_call(time, {"type": "api_error", "message": text}).provider = "google"
            self.keep(kind or "message", message, time)

    def _repeats_results(self, content: Payload) -> bool:
        """Return whether a message only repeats results of tools that an earlier answer has."""
        results = [as_dict(as_dict(part).get("functionResponse")) for part in as_list(content)]
        return bool(results) and all(as_text(result.get("id")) in self._answered for result in results)

    def _read_answer(self, message: Members, content: str | list[Payload] | None, time: str) -> None:
        calls = [as_dict(element) for element in as_list(message.get("toolCalls"))]
        thoughts = [as_dict(element) for element in as_list(message.get("thoughts"))]
        model = as_text(message.get("model"))
        response = LLMResponse(
            _text(content) or None,
            reasoning="\n\n".join(filter(None, map(_thought, thoughts))) or None,
            tool_calls=tuple(stated_call(call.get("id"), call.get("name"), call.get("args")) for call in calls),
            usage=_usage(as_dict(message.get("tokens"))),
            model=model,
            id=as_text(message.get("id")),
            extra={"thoughts": thoughts} if thoughts else {},
        )
        call = self.history.call(time, response, Message("assistant", content or None))
        call.provider = "google"
        self.note_model(model)
        for tool_call in calls:
            if (result := _result(tool_call)) is not None:
                self.history.add(result, stated_time(tool_call.get("timestamp")) or time)
                if result.call_id:
                    self._answered.add(result.call_id)
            display = {name: tool_call[name] for name in ("id", "resultDisplay") if tool_call.get(name) is not None}
            if "resultDisplay" in display:
                self.keep("resultDisplay", display, time)


def _parts(content: Payload) -> Payload:
    """Return a content with its text parts in OpenAI's form."""
    if not isinstance(content, list):
        return content
    parts: list[Payload] = []
    for part in content:
        members = as_dict(part)
        if members.keys() == {"text"} and isinstance(members["text"], str):
            parts.append(text_part(members["text"]))
        else:
            parts.append(part)
    return parts


def _text(content: Payload) -> str:
    if isinstance(content, str):
        return content
    texts = (as_text(as_dict(part).get("text")) for part in as_list(content))
    return "\n\n".join(text for text in texts if text)


def _thought(thought: Members) -> str:
    subject, description = as_text(thought.get("subject")), as_text(thought.get("description"))
    if subject:
        subject = f"**{subject}**"
    return "\n".join(filter(None, (subject, description)))


def _result(call: Members) -> Message | None:
    """Return the message with the result of a tool call, or None if the call has no result."""
    parts = as_list(call.get("result"))
    if not parts:
        return None
    extra: Members = {}
    if (status := as_text(call.get("status"))) is not None:
        extra = {"status": status, "is_error": status in _FAILED}
    content: str | list[Payload] = parts
    if len(parts) == 1:
        answer = as_dict(as_dict(as_dict(parts[0]).get("functionResponse")).get("response"))
        text = as_text(answer.get("output", answer.get("error")))
        if text is not None and len(answer) == 1:
            content = text
    name = as_text(call.get("name"))
    return Message("tool", content, call_id=as_text(call.get("id")) or None, name=name, extra=extra)


_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cached",
    "reasoning_tokens": "thoughts",
}


def _usage(tokens: Members) -> Usage:
    """Return the counts of an answer.

    The count of tokens in tools' results is in `extra`, under the name that Gemini's API uses.
    """
    counts = Remaining(tokens)
    return usage_at(counts, _COUNTS, without_none(toolUsePromptTokenCount=counts.integer("tool")))


FORMAT = Format(
    name="gemini-cli",
    reader=FormatReader(recognizes=recognizes, read=read, counting=THOUGHTS_APART),
    home=(
        HomePlace(
            program="Gemini CLI",
            directory=".gemini",
            files=("tmp/*/chats/*.json*",),
            variable="GEMINI_CLI_HOME",
            below=".gemini",
            session="tmp/*/chats/session-*.json*",
        ),
    ),
)
