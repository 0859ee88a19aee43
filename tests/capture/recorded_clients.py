"""An OpenAI client that records calls of a local server, and the recorded interactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai

from tests.provider import (
    Answer,
    Server,
    serving,
)
from trace_recorder import LLMInteraction, TrajectoryRecorder, load

ASK = [{"role": "user", "content": "hello"}]


@contextmanager
def recorded_client(path: Path, *answers: Answer, **options: object) -> Iterator[tuple[openai.OpenAI, Server]]:
    """Yield a wrapped OpenAI client, its server, and the path of its run."""
    with (
        serving(*answers) as server,
        TrajectoryRecorder(path, strict=True) as recorder,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", **{"max_retries": 0, **options}) as client,  # type: ignore[arg-type]
    ):
        yield recorder.wrap(client), server


def interactions(path: Path) -> list[LLMInteraction]:
    """Return the interactions of a finished run whose document agrees with its journal."""
    return list(load(path).llm_interactions)


def create(client: openai.OpenAI, **arguments: object) -> object:
    """Make a call with the same request each time."""
    return client.chat.completions.create(model="m", messages=ASK, **arguments)  # type: ignore[call-overload]
