"""Six ways in which agents' histories grow: each is 300 calls, with 3 KB of new content a call.

A pattern yields the messages of one call after another. Repeated messages are the same objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from tests.chat_calls import CHAT, Wire, said
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload

Pattern = Callable[[], Iterator[list[Payload]]]

CALLS = 300
TURN = 3000


def turn(number: int) -> list[Payload]:
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    output = f"{number}:" + "o" * TURN
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": output},
    ]


def append_only() -> Iterator[list[Payload]]:
    messages: list[Payload] = [{"role": "system", "content": "s" * TURN}, {"role": "user", "content": "mend it"}]
    for number in range(CALLS):
        yield messages
        messages = messages + turn(number)


def repeated_filler() -> Iterator[list[Payload]]:
    """Yield a history with the same sentence after each tool result: its item number is the same each time, and splits
    every range.
    """
    for number, messages in enumerate(append_only()):
        filler = {"role": "user", "content": "go on"}
        yield [*messages[:2], *(one for at in range(number) for one in (*messages[2 + 2 * at : 4 + 2 * at], filler))]


def moving_mark() -> Iterator[list[Payload]]:
    """Yield a history whose last message has a cache mark, and loses it in the next call."""
    for messages in append_only():
        yield [*messages[:-1], messages[-1] | {"cache_control": {"type": "ephemeral"}}]


def clock() -> Iterator[list[Payload]]:
    for number, messages in enumerate(append_only()):
        yield [{"role": "system", "content": f"It is {number}. " + "s" * TURN}, *messages[1:]]


def sliding_window() -> Iterator[list[Payload]]:
    for messages in append_only():
        yield [*messages[:2], *messages[2:][-40:]]


def elided_outputs() -> Iterator[list[Payload]]:
    """Yield a history from which tool outputs older than five turns are removed, each at its own time."""
    for messages in append_only():
        elided = [
            message | {"content": "[elided]"} if message["role"] == "tool" else message for message in messages[:-10]
        ]
        yield elided + messages[-10:]


PATTERNS = (append_only, repeated_filler, moving_mark, clock, sliding_window, elided_outputs)


def record(path: Path, pattern: Pattern, turns: int) -> Path:
    """Record this many calls of a pattern, each answered with the tool call that its history continues with."""
    recorder = TrajectoryRecorder(path)
    for number, messages in zip(range(turns), pattern(), strict=False):
        answer = said(None, identity=f"chat-{number}", calls=[(f"call_{number}", "bash", "{}")])
        with httpx.Client(transport=Wire(answer), trust_env=False) as client:
            recorder.wrap(client).post(CHAT, content=json.dumps({"model": "m", "messages": messages}))
    recorder.finalize()
    return path
