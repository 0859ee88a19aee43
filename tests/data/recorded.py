"""Recorded runs: calls captured through a transport that answers by itself, and runs that an agent records by hand.

Each function writes a run to a directory, and returns the path of its document.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.chat_calls import run_of
from tests.data.written import asked, called, said
from trace_recorder import TrajectoryRecorder, http_client

URL = "https://api.openai.com/v1/chat/completions"
ASK = {"role": "user", "content": "hello"}


def chunks(*texts: str) -> list[bytes]:
    """Return the events of a chat stream with these texts."""
    choices: list[dict[str, Any]] = [{"index": 0, "delta": {"content": text}, "finish_reason": None} for text in texts]
    choices[-1]["finish_reason"] = "stop"
    events = [json.dumps({"id": "c", "model": "m", "choices": [choice]}, ensure_ascii=False) for choice in choices]
    return [f"data: {event}\n\n".encode() for event in [*events, "[DONE]"]]


def streamed(*pieces: bytes) -> httpx.Response:
    """Return a response that streams these pieces."""
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=iter(pieces))


def _refuse(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def client_of(recorder: TrajectoryRecorder, *answers: Callable[[httpx.Request], httpx.Response]) -> Any:
    """Return a client whose requests get these answers in order."""
    left = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        return next(left)(request)

    return http_client(recorder=recorder, library="httpx", transport=httpx.MockTransport(answer))


def _answers(call: Any) -> list[Callable[[httpx.Request], httpx.Response]]:
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    return [
        lambda _: httpx.Response(200, json=said("I read.", call, usage=usage)),
        lambda _: httpx.Response(429, json={"error": {"type": "rate_limit", "message": "later"}}),
        lambda _: streamed(*chunks("Grü", "ße")),
        lambda _: streamed(*chunks("one", "two")),
        _refuse,
    ]


def captured(directory: Path, history: str = "auto") -> Path:
    """Record calls that were complete, streamed, refused by the server, closed early, and never answered."""
    path = directory / "captured.json"
    call = called("call_1", "read_file", path="a.py")
    with TrajectoryRecorder(path, task="capture", history=history, metadata={"seed": 1}) as recorder:  # type: ignore[arg-type]
        client = client_of(recorder, *_answers(call))
        messages = [ASK, {"role": "assistant", "content": "I read.", "tool_calls": [call]}]
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "print()" * 1000})
        client.post(URL, json=asked(ASK, tools=[{"type": "function", "function": {"name": "read_file"}}]))
        client.post(URL, json=asked(*messages))
        client.post(URL, json=asked(*messages, stream=True))
        with client.stream("POST", URL, json=asked(*messages, ASK, stream=True)) as response:
            next(response.iter_bytes())
        with suppress(httpx.ConnectError):
            client.post(URL, json=asked(ASK))
        recorder.reward("tests", 1.0, step_number=2)
        recorder.annotate("judge", {"score": 3})
        recorder.finalize(success=True, final_result={"files": ["a.py"]})
    return path


def in_deltas(directory: Path) -> Path:
    """Record the same run with a document in deltas."""
    return captured(directory, history="delta")


def by_hand(directory: Path) -> Path:
    """Record the calls and steps of an agent by hand, in several forms."""
    path = directory / "by_hand.json"
    call = {"call_id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    response = {"content": "I look.", "model": "m-1", "finish_reason": "stop", "usage": {"input_tokens": 3}}
    result = {"call_id": "c1", "name": "bash", "success": True, "result": "a.py", "error": None}
    recorder = TrajectoryRecorder(path, task="by hand", provider="anthropic", model="m", max_steps=3)
    recorder.record_llm_interaction([ASK], {**response, "tool_calls": [call]}, "anthropic", "m", tools=["bash"])
    recorder.record_agent_step(1, "calling_tool", [ASK], {**response, "tool_calls": [call]}, [call], [result])
    recorder.update_lakeview(1, "looked")
    recorder.record_llm_interaction([ASK], said("Done."), "openai", "gpt-4o")
    recorder.record_llm_interaction([ASK], TimeoutError("too slow"), "openai", "gpt-4o")
    recorder.record_agent_step(2, "error", error=ValueError("bad"), reflection="again")
    recorder.finalize(success=False)
    return path


def marked(directory: Path) -> Path:
    """Record a loop that marks its steps, its tools and a sub-agent."""
    path = directory / "marked.json"
    with TrajectoryRecorder(path, task="marked") as recorder:
        call = called("call_1", "read_file", path="a.py")
        client = client_of(recorder, lambda _: httpx.Response(200, json=said("I read.", call)))
        read_file = recorder.tool(lambda path: {"lines": [path]}, name="read_file")
        with recorder.step(), recorder.agent("reader"):
            client.post(URL, json=asked(ASK))
            read_file("a.py")
        with recorder.step(7) as step:
            step.reflection = "good"
            list(recorder.tool(lambda: (yield math.nan), name="\ud800")())
            recorder.record_llm_interaction([ASK], {"content": "Done."}, "anthropic", "m")
        with suppress(ValueError), recorder.agent("\ud800"), recorder.step():
            with recorder.tool_call("fail", call_id="x"):
                raise ValueError("\ud800")
        with recorder.step():
            running = recorder.tool(lambda: (yield 1), name="endless")()
            next(running)
            running.close()
            recorder.finalize(success=True)
    return path


def poisoned(directory: Path) -> Path:
    """Record a run with values that JSON cannot express."""
    path = directory / "poisoned.json"
    recorder = TrajectoryRecorder(path, task="a lone \ud800", metadata={"at": math.inf, "who": object})
    recorder.record_llm_interaction([ASK], {"content": "\udfff"}, "anthropic", "m\ud800")
    recorder.record_agent_step(1, "\ud800", error="\ud800")
    recorder.reward("\ud800", math.nan, explanation=None)
    recorder.annotate("set", {1, 2})
    run_of(recorder).guard.queue_failure("record \ud800", "because \ud800")
    recorder.finalize(success=True, final_result={(1, 2): b"bytes"})
    return path


def in_flight(directory: Path) -> Path:
    """Record a call without an answer, and the beginning of a stream."""
    path = directory / "moving" / "run.json"
    kept = directory / "in_flight.json"

    def keep(_: httpx.Request) -> httpx.Response:
        for file in (path, path.with_suffix(".jsonl")):
            shutil.copy(file, kept.with_suffix(file.suffix))
        return httpx.Response(200, json=said("late"))

    def pieces() -> Iterator[bytes]:
        first, *rest = chunks("one", "two" * 50_000, "three")
        yield from (first, rest[0])
        client.post(URL, json=asked(ASK, ASK))
        yield from rest[1:]

    with TrajectoryRecorder(path, task="in flight") as recorder:
        client = client_of(recorder, lambda _: streamed(*pieces()), keep)
        client.post(URL, json=asked(ASK, stream=True))
    return kept
