"""Session traces as the Hugging Face Hub describes them: a header line, then a line for each message.

Source: "Session Traces Format" of the Hub's documentation. The header has `harness` and `id`. Each other line is
`{"type": "message", "message": …}`, with `role`, `content`, `reasoningContent`, `toolCalls`, `toolCallId`, `timestamp`
and `model`. In our own sessions an answer has `interactionId`, and any other message of the assistant is one that the
agent put into its history. Our sessions without any such id are from before: there each answer is a call.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.dialects.openai_chat import read_message
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.pi_session import HARNESS, ORIGIN
from trace_recorder.imports.foreign.run import ForeignRun, Kept, Members
from trace_recorder.imports.foreign.session_lines import session_lines
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import LLMResponse, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.token_counts import WHOLE

_NAMES = {"reasoningContent": "reasoning_content", "toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_INTERACTION = "interactionId"
_OF_A_LINE = {"timestamp", "model", _INTERACTION, ORIGIN}


def recognizes(source: Source) -> bool:
    """Whether the first line is such a header, and no line is one of Pi's, whose messages have parts and ids."""
    lines = [as_dict(line.value) for line in source.first_lines]
    header, messages = lines[:1], [line for line in lines if line.get("type") == "message"]
    is_header = any(line.get("type") == "session" and {"harness", "id"} <= line.keys() for line in header)
    return is_header and all(
        "parentId" not in line and isinstance(as_dict(line.get("message")).get("content"), str | None)
        for line in messages
    )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one session of a file."""
    run = ForeignRun(identity=source.path.name.partition(".")[0])
    history = AgentHistory(run.events)
    lines = [*source.lines()]
    names_calls = any(_INTERACTION in as_dict(as_dict(line.value).get("message")) for line in lines)
    for line in session_lines(lines, run.events.append):
        if line.get("type") == "session":
            run.identity = as_text(line.get("id")) or run.identity
            run.source |= {name: value for name, value in line.items() if name not in ("type", "id")}
        elif line.get("type") == "message" and isinstance(line.get("message"), dict):
            _read_message(run, history, line["message"], names_calls=names_calls)
        else:
            run.events.append(Kept(what=as_text(line.get("type")) or "line", value=line))
    history.finish()
    yield run


def _read_message(run: ForeignRun, history: AgentHistory, members: Members, *, names_calls: bool) -> None:
    is_put_in = names_calls and run.source.get("harness") == HARNESS and _INTERACTION not in members
    time, model = stated_time(members.get("timestamp")), as_text(members.get("model"))
    named = {_NAMES.get(name, name): value for name, value in members.items() if name not in _OF_A_LINE}
    for message in read_message(named):
        if message.role != "assistant" or is_put_in:
            history.add(message, time)
            if message.role == "user":
                run.task = run.task or as_text(message.content)
            continue
        response = LLMResponse(
            as_text(message.content) or None, reasoning=message.reasoning, tool_calls=message.tool_calls, model=model
        )
        call = history.call(time, response)
        if call.response is not None:
            call.response |= without_none(extra=message.extra or None)
        call.interaction_id = as_text(members.get(_INTERACTION))
        call.replayed_from = ReplayedFrom.of_document(members.get(ORIGIN))
        run.model = run.model or model


FORMAT = ImportFormat(name="session-traces", recognizes=recognizes, read=read, counting=WHOLE)
