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
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, Position
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Line, Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time, usage_at
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, Usage
from trace_recorder.values.token_counts import THOUGHTS_APART

_HEAD_MEMBERS = {"sessionId", "projectHash"}
_SPEAKERS = {"user", "gemini"}
REWIND = "$rewindTo"


@dataclass(slots=True)
class GeminiSession:
    """The content of a file: the members of the session, its messages in order, and other lines."""

    members: Members = field(default_factory=dict)
    messages: list[Members] = field(default_factory=list)
    missing: list[TimedFact] = field(default_factory=list)
    others: list[Members] = field(default_factory=list)


def is_session(source: Source) -> bool:
    """Return whether a file is a session, in either form."""
    first = [as_dict(line.value) for line in source.first_lines]
    if first and {*first[0]} >= _HEAD_MEMBERS and "messages" not in first[0]:
        return True
    if source.head.lstrip()[:1] != b"{" or len(first) > 1:
        return False
    document = as_dict(source.document)
    kinds = {as_text(as_dict(message).get("type")) for message in as_list(document.get("messages"))}
    return "sessionId" in document and bool(kinds & _SPEAKERS) and ("projectHash" in document or "gemini" in kinds)


def read_session(source: Source) -> GeminiSession:
    """Read a file in either form."""
    first = as_dict(source.first_lines[0].value) if source.first_lines else {}
    if {*first} >= _HEAD_MEMBERS and "messages" not in first:
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
            positions |= {} if identity is None else {identity: len(session.messages)}
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
    return is_session(source) or _has_answers(source)


def _has_answers(source: Source) -> bool:
    lines = [as_dict(line.value) for line in source.first_lines]
    return bool(lines) and all(line.get("method") in _METHODS and "response" in line for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    if _has_answers(source):
        yield _read_answers(source)
        return
    session = read_session(source)
    run = ForeignRun(
        identity=as_text(session.members.get("sessionId")) or source.path.stem,
        provider="google",
        start_time=stated_time(session.members.get("startTime")),
        end_time=stated_time(session.members.get("lastUpdated")),
        source={name: session.members[name] for name in _SOURCE_MEMBERS if name in session.members},
    )
    _GeminiSessionReader(run).read(session)
    yield run


def _read_answers(source: Source) -> ForeignRun:
    run = ForeignRun(identity=source.path.name.partition(".")[0], provider="google")
    made_up_ids = 0
    for line in source.lines():
        members = as_dict(line.value)
        if line.why is not None or "response" not in members:
            run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it has no response"))
            continue
        if members.get("method") not in _METHODS[:2]:
            run.events.append(TimedFact.unread(what=as_text(members.get("method")) or "line", value=members))
            continue
        recorded = members["response"]
        body = join_chunks(recorded).body if isinstance(recorded, list) else recorded
        response = google_generate.read_response(body, made_up_ids)
        made_up_ids += sum(call.call_id_made_up for call in response.tool_calls)
        run.events.append(
            Call(
                time="",
                conversation=None,
                response=response.to_document(),
                model=response.model,
                provider="google",
                stream=isinstance(recorded, list),
            )
        )
    return run


class _GeminiSessionReader:
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self.history = AgentHistory(run.events)
        self._positions: dict[str, Position] = {}
        self._answered: set[str | None] = set()

    def read(self, session: GeminiSession) -> None:
        for message in session.messages:
            self._read_message(message, stated_time(message.get("timestamp")))
        self.history.finish()
        self.run.executions = self.history.executions()
        self.run.events += [TimedFact.unread(what="line", value=other) for other in session.others]
        self.run.events += session.missing

    def _read_message(self, message: Members, time: str) -> None:
        if (target := as_text(message.get(REWIND))) is not None:
            if target in self._positions:
                self.history.return_to(self._positions[target])
            return
        if identity := as_text(message.get("id")):
            self._positions.setdefault(identity, self.history.position)
        kind = as_text(message.get("type"))
        content = content_of(_parts(message.get("content")))
        if kind == "user" and self._repeats_results(message.get("content")):
            self.run.events.append(TimedFact.unread(what="results", value=message, time=time))
        elif kind == "user":
            self.history.add(Message("user", content), time)
            text = _text(content)
            self.run.task = self.run.task or (None if text.startswith(_CONTEXT) else text) or None
        elif kind == "gemini":
            self._read_answer(message, content, time)
        else:
            text = _text(content)
            if kind == "error" and text.startswith(_API_ERROR):
                self.history.failed_call(time, {"type": "api_error", "message": text}).provider = "google"
            self.run.events.append(TimedFact.unread(what=kind or "message", value=message, time=time))

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
            tool_calls=tuple(map(_tool_call, calls)),
            usage=_usage(as_dict(message.get("tokens"))),
            model=model,
            id=as_text(message.get("id")),
            extra={"thoughts": thoughts} if thoughts else {},
        )
        call = self.history.call(time, response, Message("assistant", content or None))
        call.provider = "google"
        self.run.model = self.run.model or model
        for tool_call in calls:
            if (result := _result(tool_call)) is not None:
                self.history.add(result, stated_time(tool_call.get("timestamp")) or time)
                if result.call_id:
                    self._answered.add(result.call_id)
            display = {name: tool_call[name] for name in ("id", "resultDisplay") if tool_call.get(name) is not None}
            if "resultDisplay" in display:
                self.run.events.append(TimedFact.unread(what="resultDisplay", value=display, time=time))


def _parts(content: Payload) -> Payload:
    """Return a content with its text parts in OpenAI's form."""
    if not isinstance(content, list):
        return content
    texts = [as_text(as_dict(part).get("text")) if {*as_dict(part)} == {"text"} else None for part in content]
    return [part if text is None else text_part(text) for part, text in zip(content, texts, strict=True)]


def _text(content: Payload) -> str:
    if isinstance(content, str):
        return content
    texts = (as_text(as_dict(part).get("text")) for part in as_list(content))
    return "\n\n".join(text for text in texts if text)


def _thought(thought: Members) -> str:
    subject, description = as_text(thought.get("subject")), as_text(thought.get("description"))
    return "\n".join(filter(None, (f"**{subject}**" if subject else None, description)))


def _tool_call(call: Members) -> ToolCall:
    arguments = call.get("args")
    return ToolCall(
        as_text(call.get("id")) or "", as_text(call.get("name")) or "", {} if arguments is None else arguments
    )


def _result(call: Members) -> Message | None:
    """Return the message with the result of a tool call, or None if the call has no result."""
    parts = as_list(call.get("result"))
    if not parts:
        return None
    status = as_text(call.get("status"))
    extra: Members = {} if status is None else {"status": status, "is_error": status in _FAILED}
    content: str | list[Payload] = parts
    if len(parts) == 1:
        answer = as_dict(as_dict(as_dict(parts[0]).get("functionResponse")).get("response"))
        text = as_text(answer.get("output", answer.get("error")))
        content = parts if text is None or len(answer) != 1 else text
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
    of_results = counts.integer("tool")
    return usage_at(counts, _COUNTS, None if of_results is None else {"toolUsePromptTokenCount": of_results})


FORMAT = Format(name="gemini-cli", reader=FormatReader(recognizes=recognizes, read=read, counting=THOUGHTS_APART))
