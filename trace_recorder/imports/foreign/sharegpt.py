"""Rows in ShareGPT's form: `{"conversations": [{"from": "human", "value": …}, {"from": "gpt", …}]}`, each a run.

Training tools add `function_call` and `observation` for tools, and `system` and `tools` beside the messages. Calls are
JSON, or tagged text in an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.imports.foreign.chat_messages import events_of
from trace_recorder.imports.foreign.conversations import MEMBERS, begins_with, conversations, messages_of
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun, Members, Missing
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.imports.foreign.tagged_text import calls_in, chat_answer, tools_in
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_ANSWERS = {"gpt", "assistant", "chatgpt", "bing", "bard", "model"}
_RESULTS = {"observation", "tool", "function_response", "function-response", "tool_response", "function"}
_CALLS = {"function_call", "tool_call", "function-call"}
_ROLES = {"human": "user", "user": "user", "system": "system"}
_OF_THE_RUN = {*MEMBERS, "tools", "system", "model", "id"}


def recognizes(source: Source) -> bool:
    """Whether the first conversation has messages with `from` and `value`."""
    return begins_with(source, _is_conversation)


def _is_conversation(value: Payload) -> bool:
    messages = [as_dict(message) for message in messages_of(value)]
    return bool(messages) and all({"from", "value"} <= message.keys() for message in messages)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each row."""
    for name, line in conversations(source):
        yield _run(name, line)


def _run(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    model = as_text(members.get("model"))
    messages = [as_dict(message) for message in messages_of(line.value)]
    system = as_text(members.get("system"))
    first: list[Members] = [{"role": "system", "content": system}] if system else []
    rest = {key: value for key, value in members.items() if key not in _OF_THE_RUN}
    users = (message.get("value") for message in messages if _ROLES.get(as_text(message.get("from")) or "") == "user")
    run = ForeignRun(
        identity=as_text(members.get("id")) or name,
        events=[*events_of([*first, *map(_message, messages)], tools_in(members.get("tools")), model)],
        task=as_text(next(users, None)),
        model=model,
        metadata={"row": rest} if rest else {},
    )
    if line.why is not None:
        run.events.append(Missing(what=f"line {line.number}", why=line.why))
    return run


def _message(members: Members) -> Members:
    """Return a message in OpenAI's chat form."""
    who, value = as_text(members.get("from")) or "", members.get("value")
    text = as_text(value)
    if who in _CALLS and (calls := calls_in(text or "")):
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if who in _ANSWERS | _CALLS:
        return {"role": "assistant", "content": value} if text is None else chat_answer(text)
    if who in _RESULTS:
        return {"role": "tool", "content": value}
    return {"role": _ROLES.get(who, who or "user"), "content": value}


FORMAT = ImportFormat(name="sharegpt", recognizes=recognizes, read=read, counting=WHOLE)
