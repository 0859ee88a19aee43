"""ChatGPT's export, `conversations.json`: a list of conversations, each a tree of messages. Each conversation is a run.

`mapping` has the nodes by their ids, with `parent`, `children` and `message`. If the user regenerated an answer or
edited a message, a node has several children. Each child after the first continues a new branch of the conversation.
Consecutive messages of the assistant are one answer. A `recipient` other than "all" is the name of the tool that the
message calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import (
    arguments_of,
    as_dict,
    as_elements,
    as_list,
    as_text,
    content_of,
    is_nonempty,
    join_texts,
    text_part,
)
from trace_recorder.formats.foreign_runs.agent_history import Position
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import joined_text, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import WHOLE

_THOUGHTS = ("thoughts", "reasoning_recap")
_TEXTS = ("text", "result", "content")
"""The members that may have the text of a content without a list of parts."""
_EXTRA = ("status", "end_turn", "channel")


def recognizes(source: Source) -> bool:
    """Return whether the document is a conversation of ChatGPT, or a list that begins with such a conversation."""
    if source.head.lstrip()[:1] not in (b"[", b"{"):
        return False
    return any(map(_is_conversation, _conversations(source)[:1]))


def _is_conversation(value: Payload) -> bool:
    members = as_dict(value)
    nodes = [as_dict(node) for node in as_dict(members.get("mapping")).values()]
    return bool(nodes) and {"title", "current_node"} <= members.keys() and all("children" in node for node in nodes)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each conversation."""
    name = source.path.name.partition(".")[0]
    for number, members in enumerate(map(as_dict, _conversations(source)), start=1):
        run = ForeignRun(
            identity=as_text(members.get("conversation_id")) or as_text(members.get("id")) or f"{name}-{number}",
            provider="openai",
            model=as_text(members.get("default_model_slug")),
            start_time=stated_time(members.get("create_time")),
            end_time=stated_time(members.get("update_time")),
            source=without_none(title=members.get("title"), current_node=members.get("current_node")),
        )
        reader = _ConversationReader(run, as_dict(members.get("mapping")))
        reader.read_nodes()
        reader.finish()
        reader.keep_rest("conversation", members, "mapping")
        yield run


def _conversations(source: Source) -> list[Payload]:
    return as_elements(source.document)


class _ConversationReader(SessionReader):
    """Reads one conversation, from its first node to the last leaf."""

    def __init__(self, run: ForeignRun, nodes: Members) -> None:
        super().__init__(run)
        self.nodes = {key: as_dict(node) for key, node in nodes.items()}

    def read_nodes(self) -> None:
        roots = [key for key, node in self.nodes.items() if as_text(node.get("parent")) not in self.nodes]
        pending: list[tuple[str, Position, str | None]] = [
            (key, self.history.position, None) for key in reversed(roots)
        ]
        visited: set[str] = set()
        while pending:
            key, position, call_id = pending.pop()
            if key in visited:
                self.add_gap(f"node {key}", "it is in the tree twice")
                continue
            if key not in self.nodes:
                self.add_gap(f"node {key}", "it is not in the file")
                continue
            self.history.return_to(position)
            last, call_id = self._read_node(key, call_id, visited)
            position = self.history.position
            pending += [(child, position, call_id) for child in reversed(self._children(last))]
        if unread := len(self.nodes) - len(visited):
            self.add_gap(f"{unread} nodes", "no path leads to them")

    def _children(self, key: str) -> list[str]:
        return [child for child in as_list(self.nodes[key].get("children")) if isinstance(child, str)]

    def _read_node(self, key: str, call_id: str | None, visited: set[str]) -> tuple[str, str | None]:
        """Read a node, or all nodes of an answer.

        Return the last node, and the id of the tool call that the next node may answer.
        """
        visited.add(key)
        message = self._message(key)
        role = _role(message)
        if role == "assistant":
            return self._read_answer(key, visited)
        content, time = _content(message), stated_time(message.get("create_time"))
        if role == "tool":
            name = as_text(as_dict(message.get("author")).get("name"))
            self.history.add(Message("tool", content, call_id=call_id, name=name), time)
            return key, call_id
        if is_nonempty(content):
            self.history.add(Message(role or "system", content), time)
            if role == "user":
                self.note_task(content)
        return key, None

    def _message(self, key: str) -> Members:
        return as_dict(self.nodes[key].get("message"))

    def _read_answer(self, key: str, visited: set[str]) -> tuple[str, str | None]:
        """Read consecutive messages of the assistant as one answer. A tool call ends the answer."""
        keys = [key]
        while not _is_call(self._message(key)) and len(children := self._children(key)) == 1:
            key = children[0]
            if key in visited or key not in self.nodes or _role(self._message(key)) != "assistant":
                break
            visited.add(key)
            keys.append(key)
        messages = [self._message(key) for key in keys]
        response = _response(keys, messages)
        call = self.history.call(stated_time(messages[0].get("create_time")), response)
        call.provider, call.model = "openai", response.model or self.run.model
        status = as_text(messages[-1].get("status"))
        if status in ("in_progress", "finished_partial_completion"):
            call.complete, call.ended_by = False, status
        self.note_model(response.model)
        call_id: str | None = None
        for tool_call in response.tool_calls[-1:]:
            call_id = tool_call.call_id
        return keys[-1], call_id


def _response(keys: list[str], messages: list[Members]) -> LLMResponse:
    """Return messages of the assistant as one response. `keys` are the keys of the nodes that have these messages."""
    last = messages[-1]
    metadata = as_dict(last.get("metadata"))
    calls = (_tool_call(message, key) for key, message in zip(keys, messages, strict=True) if _is_call(message))
    texts: list[str | None] = []
    for message in messages:
        kind = as_text(as_dict(message.get("content")).get("content_type"))
        if not _is_call(message) and kind not in _THOUGHTS:
            texts.append(joined_text(_content(message), "\n"))
    return LLMResponse(
        join_texts((text for text in texts if text), "\n\n"),
        reasoning=join_texts((thought for message in messages if (thought := _thought(message))), "\n\n"),
        tool_calls=tuple(calls),
        finish_reason=as_text(as_dict(metadata.get("finish_details")).get("type")),
        model=as_text(metadata.get("model_slug")),
        id=as_text(last.get("id")),
        extra={name: last[name] for name in _EXTRA if last.get(name) is not None},
    )


def _role(message: Members) -> str | None:
    return as_text(as_dict(message.get("author")).get("role"))


def _is_call(message: Members) -> bool:
    return (as_text(message.get("recipient")) or "all") != "all"


def _tool_call(message: Members, key: str) -> ToolCall:
    return ToolCall(
        as_text(message.get("id")) or key,
        as_text(message.get("recipient")) or "",
        arguments_of(joined_text(_content(message), "\n")),
    )


def _content(message: Members) -> str | list[Payload] | None:
    """Return the content of a message: its texts, and its other parts unchanged."""
    content = as_dict(message.get("content"))
    if isinstance(parts := content.get("parts"), list):
        return content_of([_part(part) for part in parts if part != ""])
    text = next((text for name in _TEXTS if (text := as_text(content.get(name))) is not None), None)
    if text is None and len(content) > 1:
        return [content]
    return text


def _part(part: Payload) -> Payload:
    if isinstance(part, str):
        return text_part(part)
    return part


def _thought(message: Members) -> str | None:
    thoughts = as_list(as_dict(message.get("content")).get("thoughts"))
    return join_texts((as_text(as_dict(thought).get("content")) for thought in thoughts), "\n\n")


FORMAT = Format(name="chatgpt", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
