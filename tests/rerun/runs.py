"""Helpers for runs to replay: an OpenAI client, a server's answers, and recordings of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai

from tests.provider import Answer, serving
from trace_recorder import TrajectoryRecorder

NOWHERE = "http://127.0.0.1:9/v1"
"""An address where no server listens: each request fails at once."""
KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"


def said(text: str, identity: str = "c1") -> Answer:
    """Return a chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": identity, "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Answer([json.dumps(body).encode()])


made_clients: list[openai.OpenAI] = []


def client(url: str = NOWHERE, **options: Any) -> openai.OpenAI:
    made_clients.append(openai.OpenAI(api_key=KEY, base_url=url, **options))
    return made_clients[-1]


def ask(made: openai.OpenAI, text: str = "Please list the files", **more: Any) -> str:
    """Return the model's answer to one message."""
    answer = made.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **more)
    return answer.choices[0].message.content or ""


def record(path: Path, answers: list[Answer], act: Callable[[openai.OpenAI], object]) -> object:
    """Record an agent's work with a client whose server gives these answers. Return the agent's result."""
    with serving(*answers) as server, TrajectoryRecorder(path, strict=True) as recorder:
        return act(recorder.wrap(client(f"{server.url}/v1")))
