"""The agent's conversation through the ollama SDK: chat."""

from __future__ import annotations

from typing import Any

from ollama import AsyncClient, ChatResponse, Client

from examples.demo.agent import SYSTEM, Call, Turn
from examples.demo.tools import DECLARATIONS, ToolOutcome

TOOLS = [
    {"type": "function", "function": {"name": d.name, "description": d.description, "parameters": d.parameters}}
    for d in DECLARATIONS
]


def connect(endpoint: str | None, key: str | None) -> Client:  # noqa: ARG001 - a local Ollama asks for no key
    """Return the sync client; without an endpoint, that of the machine's own Ollama (or OLLAMA_HOST)."""
    return Client(host=endpoint)


def connect_async(endpoint: str | None, key: str | None) -> AsyncClient:  # noqa: ARG001 - as above
    """Return the async client."""
    return AsyncClient(host=endpoint)


class Chat:
    """Messages in Ollama's form. Calls have no ids; the order and the names distinguish results."""

    def __init__(self, client: Any, model: str, task: str, *, thinking: bool = False) -> None:
        self._client = client
        self._messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
        self._fixed = {"model": model, "tools": TOOLS, "think": thinking or None}

    def ask(self) -> Turn:
        """Ask for one whole answer."""
        return self._take([self._client.chat(messages=self._messages, **self._fixed)])

    def ask_streaming(self) -> Turn:
        """Ask for one answer, and gather its pieces as they come."""
        return self._take(list(self._client.chat(messages=self._messages, stream=True, **self._fixed)))

    async def ask_async(self) -> Turn:
        """Ask for one whole answer, and await it."""
        return self._take([await self._client.chat(messages=self._messages, **self._fixed)])

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add one tool message for each call."""
        for call, outcome in outcomes:
            self._messages.append({"role": "tool", "tool_name": call.name, "content": outcome.text})

    def _take(self, pieces: list[ChatResponse]) -> Turn:
        messages = [piece.message for piece in pieces]
        asked = [call for message in messages for call in message.tool_calls or ()]
        text = "".join(message.content or "" for message in messages)
        answer = {"role": "assistant", "content": text, "tool_calls": asked or None}
        answer["thinking"] = "".join(message.thinking or "" for message in messages) or None
        self._messages.append(answer)
        return Turn(text, tuple(Call(None, c.function.name, dict(c.function.arguments)) for c in asked))
