"""A model's answers to the examples."""

from __future__ import annotations

from tests.provider import CHAT

CALL = {
    **CHAT,
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "multiply", "arguments": '{"a": 17, "b": 23}'},
                    }
                ],
            },
        }
    ],
}
