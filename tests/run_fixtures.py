"""What the tests record with: a transport that answers with given bytes, journals made by hand, processes of their own.

`rich_run` records one run that has a record of every kind. `line` and `journal_of` write records without the package,
by the format alone. `json_texts` gives JSON as anyone might write it: any white space, any escapes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from zlib import crc32

import httpx
from hypothesis import strategies as st

from trace_recorder import TrajectoryRecorder
from trace_recorder.derive.fold import Fold
from trace_recorder.storage.journal import Record, read
from trace_recorder.values.trajectory import Status, Trajectory

Payload = Any

ROOT = Path(__file__).parents[1]
CHAT = "https://api.openai.com/v1/chat/completions"
TIME = "2025-06-12T22:05:46.433797+00:00"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the wire gives back: bytes, in pieces of a size or whole, a status, a media type."""

    body: bytes
    status: int = 200
    media: str = "application/json"
    size: int = 0

    def pieces(self) -> Iterator[bytes] | None:
        """The pieces in which the bytes come; None where they are there at once."""
        if not self.size:
            return None
        return (self.body[at : at + self.size] for at in range(0, len(self.body), self.size))


class Wire(httpx.BaseTransport):
    """A transport that gives the same answer to everything, or raises it."""

    def __init__(self, answer: Answer | Exception) -> None:
        self._answer = answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if isinstance(self._answer, Exception):
            raise self._answer
        media = {"content-type": self._answer.media}
        return httpx.Response(self._answer.status, headers=media, content=self._answer.pieces() or self._answer.body)


def said(content: str | None, *, identity: str = "chat-1", calls: Iterable[tuple[str, str, str]] = ()) -> Answer:
    """A chat completion; `calls` are (id, name, arguments as text)."""
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
    """A stream of a chat completion, one event a text, with its end."""
    events = [{"id": "chat-s", "choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return Answer("".join([*lines, "data: [DONE]\n\n"]).encode(), media="text/event-stream")


def call(recorder: TrajectoryRecorder, body: Payload, answer: Answer | Exception) -> None:
    """Send a chat request, as JSON text or as its value, through a client that is recorded."""
    content = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    with httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(CHAT, content=content.encode())


def asked(*messages: Payload, **parameters: Payload) -> Payload:
    """A chat request; a text is a user's message."""
    listed = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    return {"model": "m", "messages": listed, **parameters}


TOOL = {"type": "function", "function": {"name": "bash", "description": "run", "parameters": {"type": "object"}}}


def rich_run(path: Path) -> Path:
    """Record a run with a record of every kind; return the path of its document."""
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
    recorder._lifecycle.guard.keep("read the clock", "there is none")
    recorder.finalize(success=True, final_result="mended")
    return recorder.trajectory_path


def _refused(recorder: TrajectoryRecorder) -> Answer:
    """An error body that is no JSON; before it, in the same context, a connection that fails."""
    try:
        call(recorder, asked("nobody there"), httpx.ConnectError("refused"))
    except httpx.ConnectError:
        return Answer(b"<html>Bad gateway</html>", status=502, media="text/html")
    raise AssertionError("the provider's own exception passes")


def line(seq: int, kind: str, data: Payload, time: str = TIME) -> bytes:
    """One line of a journal, by the format: without the package."""
    head = f'{{"seq":{seq},"time":"{time}","kind":"{kind}","data":{json.dumps(data)}'.encode()
    return b'%s,"crc":"%08x"}\n' % (head, crc32(head))


def journal_of(*records: tuple[str, Payload]) -> bytes:
    """A whole journal of (kind, data)."""
    return b"".join(line(seq, kind, data) for seq, (kind, data) in enumerate(records, start=1))


def records_of(path: Path) -> list[Record]:
    """Every record of the journal of a document; a damaged line is a failure."""
    found = list(read(path.with_suffix(".jsonl").read_bytes()))
    assert all(isinstance(one, Record) for one in found)
    return [one for one in found if isinstance(one, Record)]


def folded(data: bytes, status: Status = "unknown") -> Trajectory:
    """What a journal's bytes say."""
    fold = Fold()
    for record in read(data):
        fold.add(record)
    return fold.trajectory(status)


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Stop(BaseException):
    """What Ctrl-C is: an exception at any moment."""


def interrupted(act: Callable[[], None], at: int) -> bool:
    """Do something, interrupted at the nth moment within the package at which Python hears of Ctrl-C.

    These are where a function begins, and where a call of a built-in one has returned. Returns whether it came so far.
    """
    left = at

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(str(ROOT / "trace_recorder")):
            left -= 1
            if left == 0:
                raise Stop

    sys.setprofile(profile)
    with suppress(Stop):
        act()
    sys.setprofile(None)
    return left <= 0


def exactly(value: Payload) -> str:
    """A value of JSON as a text in which 0, 0.0 and false differ, and the order of names counts."""
    return json.dumps(value)


scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    scalars | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=5)


def json_texts(values: st.SearchStrategy[Payload]) -> st.SearchStrategy[str]:
    """JSON texts of values, with white space and escapes as they come."""
    return st.builds(_spelled, values, st.randoms(use_true_random=False))


def _spelled(value: Payload, random: Random) -> str:
    def space() -> str:
        return random.choice(("", "", "", " ", "\n", "\r\n\t"))

    if isinstance(value, str):
        return _spelled_text(value, random)
    if isinstance(value, list):
        return "[" + ",".join(space() + _spelled(one, random) + space() for one in value) + space() + "]"
    if isinstance(value, dict):
        names = ((_spelled_text(name, random), _spelled(one, random)) for name, one in value.items())
        return "{" + ",".join(space() + name + space() + ":" + space() + one for name, one in names) + space() + "}"
    return json.dumps(value)


def _spelled_text(text: str, random: Random) -> str:
    plainly = random.choice((True, False))
    if plainly:
        return json.dumps(text, ensure_ascii=random.choice((True, False)))
    units = memoryview(text.encode("utf-16-be")).tobytes()
    escaped = [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return '"' + "".join(escaped) + '"'
