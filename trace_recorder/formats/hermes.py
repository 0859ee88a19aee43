"""Hermes Agent's sessions: its database `state.db`, or exports.

Each line of an export is a session as a JSON object, with `messages` in OpenAI's form. An export may also be one
document: a session, or a list of sessions. The database has the same members in the tables `sessions` and `messages`.

Tokens are stated for the session as a whole. A session may have more calls than answers, because `api_call_count` also
counts retries, and requests that make titles. A message whose `active` is 0 was withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, json_value
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.sqlite_file import is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import bare_call, stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_SESSION = Signs(members=("id", "source", "messages", "system_prompt", "api_call_count"))
_TOTALS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_USAGE = (*_TOTALS, "api_call_count", "estimated_cost_usd", "actual_cost_usd", "cost_status")


def recognizes(source: Source) -> bool:
    """Return whether the file is Hermes' database, or has exported sessions."""
    if is_database(source):
        with open_database(source) as database:
            columns = ("id", "source", "system_prompt", "api_call_count")
            return database.has("sessions", *columns) and database.has("messages", "session_id", "active", "timestamp")
    return _SESSION.in_any_line(source) or any(map(_SESSION.match, _sessions_of(source.document)))


def _sessions_of(document: Payload) -> list[Payload]:
    """Return the sessions in a document that is a session, or a list of sessions."""
    return document if isinstance(document, list) else [document]


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield each session of the file."""
    if is_database(source):
        yield from _read_database(source)
        return
    unread = []
    lines: Iterable[Line] = source.each_line()
    if source.document is not None:
        lines = [Line(number, value) for number, value in enumerate(_sessions_of(source.document), start=1)]
    for line in lines:
        if _SESSION.match(line.value):
            yield _read_session(as_dict(line.value))
        else:
            unread.append(f"line {line.number}: {line.why or 'it is not a session'}")
    if unread:
        raise TrajectoryFormatError(f"{source.path} has lines that are not sessions: {'; '.join(unread[:3])}")


def _read_database(source: Source) -> Iterator[ForeignRun]:
    with open_database(source) as database:
        for session in [*database.rows("sessions", "order by started_at, id")]:
            rows = database.rows("messages", "where session_id = ? order by id", session.get("id"))
            messages = [{**row, "tool_calls": json_value(as_text(row.get("tool_calls")) or "")} for row in rows]
            yield _read_session({**session, "messages": messages})


def _read_session(session: Members) -> ForeignRun:
    end_reason = as_text(session.get("end_reason"))
    run = ForeignRun(
        identity=as_text(session.get("id")) or "session",
        model=as_text(session.get("model")),
        provider=as_text(session.get("billing_provider")),
        start_time=stated_time(session.get("started_at")),
        end_time=stated_time(session.get("ended_at")),
        source=without_none(**{name: session.get(name) for name in ("source", "cwd", "parent_session_id", "title")}),
        metadata=without_none(end_reason=end_reason, model_config=session.get("model_config")),
    )
    reader = SessionReader(run)
    if prompt := as_text(session.get("system_prompt")):
        reader.history.add(Message("system", prompt), run.start_time)
    for _, message in reader.objects(session.get("messages"), "message"):
        _read_message(reader, message)
    reader.finish()
    usage = {name: session[name] for name in _USAGE if session.get(name) is not None}
    reader.annotate("session_usage", usage, run.end_time)
    return run


def _read_message(reader: SessionReader, message: Members) -> None:
    run, time = reader.run, stated_time(message.get("timestamp"))
    role, content = as_text(message.get("role")), content_of(message.get("content"))
    if message.get("active") == 0 or role not in {"system", "user", "assistant", "tool"}:
        reader.keep("message", message, time)
    elif role == "assistant":
        thought = as_text(message.get("reasoning")) or as_text(message.get("reasoning_content"))
        calls = tuple(map(bare_call, as_list(message.get("tool_calls"))))
        text = content if isinstance(content, str) else first_text(content) or None
        reason = as_text(message.get("finish_reason"))
        response = LLMResponse(text, reasoning=thought, tool_calls=calls, finish_reason=reason, model=run.model)
        reader.history.call(time, response).provider = run.provider
    elif role == "tool":
        name, call_id = as_text(message.get("tool_name")), as_text(message.get("tool_call_id"))
        reader.history.add(Message("tool", content, call_id=call_id, name=name), time)
    else:
        reader.history.add(Message(role, content), time)
        if role == "user":
            reader.note_task(content)


FORMAT = Format(
    name="hermes",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(HomePlace(program="Hermes Agent", directory=".hermes", files=("state.db",), variable="HERMES_HOME"),),
)
