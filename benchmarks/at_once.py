"""Many async agents on one event loop, and how late the loop wakes a second task.

Between their calls agents wait, as for a model, so that the loop has idle time. The ticking task then measures how long
other tasks block the loop, and not that there is too much work. The waits are the same in every lap.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from benchmarks.contenders import Messages, Unrecorded
from benchmarks.workloads import SYSTEM, Conversation, ask, history, said, text

TICK = 0.001


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@dataclass(frozen=True)
class Agents(Conversation):
    """`agents` conversations at once. `calls` is the number of calls of all agents together."""

    agents: int = 32
    pause: float = 0.3
    """How many seconds an agent waits between its calls, on average."""

    def client(self, url: str) -> Any:
        """Return the client that all agents of a process share."""
        openai = import_module("openai")
        return openai.AsyncOpenAI(api_key="sk-bench", base_url=f"{url}/v1", max_retries=0)

    def warm(self, client: Any, contender: Unrecorded) -> Messages:
        """Make one call of each agent at once, so that there are as many connections."""
        messages = [SYSTEM, *history(self.before)] if self.before else [SYSTEM]
        _loop().run_until_complete(self._calls(client, contender, messages, 1, 0.0))
        return messages

    def run(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, float]:
        """Make all calls. Return the largest lateness of the loop, and the lateness that a hundredth of the ticks
        exceeds, in seconds.
        """
        late = _loop().run_until_complete(self._watched(client, contender, messages))
        late.sort()
        return {"stall": late[-1], "stall_p99": late[len(late) * 99 // 100]}

    async def _watched(self, client: Any, contender: Unrecorded, messages: Messages) -> list[float]:
        late: list[float] = []
        ticking = asyncio.create_task(_tick(late))
        await self._calls(client, contender, messages, self.calls // self.agents, self.pause)
        ticking.cancel()
        return late

    async def _calls(self, client: Any, contender: Unrecorded, messages: Messages, turns: int, pause: float) -> None:
        agents = (self._agent(client, contender, [*messages], number, turns, pause) for number in range(self.agents))
        await asyncio.gather(*agents)

    async def _agent(  # noqa: PLR0913, PLR0917 - what an agent is told
        self, client: Any, contender: Unrecorded, messages: Messages, number: int, turns: int, pause: float
    ) -> None:
        chance = random.Random(number)
        for turn in range(turns):
            await asyncio.sleep(pause * 2 * chance.random())
            messages.append({"role": "user", "content": text(number * 1000 + turn, self.size)})
            answer = await ask(client, messages)
            contender.record(messages, answer)
            messages.append(said(answer.choices[0].message.content, messages))


async def _tick(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - began - TICK)
