"""Trajectories made from a few words, for tests of turns: without a provider or a file."""

from __future__ import annotations

from typing import Any

from trace_recorder import Trajectory
from trace_recorder.formats.format_writer import view
from trace_recorder.reading.document import from_document
from trace_recorder.views import LeftOut, to_invariant_dataset

Payload = Any


def run(*calls: Payload, **root: Payload) -> Trajectory:
    """Return a trajectory of these calls, one second apart."""
    told = [
        {"timestamp": f"2025-06-12T20:00:{number:02}+00:00", "interaction_id": f"llm_{number}", **one}
        for number, one in enumerate(calls, start=1)
    ]
    return from_document({"trajectory_id": "t1", "task": "try", "llm_interactions": told, **root}, "made")


def call(messages: list[Payload], content: str | None = None, *uses: Payload, **more: Payload) -> Payload:
    """Return an answered call. A text among the messages is the user's. `more` are members of the interaction."""
    response = {"content": content, "tool_calls": list(uses) or None, "finish_reason": "stop", "model": "m-1"}
    response |= more.pop("response", {})
    about = {"provider": "openai", "model": "m", "api": "openai-chat", "duration_seconds": 0.25}
    return {**about, "input_messages": list(map(said, messages)), "response": response, **more}


def said(message: Payload) -> Payload:
    """Return a message of a document. A text is the user's."""
    return {"role": "user", "content": message} if isinstance(message, str) else message


def system(content: str) -> Payload:
    return {"role": "system", "content": content}


def assistant(content: str | None, *uses: Payload, **more: Payload) -> Payload:
    return {"role": "assistant", "content": content} | ({"tool_calls": list(uses)} if uses else {}) | more


def use(call_id: str, name: str = "bash", **arguments: Payload) -> Payload:
    """Return a tool call."""
    return {"call_id": call_id, "name": name, "arguments": arguments}


def gave(call_id: str, content: Payload) -> Payload:
    """Return a tool result as a message."""
    return {"role": "tool", "call_id": call_id, "content": content}


@view
def dataset_of_one(left_out: LeftOut, trajectory: Trajectory) -> list[str]:
    """Return all lines of a dataset of one run. Reading all of them makes the report complete."""
    lines, found = to_invariant_dataset.with_report([trajectory])
    written = list(lines)
    left_out.update(found)
    return written
