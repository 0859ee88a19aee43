"""The agent: ask the model, run the tools that it calls, tell it what came back, until it has nothing more to call.

The loop is the same for all SDKs; what differs, how messages and tools look, is in `loops/`, one file a SDK. Nothing
here knows that a run may be recorded.
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
    """The model went on calling tools for longer than the agent lets it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model asked for it; `call_id` is None where the provider gives none."""

    call_id: str | None
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: its text, and the calls that it asks for."""

    text: str
    calls: tuple[Call, ...]


class Chat(Protocol):
    """A conversation through one SDK: `ask` in three forms, each adds the answer to the conversation."""

    def ask(self) -> Turn:
        """Send the conversation and wait for the answer."""

    def ask_streaming(self) -> Turn:
        """The same, with the answer read as it comes."""

    async def ask_async(self) -> Turn:
        """The same, through the SDK's async client."""

    def tell(self, outcomes: list[tuple[Call, ToolOutcome]]) -> None:
        """Add what the tools of the last answer gave."""


def solve(chat: Chat, toolbox: Toolbox, *, streaming: bool = False) -> str:
    """Run the loop and return the model's last words."""
    ask = chat.ask_streaming if streaming else chat.ask
    for _ in range(MAX_TURNS):
        turn = ask()
        if not turn.calls:
            return turn.text
        chat.tell([(call, toolbox.run(call.name, call.arguments)) for call in turn.calls])
    raise TurnLimitReachedError(f"no answer after {MAX_TURNS} turns")


async def solve_async(chat: Chat, toolbox: Toolbox) -> str:
    """The same loop with an async client; tools called together run side by side."""
    for _ in range(MAX_TURNS):
        turn = await chat.ask_async()
        if not turn.calls:
            return turn.text
        runs = (asyncio.to_thread(toolbox.run, call.name, call.arguments) for call in turn.calls)
        chat.tell(list(zip(turn.calls, await asyncio.gather(*runs), strict=True)))
    raise TurnLimitReachedError(f"no answer after {MAX_TURNS} turns")
