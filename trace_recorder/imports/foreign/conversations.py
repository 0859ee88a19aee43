"""Files that hold conversations and nothing else: one document, rows of a document, or one conversation a line.

A conversation is a list of messages, or an object with `messages` or `conversations`. `chat_messages.py`,
`anthropic_history.py` and others read the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.messages import Payload

MEMBERS = ("messages", "conversations", "conversation")
"""Under which names an object has its messages."""


def messages_of(value: Payload) -> list[Payload]:
    """Return the messages of a conversation. A value that is not a conversation has no messages."""
    if isinstance(value, list):
        return value
    members = as_dict(value)
    return next((found for name in MEMBERS if isinstance(found := members.get(name), list)), [])


def begins_with(source: Source, is_conversation: Callable[[Payload], bool]) -> bool:
    """Whether the first line of a file, its document, or the first row of that, is such a conversation."""
    lines = source.first_lines
    if lines and is_conversation(lines[0].value):
        return True
    document = source.document
    return is_conversation(document) or (_has_rows(document) and is_conversation(as_list(document)[0]))


def conversations(source: Source) -> Iterator[tuple[str, Line]]:
    """Yield a name for each conversation of a file, with its line. Rows of a document count as lines."""
    name = source.path.name.removesuffix(".json").removesuffix(".jsonl")
    document = source.document
    if _has_rows(document):
        for number, row in enumerate(as_list(document), start=1):
            yield f"{name}-{number}", Line(number, row, None if isinstance(row, dict) else "it is no object")
    elif document is not None:
        yield name, Line(1, document)
    else:
        for line in source.each_line():
            yield f"{name}-{line.number}", line


def _has_rows(document: Payload) -> bool:
    rows = as_list(document)
    return bool(rows) and bool(messages_of(as_dict(rows[0])))
