"""Journals that are written record by record, one second apart from a fixed time, so that all printed values
are known.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import compress, crc32

from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.values.messages import Payload

BEGAN = datetime(2025, 6, 12, 20, 5, 46, tzinfo=UTC)
ID = "0123456789abcdef0123456789abcdef"
HEADERS = {"content-type": "application/json"}


class Writing:
    """A journal that is being written. If its host is `elsewhere`, it is unknown whether the run goes on."""

    def __init__(self, path: Path, host: str = "elsewhere", **members: Payload) -> None:
        self.path = path
        self.journal = Journal.create(path)
        self._items: dict[str, int] = {}
        self._seconds = 0
        where = {"host": host, "pid": 1, "process_start": 0.0, "python": "3.11.7", "platform": "linux"}
        told = {"task": None, "provider": None, "model": None, "max_steps": None, "metadata": {}, **members}
        self.add("start", schema=SCHEMA, version=VERSION, trajectory_id=ID, **where, **told)

    def add(self, kind: str, **data: Payload) -> None:
        """Write a record."""
        at = (BEGAN + timedelta(seconds=self._seconds)).isoformat(timespec="microseconds")
        self._seconds += 1
        self.journal.append(kind, json.dumps(data, ensure_ascii=False), at)

    def add_body(self, kind: str, body: Mapping[str, Payload], **data: Payload) -> None:
        """Write a record whose body is split: each object in a list is an item."""
        lists = {name: value for name, value in body.items() if isinstance(value, list) and dict in map(type, value)}
        numbers = {name: [self._item(element) for element in value] for name, value in lists.items()}
        items = {name: [[number, number] for number in found] for name, found in numbers.items()}
        self.add(kind, **data, body={**body, **dict.fromkeys(lists)}, items=items)

    def _item(self, element: Payload) -> int:
        """Return the number of an item. A new item is written first."""
        text = json.dumps(element)
        if text not in self._items:
            self._items[text] = len(self._items)
            self.add("item", n=self._items[text], value=element)
        return self._items[text]

    def request(self, call: int, body: Payload, attempt: int = 0, **more: Payload) -> None:
        """Write the request of an OpenAI chat call."""
        where = {"method": "POST", "url": "https://api.openai.com/v1/chat/completions", "headers": HEADERS}
        told = {"interaction_id": f"llm_{call}", "attempt": attempt, "api": "openai-chat", "provider": "openai"}
        self.add_body("llm_request", body, **told, **where, **more)

    def response(self, call: int, attempt: int = 0, **more: Payload) -> None:
        """Write a response. By default it is complete, with status 200, after 1.5 seconds."""
        told = {"status": 200, "headers": HEADERS, "duration_seconds": 1.5, "complete": True}
        self.add("llm_response", interaction_id=f"llm_{call}", attempt=attempt, **(told | more))

    def stream(self, call: int, text: str, attempt: int = 0) -> None:
        """Write a part of a stream."""
        packed = base64.b64encode(compress(text.encode())).decode()
        known = {"status": 200, "headers": HEADERS, "time_to_first_token_seconds": 0.25}
        about = {"interaction_id": f"llm_{call}", "attempt": attempt, **known}
        self.add("llm_stream", **about, bytes=len(text.encode()), zlib=packed)


def asked(*messages: Payload, **more: Payload) -> dict[str, Payload]:
    """Return the body of a chat request."""
    return {"model": "gpt-4o", "messages": list(messages), **more}


def said(content: str | None, *calls: Payload, **more: Payload) -> dict[str, Payload]:
    """Return the body of a chat response."""
    message = {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "chatcmpl-1", "model": "gpt-4o-2024-08-06", "choices": [choice], **more}


def called(call_id: str, name: str, **arguments: Payload) -> dict[str, Payload]:
    """Return a tool call in the form of a chat response."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def change(path: Path, edit: Callable[[dict[str, Payload]], object]) -> None:
    """Change the records of a journal, each with a correct CRC. A record for which `edit` returns False is removed."""
    lines = []
    for line in path.read_bytes().splitlines(keepends=True):
        record: dict[str, Payload] = json.loads(line)
        if edit(record) is not False:
            lines.append(line if record == json.loads(line) else _line(record))
    path.write_bytes(b"".join(lines))


def _line(record: Mapping[str, Payload]) -> bytes:
    members = {name: value for name, value in record.items() if name != "crc"}
    head = json.dumps(members, ensure_ascii=False, separators=(",", ":"))[:-1].encode()
    return b'%s,"crc":"%08x"}\n' % (head, crc32(head))
