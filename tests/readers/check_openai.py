"""Check fine-tuning rows against the types of OpenAI's own SDK, and against the rules in its guide.

needs: openai>=2 pydantic>=2.7
usage: PYTHONPATH=. python -m tests.readers.check_openai DIRECTORY
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter

from tests.readers.contents import Contents
from tests.readers.reading import Reader, finish, rows

MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
TOOLS = TypeAdapter(list[ChatCompletionToolParam])
MEMBERS = {"messages", "tools", "parallel_tool_calls"}
ROLES = {"system", "user", "assistant", "tool"}


def exhaust(value: Any) -> None:
    """Iterate over everything, because pydantic checks an Iterable of the SDK's types only while it is iterated."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            exhaust(inner)


def whole(value: Any) -> Any:
    """Return the validated values, with the lists that pydantic gives as iterators."""
    if isinstance(value, Mapping):
        return {name: whole(inner) for name, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def check(row: dict[str, Any]) -> None:
    """Raise if a row is invalid."""
    exhaust(MESSAGES.validate_python(row["messages"]))
    exhaust(TOOLS.validate_python(row.get("tools", [])))
    assert not row.keys() - MEMBERS, f"members {row.keys() - MEMBERS}"
    asked: list[str] = []
    for number, message in enumerate(row["messages"]):
        assert message["role"] in ROLES, f"role {message['role']}"
        assert ("weight" in message) == (message["role"] == "assistant"), f"weight of message {number}"
        assert message.get("weight", 0) in {0, 1}, f"weight of message {number}"
        for call in message.get("tool_calls", ()):
            assert isinstance(call["function"]["arguments"], str), f"arguments in message {number}"
            asked.append(call["id"])
        if message["role"] == "tool":
            assert message["tool_call_id"] in asked, f"message {number} answers no call"
    assert row["messages"][-1]["role"] == "assistant", "the last message is not the assistant's"
    assert any(message.get("weight") for message in row["messages"]), "nothing to learn"


reader = Reader("openai: TypeAdapters of its types, and the guide's rules", "fine-tuning rows", "openai", "pydantic")
for number, row in enumerate(rows("openai.jsonl"), start=1):
    reader.take(f"row {number}", lambda row=row: check(row))
contents = Contents("openai: contents that its types accept", "openai", "openai", "pydantic")
contents.hold(lambda held, _: [{"messages": whole(MESSAGES.validate_python(row["messages"]))} for row in held])
finish(reader, contents)
