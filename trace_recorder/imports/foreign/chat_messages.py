"""Plain conversations in OpenAI's chat form: a list of messages, an object with `messages`, or lines of such objects.

Benchmarks, training sets and dumps of prompts have this form. Each message of the assistant is one call, which saw the
messages before it; nothing else is known of it. It is the last format that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.call_ids import CallNumbering
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, join_texts
from trace_recorder.imports.foreign.conversations import MEMBERS, begins_with, conversations, messages_of
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import Call, Conversation, Event, ForeignRun, Members, Missing, ToolRun
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.messages import Message, Payload, ToolCall
from trace_recorder.values.token_counts import WHOLE

_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_OF_A_SESSION = {"session_id", "sessionId", "timestamp"}
"""Members of the messages of a tool's session, which has a format of its own."""


def recognizes(source: Source) -> bool:
    """Whether the first line, or the document, is such a list, in which the assistant says something."""
    return begins_with(source, _is_conversation)


def _is_conversation(value: Payload) -> bool:
    messages = messages_of(value)
    roles = [as_text(as_dict(message).get("role")) for message in messages]
    members = [as_dict(message).keys() for message in messages]
    said = all(one & {"content", "tool_calls", "function_call"} and not one & _OF_A_SESSION for one in members)
    return said and "assistant" in roles and all(role in _ROLES for role in roles)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a document, or of each line."""
    for name, line in conversations(source):
        yield _run(name, line)


def _run(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    rest = {key: value for key, value in members.items() if key not in {*MEMBERS, "tools", "model", "id"}}
    events: list[Event] = [
        *events_of(messages_of(line.value), as_list(members.get("tools")), as_text(members.get("model")))
    ]
    if line.why is not None:
        events.append(Missing(what=f"line {line.number}", why=line.why))
    return ForeignRun(
        identity=as_text(members.get("id")) or name,
        events=events,
        model=as_text(members.get("model")),
        metadata={"row": rest} if rest else {},
    )


def events_of(
    messages: Iterable[Payload], tools: Sequence[Payload] = (), model: str | None = None, *, prompt_length: int = 0
) -> Iterator[Event]:
    """Yield the calls of a conversation, and the results of tools that no later call saw.

    Answers among the first `prompt_length` messages are examples in the prompt, not calls.
    """
    conversation, numbering = Conversation(), CallNumbering()
    unseen: list[Members] = []
    calls: dict[str, ToolCall] = {}
    numbered = (
        (position, message)
        for position, one in enumerate(messages)
        for message in openai_chat.read_message(as_dict(one))
    )
    for position, read in numbered:
        message = numbering.number(read)
        members = message.to_document()
        if message.role == "assistant" and position >= prompt_length:
            unseen.clear()
            calls |= {call.call_id: call for call in message.tool_calls}
            response = {name: value for name, value in members.items() if name != "role"} | {"content": _text(message)}
            length = len(conversation)
            yield Call(time="", conversation=conversation, length=length, response=response, model=model, tools=tools)
        elif message.role == "tool" and position >= prompt_length:
            unseen.append(members)
        conversation.add(members)
    for result in unseen:
        call_id, name = as_text(result.get("call_id")), as_text(result.get("name"))
        call = calls.get(call_id or "")
        yield ToolRun(
            time="",
            name=name or (call.name if call else ""),
            arguments=call.arguments if call else None,
            call_id=call_id,
            ended="",
            result=result.get("content"),
        )


def _text(message: Message) -> str | None:
    """Return what an assistant said as text: of several parts, that of each."""
    if not isinstance(message.content, list):
        return message.content
    return join_texts((as_text(as_dict(part).get("text")) for part in message.content), "\n\n")


FORMAT = ImportFormat(name="chat-messages", recognizes=recognizes, read=read, counting=WHOLE)
