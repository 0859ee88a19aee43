"""The agent's conversation through the OpenAI SDK: the Responses API, with nothing kept on the server."""

from __future__ import annotations

import json
from typing import Any

from examples.demo.agent import SYSTEM, Call, Turn
from examples.demo.loops.openai_chat import connect, connect_async
from examples.demo.tools import DECLARATIONS, ToolOutcome

__all__ = ["Chat", "connect", "connect_async"]

TOOLS = [
    {"type": "function", "name": d.name, "description": d.description, "parameters": d.parameters, "strict": True}
    for d in DECLARATIONS
]
THINKING = {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}


class Chat:
    """Input items. Every item of an answer goes back unchanged, with encrypted reasoning."""

    def __init__(self, client: Any, model: str, task: str, *, thinking: bool = False) -> None:
        self._responses = client.responses
        self._input: list[Any] = [{"role": "user", "content": task}]
        self._fixed = {"model": model, "instructions": SYSTEM, "tools": TOOLS, "store": False}
        if thinking:
            self._fixed |= THINKING

    def ask(self) -> Turn:
        """Ask for one whole answer."""
        return self._take(self._responses.create(input=self._input, **self._fixed))

    def ask_streaming(self) -> Turn:
        """Ask for one answer, through the SDK's own stream helper."""
        with self._responses.stream(input=self._input, **self._fixed) as stream:
            return self._take(stream.get_final_response())

    async def ask_async(self) -> Turn:
        """Ask for one whole answer, and await it."""
        return self._take(await self._responses.create(input=self._input, **self._fixed))

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add one output item for each call."""
        for call, outcome in outcomes:
            self._input.append({"type": "function_call_output", "call_id": call.call_id, "output": outcome.text})

    def _take(self, response: Any) -> Turn:
        self._input += response.output
        asked = (item for item in response.output if item.type == "function_call")
        return Turn(response.output_text, tuple(Call(c.call_id, c.name, json.loads(c.arguments)) for c in asked))
