"""Records runs for the tests of the viewer: growing conversations with tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.chat_calls import Answer, asked, call, said
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload

SYSTEM: Payload = {"role": "system", "content": "Be brief."}
TASK: Payload = {"role": "user", "content": "fix the failing test"}


def used(number: int) -> Payload:
    """Return the message in which the model calls a tool for the n-th time."""
    function = {"name": "bash", "arguments": f'{{"command": "run {number}"}}'}
    made = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": f"try {number}", "tool_calls": [made]}


def gave(number: int, content: Payload = None) -> Payload:
    """Return the message with the result of the n-th tool call."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content or f"output {number}"}


def answer(number: int) -> Answer:
    """Return the provider's response whose message is the given one."""
    calls = [(f"call_{number}", "bash", f'{{"command": "run {number}"}}')]
    return said(f"try {number}", identity=f"chat-{number}", calls=calls)


def record(path: Path, prompts: Iterable[list[Payload]], *, ends: bool = True, **recorder: Payload) -> Path:
    """Record a call with each prompt. The nth answer asks for a tool. Return the path of the document."""
    made = TrajectoryRecorder(path, task="fix the failing test", **recorder)
    made.start()
    for number, prompt in enumerate(prompts, start=1):
        call(made, asked(*prompt, model="m-1", temperature=0), answer(number))
    if ends:
        made.finalize(True, "The test passes.")
    return path


def growing(turns: int) -> list[list[Payload]]:
    """Return the prompts of a conversation in which no message is removed or changed."""
    prompts: list[list[Payload]] = [[SYSTEM, TASK]]
    for number in range(1, turns):
        prompts.append([*prompts[-1], used(number), gave(number)])
    return prompts
