"""Files that hold conversations and nothing else: one document, or one conversation a line.

A conversation is a list of messages, or an object with `messages`. `chat_messages.py` and `anthropic_history.py` read
the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.messages import Payload


def messages_of(value: Payload) -> list[Payload]:
    """Return the messages of a conversation. A value that is not a conversation has no messages."""
    return as_list(as_dict(value).get("messages") if isinstance(value, dict) else value)


def begins_with(source: Source, is_conversation: Callable[[list[Payload]], bool]) -> bool:
    """Whether the first line of a file, or its document, is such a conversation."""
    lines = source.first_lines
    return bool(lines and is_conversation(messages_of(lines[0].value))) or is_conversation(messages_of(source.document))


def conversations(source: Source) -> Iterator[tuple[str, Line]]:
    """Yield a name for each conversation of a file, with its line. A document counts as line 1."""
    name = source.path.name.removesuffix(".json").removesuffix(".jsonl")
    document = source.document
    if document is not None:
        yield name, Line(1, document)
        return
    for line in source.each_line():
        yield f"{name}-{line.number}", line
