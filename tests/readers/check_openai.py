"""Hold fine-tuning rows against the types of OpenAI's own SDK, and against the rules that its guide states beside them.

needs: openai>=2 pydantic>=2.7
usage: check_openai.py FILE.jsonl ...    from `trace-recorder export --format openai`
"""

import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter

MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
TOOLS = TypeAdapter(list[ChatCompletionToolParam])
MEMBERS = {"messages", "tools", "parallel_tool_calls"}
ROLES = {"system", "user", "assistant", "tool"}


def exhaust(value: Any) -> None:
    """Go through everything: pydantic checks what the SDK types as Iterable only when it is iterated."""
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            exhaust(inner)


def check(row: dict[str, Any]) -> None:
    """Raise where a row is none."""
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


failed = rows = 0
for name in sys.argv[1:]:
    for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), start=1):
        rows += 1
        try:
            check(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
            failed += 1
            print(f"REFUSED   {name}:{number}: {type(error).__name__}: {error}")
print(f"{rows} rows, {failed} not accepted (openai {version('openai')}, pydantic {version('pydantic')})")
sys.exit(failed > 0 or rows == 0)
