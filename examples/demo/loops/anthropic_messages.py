"""The agent's conversation through the Anthropic SDK: messages, with a cached system prompt."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic, AsyncAnthropic

from examples.demo.agent import SYSTEM, Call, Turn
from examples.demo.tools import DECLARATIONS, ToolOutcome

TOOLS = [{"name": d.name, "description": d.description, "input_schema": d.parameters} for d in DECLARATIONS]
SYSTEM_BLOCKS = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]


def connect(endpoint: str | None, key: str | None) -> Anthropic:
    """Return the sync client; without an endpoint, that of the real provider."""
    return Anthropic(base_url=endpoint, api_key=key)


def connect_async(endpoint: str | None, key: str | None) -> AsyncAnthropic:
    """Return the async client."""
    return AsyncAnthropic(base_url=endpoint, api_key=key)


class Chat:
    """Messages made of blocks. The blocks of an answer go back unchanged, with signed thinking."""

    def __init__(self, client: Any, model: str, task: str, *, thinking: bool = False) -> None:
        self._endpoint = client.messages
        self._messages: list[Any] = [{"role": "user", "content": task}]
        self._fixed = {"model": model, "max_tokens": 4096, "system": SYSTEM_BLOCKS, "tools": TOOLS}
        if thinking:
            self._fixed["thinking"] = {"type": "enabled", "budget_tokens": 1024}

    def ask(self) -> Turn:
        """Ask for one whole answer."""
        return self._take(self._endpoint.create(messages=self._messages, **self._fixed))

    def ask_streaming(self) -> Turn:
        """Ask for one answer, through the SDK's own stream helper."""
        with self._endpoint.stream(messages=self._messages, **self._fixed) as stream:
            return self._take(stream.get_final_message())

    async def ask_async(self) -> Turn:
        """Ask for one whole answer, and await it."""
        return self._take(await self._endpoint.create(messages=self._messages, **self._fixed))

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add all results in one user message."""
        results = [
            {"type": "tool_result", "tool_use_id": call.call_id, "content": outcome.text, "is_error": outcome.failed}
            for call, outcome in outcomes
        ]
        self._messages.append({"role": "user", "content": results})

    def _take(self, message: Any) -> Turn:
        self._messages.append({"role": "assistant", "content": message.content})
        text = "".join(block.text for block in message.content if block.type == "text")
        asked = (block for block in message.content if block.type == "tool_use")
        return Turn(text, tuple(Call(block.id, block.name, dict(block.input)) for block in asked))
