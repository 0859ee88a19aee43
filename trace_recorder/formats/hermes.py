"""Hermes Agent's exported sessions. Each line is a session as a JSON object, with `messages` in OpenAI's form.

Tokens are stated for the session as a whole. A session may have more calls than answers, because `api_call_count` also
counts retries, and requests that make titles. A message whose `active` is 0 was withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import WHOLE

_SIGNS = {"id", "source", "messages", "system_prompt", "api_call_count"}
_TOTALS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_USAGE = (*_TOTALS, "api_call_count", "estimated_cost_usd", "actual_cost_usd", "cost_status")


def recognizes(source: Source) -> bool:
    """Return whether one of the first lines is a session."""
    return any({*as_dict(line.value)} >= _SIGNS for line in source.first_lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of each line."""
    unread = []
    for line in source.each_line():
        if {*as_dict(line.value)} >= _SIGNS:
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
    history = AgentHistory(run.events)
    if prompt := as_text(session.get("system_prompt")):
        history.add(Message("system", prompt), run.start_time)
    for number, message in enumerate(as_list(session.get("messages")), start=1):
        if isinstance(message, dict):
            _read_message(run, history, message)
        else:
            run.events.append(TimedFact.gap(what=f"message {number}", why="it is not an object"))
    history.finish()
    usage = {name: session[name] for name in _USAGE if session.get(name) is not None}
    run.events.append(TimedFact.annotation(key="session_usage", value=usage, time=run.end_time))
    return run


def _read_message(run: ForeignRun, history: AgentHistory, message: Members) -> None:
    time = stated_time(message.get("timestamp"))
    role, content = as_text(message.get("role")), content_of(message.get("content"))
    if message.get("active") == 0 or role not in {"system", "user", "assistant", "tool"}:
        run.events.append(TimedFact.unread(what="message", value=message, time=time))
    elif role == "assistant":
        thought = as_text(message.get("reasoning")) or as_text(message.get("reasoning_content"))
        calls = tuple(map(_call, as_list(message.get("tool_calls"))))
        text = content if isinstance(content, str) else first_text(content) or None
        reason = as_text(message.get("finish_reason"))
        response = LLMResponse(text, reasoning=thought, tool_calls=calls, finish_reason=reason, model=run.model)
        history.call(time, response).provider = run.provider
    elif role == "tool":
        name, call_id = as_text(message.get("tool_name")), as_text(message.get("tool_call_id"))
        history.add(Message("tool", content, call_id=call_id, name=name), time)
    else:
        history.add(Message(role, content), time)
        if role == "user":
            run.task = run.task or first_text(content) or None


def _call(value: Payload) -> ToolCall:
    call = manual.read_tool_call(value)
    return ToolCall(call.call_id, call.name, call.arguments)


FORMAT = Format(name="hermes", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
