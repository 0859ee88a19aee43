"""One run of the agent: a new project, a client of one SDK in one form, and whether the tests pass at the end.

Nothing here knows the recorder. The caller of `run` may pass a function that takes the client and returns a recorded
one. Without it, the agent runs unrecorded.
"""

from __future__ import annotations

import asyncio
import importlib
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from examples.demo import project
from examples.demo.agent import Chat, solve, solve_async
from examples.demo.tools import Toolbox

Form = Literal["sync", "async", "streaming"]
Client = Any
Wrap = Callable[[Client], Client]

LOOPS = {
    "openai": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "google": "google_genai",
    "ollama": "ollama_chat",
}
"""The module in `loops/` for each name that a run may ask for. It is imported when it is needed."""


class Loop(Protocol):
    """The functions of a module in `loops/`."""

    Chat: Callable[..., Chat]

    def connect(self, endpoint: str | None, key: str | None) -> AbstractContextManager[Client]:
        """Return a sync client."""

    def connect_async(self, endpoint: str | None, key: str | None) -> AbstractAsyncContextManager[Client]:
        """Return an async client."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run to make: an SDK, a form, a model. Without an `endpoint`, the real provider answers."""

    sdk: str
    form: Form
    model: str
    endpoint: str | None = None
    key: str | None = None
    thinking: bool = False

    @property
    def provider(self) -> str:
        """Return the provider. An SDK may have several APIs of one provider."""
        return self.sdk.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The text of the model's last answer, and whether the tests really pass."""

    answer: str
    success: bool


def run(job: Job, wrap: Wrap = lambda client: client) -> Outcome:
    """Let the agent fix a new project, and check the result."""
    loop: Loop = importlib.import_module(f"examples.demo.loops.{LOOPS[job.sdk]}")
    with tempfile.TemporaryDirectory(prefix="basket-") as directory:
        root = Path(directory)
        project.create(root)
        if job.form == "async":
            answer = asyncio.run(_run_async(loop, job, wrap, Toolbox(root)))
        else:
            answer = _run_sync(loop, job, wrap, Toolbox(root))
        return Outcome(answer, project.tests_pass(root))


def _run_sync(loop: Loop, job: Job, wrap: Wrap, toolbox: Toolbox) -> str:
    with loop.connect(job.endpoint, job.key) as client:
        chat = loop.Chat(wrap(client), job.model, project.TASK, thinking=job.thinking)
        return solve(chat, toolbox, streaming=job.form == "streaming")


async def _run_async(loop: Loop, job: Job, wrap: Wrap, toolbox: Toolbox) -> str:
    async with loop.connect_async(job.endpoint, job.key) as client:
        chat = loop.Chat(wrap(client), job.model, project.TASK, thinking=job.thinking)
        return await solve_async(chat, toolbox)
