"""Small runs for the rules of the gate, recorded by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.figures.gate.checked_run import CheckedRun

Payload = Any
SYSTEM = {"role": "system", "content": "Be kind."}
QUESTION = {"role": "user", "content": "Which colour has sencha?"}


def tool(name: str, identity: str = "", **arguments: object) -> Payload:
    """Return a tool call."""
    return {"call_id": identity or f"call_{name}", "name": name, "arguments": arguments}


def answer(content: str | None, *calls: Payload, tokens: int = 10, cost: float | None = 0.5) -> Payload:
    """Return an answer that states its tokens, and a cost if it is not None."""
    usage: dict[str, float] = {"input_tokens": tokens, "output_tokens": 1}
    if cost is not None:
        usage["cost"] = cost
    return {"content": content, "tool_calls": [*calls], "usage": usage}


def recorded_run(
    path: Path,
    answers: Sequence[Payload],
    *,
    prompt: Sequence[Payload] = (SYSTEM, QUESTION),
    model: str = "m",
    task: str | None = "tea",
    **ending: Payload,
) -> Path:
    """Record a run in which a model answers in turn, and return its file. `ending` goes to `finalize`."""
    with TrajectoryRecorder(path, task=task, strict=True) as recorder:
        messages = [*prompt]
        for given in answers:
            recorder.record_llm_interaction([*messages], given, "openai", model)
            if isinstance(given, dict):
                messages.append({"role": "assistant", "content": given["content"], "tool_calls": given["tool_calls"]})
                results = ({"role": "tool", "tool_call_id": call["call_id"]} for call in given["tool_calls"])
                messages += ({**result, "content": "done"} for result in results)
        recorder.finalize(**ending)
    return path


def checked(path: Path, **members: Payload) -> CheckedRun:
    """Return a run as the rules see it, with other values of some members."""
    return CheckedRun(replace(load(path), **members))
