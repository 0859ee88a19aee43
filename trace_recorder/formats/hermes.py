"""Hermes Agent's exported sessions. Each line is a session as a JSON object, with `messages` in OpenAI's form.

Tokens are stated for the session as a whole. A session may have more calls than answers, because `api_call_count` also
counts retries, and requests that make titles. A message whose `active` is 0 was withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import bare_call, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, without_none
from trace_recorder.values.token_counts import WHOLE

_SESSION = Signs(members=("id", "source", "messages", "system_prompt", "api_call_count"))
_TOTALS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_USAGE = (*_TOTALS, "api_call_count", "estimated_cost_usd", "actual_cost_usd", "cost_status")


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of each line."""
    unread = []
    for line in source.each_line():
        if _SESSION.match(line.value):
            yield _read_session(as_dict(line.value))
        else:
            unread.append(f"line {line.number}: {line.why or 'it is not a session'}")
    if unread:
        raise TrajectoryFormatError(f"{source.path} has lines that are not sessions: {'; '.join(unread[:3])}")


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


FORMAT = Format(name="hermes", reader=FormatReader(recognizes=_SESSION.in_any_line, read=read, counting=WHOLE))
