"""Calls of a chat model through a recorded client: the transport that answers them, requests and answers.

`rich_run` records a run that has a record of every kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from trace_recorder import TrajectoryRecorder
from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload

CHAT = "https://api.openai.com/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Answer:
    """A transport's answer: bytes, whole or in pieces of a size, a status, a media type."""

    body: bytes
    status: int = 200
    media: str = "application/json"
    size: int = 0

    def pieces(self) -> Iterator[bytes] | None:
        """Return the pieces in which the bytes are sent, or None if they are sent at once."""
        if not self.size:
            return None
        return (self.body[at : at + self.size] for at in range(0, len(self.body), self.size))


class Wire(httpx.BaseTransport):
    """A transport that gives the same answer to every request, or raises it."""

    def __init__(self, answer: Answer | Exception) -> None:
        self._answer = answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if isinstance(self._answer, Exception):
            raise self._answer
        media = {"content-type": self._answer.media}
        return httpx.Response(self._answer.status, headers=media, content=self._answer.pieces() or self._answer.body)


def said(content: str | None, *, identity: str = "chat-1", calls: Iterable[tuple[str, str, str]] = ()) -> Answer:
    """Return a chat completion. `calls` are (id, name, arguments as text)."""
    message: Payload = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [_call(*call) for call in calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    whole = {"id": identity, "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}
    return Answer(json.dumps(whole).encode())


def _call(identity: str, name: str, arguments: str) -> Payload:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def streamed(*texts: str) -> Answer:
    """Return a stream of a chat completion, an event for each text, with its end."""
    events = [{"id": "chat-s", "choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return Answer("".join([*lines, "data: [DONE]\n\n"]).encode(), media="text/event-stream")


def call(recorder: TrajectoryRecorder, body: Payload, answer: Answer | Exception) -> None:
    """Send a chat request, as JSON text or as a value, through a recorded client."""
    content = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    with httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(CHAT, content=content.encode())


def asked(*messages: Payload, **parameters: Payload) -> Payload:
    """Return a chat request. A text is a user's message."""
    listed = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
    return {"model": "m", "messages": listed, **parameters}


TOOL = {"type": "function", "function": {"name": "bash", "description": "run", "parameters": {"type": "object"}}}


def rich_run(path: Path) -> Path:
    """Record a run with a record of every kind, and return the path of its document."""
    recorder = TrajectoryRecorder(path, task="mend it", max_steps=5, metadata={"seed": 7}, strict=True)
    recorder.start()
    call(recorder, asked("hello", tools=[TOOL]), said(None, calls=[("c1", "bash", '{"command": "ls"}')]))
    answered = [asked("hello")["messages"][0], {"role": "tool", "tool_call_id": "c1", "content": "a.py"}]
    call(recorder, asked(*answered, stream=True), streamed("Wör", "ld"))
    call(recorder, asked("too much"), Answer(b'{"error":{"type":"rate_limit","message":"slow"}}', status=429))
    call(recorder, asked("nobody there"), _refused(recorder))
    recorder.record_llm_interaction(asked("by hand")["messages"], {"content": "yes", "id": "h1"}, "ollama", "l", ["t"])
    recorder.record_agent_step(1, "completed", asked("by hand")["messages"], {"content": "yes"}, reflection="easy")
    recorder.record_agent_step(2, "error", error=ValueError("no"), tool_results=[{"call_id": "c1", "result": 3}])
    recorder.update_lakeview(1, "it went well")
    recorder.reward("tests", 0.5, step_number=1)
    recorder.annotate("label", {"good": True})
    run_of(recorder).guard.queue_failure("read the clock", "there is none")
    recorder.finalize(success=True, final_result="mended")
    return recorder.trajectory_path


def run_of(recorder: TrajectoryRecorder) -> Run:
    """Return the run that a recorder records. It begins if necessary."""
    run = RecorderTarget(recorder).open_run()
    assert run is not None
    return run


def is_running(recorder: TrajectoryRecorder) -> bool:
    """Return whether a recorder has an open run."""
    return RecorderTarget(recorder).is_running()


def _refused(recorder: TrajectoryRecorder) -> Answer:
    """Make a call whose connection fails and, in the same context, a call whose error body is not JSON."""
    try:
        call(recorder, asked("nobody there"), httpx.ConnectError("refused"))
    except httpx.ConnectError:
        return Answer(b"<html>Bad gateway</html>", status=502, media="text/html")
    raise AssertionError("the provider's own exception passes")
