"""The cost of a recorded call, as a number of calls of our own functions, which hardly depends on other work."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx2

from tests.counting import calls, watch
from tests.limits import limited
from tests.processes import ROOT, python
from trace_recorder import TrajectoryRecorder, load

MOST_CALLS_FOR_THE_FACTS = 100 if find_spec("ahocorasick_rs") else 102
"""Where the package for the search has no wheel, `re` does it, by a function of ours that is called twice."""
MOST_CALLS_FOR_THE_DOCUMENT = 100
"""At most this many function calls, for each recorded call, write the whole document."""
EVENTS = 500
MOST_CALLS_FOR_AN_EVENT = 3.2
MOST_BYTES_FOR_AN_EVENT = 40
"""Most of these bytes are the assembled answer, and the times of the chunks."""


def test_a_tiny_call_takes_few_function_calls() -> None:
    """A small recorded call, with its share of a whole document, takes at most the stated number of calls of our
    functions.
    """
    command = [sys.executable, "scripts/structure", "--call"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(ended.stdout)

    assert 0 < figures["function calls for the facts"] <= MOST_CALLS_FOR_THE_FACTS
    assert 0 < figures["function calls for a whole document, a call"] <= MOST_CALLS_FOR_THE_DOCUMENT


def test_an_event_of_a_stream_takes_few_function_calls_and_bytes(tmp_path: Path) -> None:
    """Each of 500 similar small events takes few calls of our functions, and few compressed bytes."""
    words = [f" word{number}" for number in range(EVENTS)]
    events = [
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-5",
            "choices": [{"index": 0, "delta": {"content": word}}],
        }
        for word in words
    ]
    body = [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]
    server = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter(body))
    )

    def ask() -> None:
        client.post("http://provider.test/v1/chat/completions", json={"model": "m", "stream": True})

    journal = tmp_path / "run.jsonl"
    with limited(flush_seconds=1000.0)(tmp_path / "run.json") as recorder:
        client = recorder.wrap(httpx2.Client(transport=server))
        ask()
        before = journal.stat().st_size
        counted = calls(ask)
        written = journal.stat().st_size - before

    assert load(recorder.trajectory_path).llm_interactions[1].response.content == "".join(words)
    assert counted <= MOST_CALLS_FOR_AN_EVENT * EVENTS
    assert written <= MOST_BYTES_FOR_AN_EVENT * EVENTS


def test_a_large_request_in_an_event_loop_is_compared_once(tmp_path: Path) -> None:
    """Whether a thread must write a request is asked of the comparison that finds its new elements."""
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"choices": []}))
    messages = [{"role": "user", "content": f"{number} {'word ' * 4000}"} for number in range(5)]
    compared: list[str] = []

    async def ask(client: httpx2.AsyncClient) -> None:
        for number in (3, 4, 5):
            compared.clear()
            body = {"model": "m", "messages": messages[:number]}
            await client.post("http://provider.test/v1/chat/completions", json=body)

    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        client = recorder.wrap(httpx2.AsyncClient(transport=transport))
        watch(lambda: asyncio.run(ask(client)), lambda frame: compared.append(frame.f_code.co_name))

    assert compared.count("extension_by") == 1
    assert len(load(tmp_path / "run.json").llm_interactions[2].input_messages) == 5


MOST_LOCKS = [3, 4]
"""How often an agent's thread acquires a lock of the recorder for a plain call, and for a short stream."""
TAKE_LOCKS = """
    import _thread, json, sys, threading, time

    taken = []
    wait, time.sleep = time.sleep, lambda _: threading.Event().wait()  # background threads end no pause

    class Counted(_thread.RLock):
        def acquire(self, *arguments, **named):
            if threading.current_thread() is threading.main_thread():
                taken.append(1)
            return super().acquire(*arguments, **named)

    _thread.RLock = Counted  # of which trace_recorder's locks are
    import httpx2
    from tests.limits import limited
    from trace_recorder.reading.live_document.document_thread import DocumentLimits, process_thread

    events = [b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\\n\\n', b"data: [DONE]\\n\\n"]

    def answer(request):
        if b"stream" in request.content:
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter(events))
        return httpx2.Response(200, json={"choices": []})

    late = DocumentLimits(min_pause_seconds=1000.0)
    recorder = limited(flush_seconds=1000.0, document=late)(sys.argv[1])
    client = recorder.wrap(httpx2.Client(transport=httpx2.MockTransport(answer)))
    counts = []
    for body in ({"model": "m"}, {"model": "m", "stream": True}):
        for _ in range(3):
            taken.clear()
            client.post("http://provider.test/v1/chat/completions", json=body)
            while process_thread.is_idle:  # the thread that writes documents has not begun
                wait(0.01)
        counts.append(len(taken))
    recorder.finalize()
    print(json.dumps(counts))
"""


def test_a_call_takes_few_locks(tmp_path: Path) -> None:
    """For each record the lock of the run is acquired once, and for the end of a response the lock of the response.

    No lock is acquired for the threads that flush streams and write documents, while these threads wait.
    """
    ended = python(TAKE_LOCKS, tmp_path / "run.json")

    assert (ended.stderr, json.loads(ended.stdout)) == ("", MOST_LOCKS)
    assert len(load(tmp_path / "run.json").llm_interactions) == 6
