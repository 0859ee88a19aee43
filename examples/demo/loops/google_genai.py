"""The agent's conversation through google-genai: contents made of parts. The agent runs the tools itself."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from google import genai
from google.genai import types

from examples.demo.agent import SYSTEM, Call, Turn
from examples.demo.tools import DECLARATIONS, ToolOutcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name=d.name, description=d.description, parameters_json_schema=d.parameters)
        for d in DECLARATIONS
    ]
)


def connect(endpoint: str | None, key: str | None) -> genai.Client:
    """Return the client; without an endpoint, that of the real provider."""
    options = types.HttpOptions(base_url=endpoint) if endpoint else None
    return genai.Client(api_key=key, vertexai=False, http_options=options)


@asynccontextmanager
async def connect_async(endpoint: str | None, key: str | None) -> AsyncIterator[genai.Client]:
    """Return the same client, closed on both of its sides."""
    with connect(endpoint, key) as client:
        async with client.aio:
            yield client


class Chat:
    """Contents. Those of an answer go back unchanged, with thought signatures."""

    def __init__(self, client: genai.Client, model: str, task: str, *, thinking: bool = False) -> None:
        self._client = client
        self._model = model
        self._contents = [types.Content(role="user", parts=[types.Part.from_text(text=task)])]
        self._config = types.GenerateContentConfig(
            system_instruction=SYSTEM,
            tools=[TOOL],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            thinking_config=types.ThinkingConfig(include_thoughts=True) if thinking else None,
        )

    def ask(self) -> Turn:
        """Ask for one whole answer."""
        return self._take(_parts(self._client.models.generate_content(**self._request())))

    def ask_streaming(self) -> Turn:
        """Ask for one answer, and gather its parts as they come."""
        stream = self._client.models.generate_content_stream(**self._request())
        return self._take([part for chunk in stream for part in _parts(chunk)])

    async def ask_async(self) -> Turn:
        """Ask for one whole answer, and await it."""
        return self._take(_parts(await self._client.aio.models.generate_content(**self._request())))

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add all responses in one user content, in the order of the calls."""
        parts = []
        for call, outcome in outcomes:
            response = {"error" if outcome.failed else "result": outcome.text}
            parts.append(
                types.Part(function_response=types.FunctionResponse(id=call.call_id, name=call.name, response=response))
            )
        self._contents.append(types.Content(role="user", parts=parts))

    def _request(self) -> dict[str, Any]:
        return {"model": self._model, "contents": self._contents, "config": self._config}

    def _take(self, parts: list[types.Part]) -> Turn:
        self._contents.append(types.Content(role="model", parts=parts))
        text = "".join(part.text for part in parts if part.text and not part.thought)
        asked = (part.function_call for part in parts if part.function_call)
        return Turn(text, tuple(Call(call.id, call.name or "", call.args or {}) for call in asked))


def _parts(response: types.GenerateContentResponse) -> list[types.Part]:
    content = response.candidates[0].content if response.candidates else None
    return list(content.parts or []) if content else []
