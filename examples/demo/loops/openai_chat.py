"""The agent's conversation through the OpenAI SDK: chat completions."""

from __future__ import annotations

import json
from typing import Any

from openai import AsyncOpenAI, OpenAI

from examples.demo.agent import SYSTEM, Call, Turn
from examples.demo.tools import DECLARATIONS, ToolOutcome

TOOLS = [
    {
        "type": "function",
        "function": {"name": d.name, "description": d.description, "parameters": d.parameters, "strict": True},
    }
    for d in DECLARATIONS
]


def connect(endpoint: str | None, key: str | None) -> OpenAI:
    """Return the sync client; without an endpoint, that of the real provider."""
    return OpenAI(base_url=endpoint and f"{endpoint}/v1", api_key=key)


def connect_async(endpoint: str | None, key: str | None) -> AsyncOpenAI:
    """Return the async client."""
    return AsyncOpenAI(base_url=endpoint and f"{endpoint}/v1", api_key=key)


class Chat:
    """Messages in the form of chat completions. This API shows no thinking, so the agent asks for none."""

    def __init__(self, client: Any, model: str, task: str, *, thinking: bool = False) -> None:  # noqa: ARG002
        self._completions = client.chat.completions
        self._model = model
        self._messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]

    def ask(self) -> Turn:
        """Ask for one whole answer."""
        return self._take(self._completions.create(**self._request()))

    def ask_streaming(self) -> Turn:
        """Ask for one answer, through the SDK's own stream helper."""
        with self._completions.stream(**self._request(), stream_options={"include_usage": True}) as stream:
            stream.until_done()
            return self._take(stream.get_final_completion())

    async def ask_async(self) -> Turn:
        """Ask for one whole answer, and await it."""
        return self._take(await self._completions.create(**self._request()))

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add one tool message for each call."""
        for call, outcome in outcomes:
            self._messages.append({"role": "tool", "tool_call_id": call.call_id, "content": outcome.text})

    def _request(self) -> dict[str, Any]:
        return {"model": self._model, "messages": self._messages, "tools": TOOLS}

    def _take(self, completion: Any) -> Turn:
        message = completion.choices[0].message
        asked = message.tool_calls or []
        answer: dict[str, Any] = {"role": "assistant", "content": message.content}
        if asked:
            functions = [{"name": c.function.name, "arguments": c.function.arguments} for c in asked]
            answer["tool_calls"] = [
                {"id": c.id, "type": "function", "function": f} for c, f in zip(asked, functions, strict=True)
            ]
        self._messages.append(answer)
        calls = tuple(Call(c.id, c.function.name, json.loads(c.function.arguments)) for c in asked)
        return Turn(message.content or "", calls)
