"""The agent: ask the model, run the tools that it calls, send the results back, until it calls no more tools.

The loop is the same for all SDKs. `loops/` has the form of messages and tools, one file for each SDK. Nothing here
knows that a run may be recorded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from examples.demo.tools import Toolbox, ToolOutcome

MAX_TURNS = 20
SYSTEM = (
    "You are a careful programmer. You work in one directory, with the tools you are given. "
    "Look before you change anything, and run the tests after every change."
)


class TurnLimitReachedError(Exception):
    """The model called tools in more turns than the agent allows."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model. `call_id` is None if the provider gives no id."""

    call_id: str | None
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: its text, and its tool calls."""

    text: str
    calls: tuple[Call, ...]


class Chat(Protocol):
    """A conversation through one SDK. `ask` has three forms, and each adds the answer to the conversation."""

    def ask(self) -> Turn:
        """Send the conversation and wait for the answer."""

    def ask_streaming(self) -> Turn:
        """Send the conversation, and read the answer as a stream."""

    async def ask_async(self) -> Turn:
        """Send the conversation through the SDK's async client."""

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add the results of the tools that the last answer called."""


def solve(chat: Chat, toolbox: Toolbox, *, streaming: bool = False) -> str:
    """Run the loop, and return the text of the model's last answer."""
    ask = chat.ask_streaming if streaming else chat.ask
    for _ in range(MAX_TURNS):
        turn = ask()
        if not turn.calls:
            return turn.text
        chat.tell([(call, toolbox.run(call.name, call.arguments)) for call in turn.calls])
    raise TurnLimitReachedError(f"no answer after {MAX_TURNS} turns")


async def solve_async(chat: Chat, toolbox: Toolbox) -> str:
    """Run the same loop with an async client. Tools that are called together run side by side."""
    for _ in range(MAX_TURNS):
        turn = await chat.ask_async()
        if not turn.calls:
            return turn.text
        runs = (asyncio.to_thread(toolbox.run, call.name, call.arguments) for call in turn.calls)
        chat.tell(list(zip(turn.calls, await asyncio.gather(*runs), strict=True)))
    raise TurnLimitReachedError(f"no answer after {MAX_TURNS} turns")
