"""Grok CLI's `chat_history.jsonl`: messages by type, without times. Reasoning is a line before the answer it led to.

What the server searched (`backend_tool_call`) is part of the next answer, too. `updates.jsonl` next to it states the
same session once more (`grok_updates.py`): in a directory it is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, join_texts
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.block_messages import first_text
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun, Kept, Members, Missing
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import WHOLE

_KINDS = {"system", "user", "assistant", "tool_result", "reasoning", "backend_tool_call"}
_BEFORE_ANSWERS = {"reasoning", "backend_tool_call"}


def recognizes(source: Source) -> bool:
    """Whether all lines are of these types, and one is an answer or reasoning of Grok's."""
    lines = [as_dict(line.value) for line in source.first_lines]
    kinds = [as_text(line.get("type")) for line in lines]
    known = bool(kinds) and set(kinds) <= _KINDS and not any("message" in line for line in lines)
    return known and any("model_fingerprint" in line or "encrypted_content" in line for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one session of a file."""
    run = ForeignRun(identity=source.path.parent.name or source.path.stem, provider="xai")
    if (updates := source.path.with_name("updates.jsonl")).is_file():
        source.read_too.add(updates)
    history = AgentHistory(run.events)
    before: list[Members] = []
    for line in source.lines():
        members = as_dict(line.value)
        kind = as_text(members.get("type"))
        if line.why is not None or kind not in _KINDS:
            if isinstance(line.value, dict):
                run.events.append(Kept(what=kind or "line", value=members))
            else:
                run.events.append(Missing(what=f"line {line.number}", why=line.why or "it is no object"))
        elif kind in _BEFORE_ANSWERS:
            before.append(members)
        else:
            if kind == "assistant" or before:
                _answer(run, history, members if kind == "assistant" else {}, before)
                before = []
            _add(run, history, kind or "", members)
    if before:
        _answer(run, history, {}, before)
    history.finish()
    yield run


def _add(run: ForeignRun, history: AgentHistory, kind: str, members: Members) -> None:
    content = content_of(members.get("content"))
    about = {name: value for name, value in members.items() if name not in ("type", "content", "tool_call_id")}
    if kind == "tool_result":
        history.add(Message("tool", content, call_id=as_text(members.get("tool_call_id")), extra=about), "")
    elif kind != "assistant":
        history.add(Message(kind, content, extra=about), "")
        if kind == "user" and "synthetic_reason" not in members:
            run.task = run.task or first_text(content) or None


def _answer(run: ForeignRun, history: AgentHistory, members: Members, before: list[Members]) -> None:
    """Add a call. Reasoning that no answer follows is an answer that ended early."""
    thoughts = [join_texts(_texts(one), "\n") for one in before if one.get("type") == "reasoning"]
    calls = tuple(_call(one) for one in as_list(members.get("tool_calls")))
    model = as_text(members.get("model_id"))
    extra = without_none(model_fingerprint=members.get("model_fingerprint"), before=before or None)
    text = as_text(members.get("content"))
    call = history.call(
        "", LLMResponse(text, reasoning=join_texts(thoughts, "\n\n"), tool_calls=calls, model=model, extra=extra)
    )
    call.provider = run.provider
    call.parameters = without_none(reasoning_effort=members.get("reasoning_effort"))
    run.model = run.model or model
    if not members:
        call.complete, call.ended_by = False, "no answer follows the reasoning"


def _texts(reasoning: Members) -> list[str | None]:
    return [as_text(as_dict(part).get("text")) for part in as_list(reasoning.get("summary"))]


def _call(given: Payload) -> ToolCall:
    read = manual.read_tool_call(given)
    return ToolCall(read.call_id, read.name, read.arguments)


FORMAT = ImportFormat(name="grok", recognizes=recognizes, read=read, counting=WHOLE)
