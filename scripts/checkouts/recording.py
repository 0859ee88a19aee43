"""Records runs with one checkout, for `compare-checkouts`, which starts this file with the checkout's own Python.

    python recording.py CHECKOUT DIRECTORY EVERY GROUP...

Each run of the groups, or each run if there is no GROUP, is recorded into a directory of its own below DIRECTORY.
`failures.json` has a message for each run that could not be recorded. Of the exchanges with real providers, one
recording in EVERY is used.

`PROGRAMS` are agents that use public names only, so both checkouts run the same code. `runs_of_tests` are the runs that
the checkout's own tests record. The runs of the groups `sockets` and `sdks` are answered over HTTP.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import math
import shutil
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parent))

from earlier_names import module  # noqa: E402 - the folder is not a package

Payload = Any
Run = Callable[[Path], object]

HOSTILE_JOURNALS = 400
SDK_EXCHANGES = 60
"""The number of exchanges in a run through the synchronous SDKs."""
ASYNC_EVERY = 6
"""One exchange in this many is also made through the asynchronous SDKs."""

# ── runs of the checkout's own tests ─────────────────────────────────────────────────────────────────────────────────


def runs_of_tests(every: int) -> Iterator[tuple[str, Run]]:
    """Yield the runs that the checkout's own tests record, by name. This function needs names inside the tests."""
    from tests.chat_calls import rich_run
    from tests.contents.recording import names, record
    from tests.data import recorded, shown
    from tests.histories import PATTERNS
    from tests.histories import record as record_history

    for name, run in module("tests.formats.runs").RUNS.items():
        yield f"sockets/{name}", run
    for run in (recorded.captured, recorded.in_deltas, recorded.by_hand, recorded.marked, recorded.in_flight):
        yield f"recorded/{run.__name__}", run
    yield "recorded/rich", lambda place: rich_run(place / "run.json")
    yield "recorded/shown captured", lambda place: shown.captured(place / "run.json").journal.close()
    yield "recorded/shown by hand", lambda place: shown.by_hand(place / "run.json")
    for name in names():
        yield f"contents/{name}", partial(record, name)
    for pattern in PATTERNS:
        name = f"histories/{pattern.__name__}"
        yield name, lambda place, pattern=pattern: record_history(place / "run.json", pattern, 20)
    yield from _exchanges_of_providers(every)
    yield "hostile", hostile_journals


def _exchanges_of_providers(every: int) -> Iterator[tuple[str, Run]]:
    """Yield runs of real exchanges: through a transport, and through the SDKs over HTTP, sync and async."""
    from tests.wire.corpus import load
    from tests.wire.replays import recorded
    from tests.wire.runs import Mode

    yield "wire", lambda place: [*module("tests.formats.corpus_runs").corpus_runs(place, every)]
    exchanges = load()[::every]
    plain, compressed = Mode(at_once=1), Mode(asynchronous=True, at_once=1, seed=1, compress=True)
    for first in range(0, len(exchanges), SDK_EXCHANGES):
        some = exchanges[first : first + SDK_EXCHANGES]
        yield f"sdks/sync, from {first}", lambda place, some=some: recorded(some, plain, place / "run.json")
    # The end of an asynchronous response may be written after the next request, so each run has one exchange.
    for exchange in exchanges[::ASYNC_EVERY]:
        title = f"sdks/async {exchange.number}"
        yield title, lambda place, exchange=exchange: recorded([exchange], compressed, place / "run.json")


def hostile_journals(place: Path) -> None:
    """Write journals whose records have any order, ids of other records, and values of other types."""
    from hypothesis import HealthCheck, given, settings

    from tests.poison.hostile_journals import journals

    written: set[bytes] = set()

    @settings(
        max_examples=HOSTILE_JOURNALS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(journals())
    def write(data: bytes) -> None:
        if data not in written:
            (place / f"{len(written)}.jsonl").write_bytes(data)
            written.add(data)

    write()


# ── a provider ───────────────────────────────────────────────────────────────────────────────────────────────────────

Answer = tuple[int, dict[str, str], list[bytes]]
"""A status, headers, and the pieces of the body."""
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        answers: list[Answer] = self.server.answers  # type: ignore[attr-defined]
        status, headers, pieces = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        body = b"".join(pieces)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815 - the name that http.server asks for


class Provider:
    """A server on this machine that gives answers in order, and repeats the last one."""

    def __init__(self, *answers: Answer) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.answers = [*answers]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def plain(body: Payload, status: int = 200, **headers: str) -> Answer:
    return status, {**JSON, **headers}, [json.dumps(body).encode()]


def events(*values: Payload) -> list[bytes]:
    return [f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode() for value in values]


def chat(content: str | None, *calls: Payload, number: int = 1) -> Payload:
    """Return a chat completion."""
    message = {"role": "assistant", "content": content} | ({"tool_calls": [*calls]} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 10 * number, "completion_tokens": number, "total_tokens": 11 * number}
    return {
        "id": f"chat-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [choice],
        "usage": usage,
    }


def chat_events(*texts: str) -> list[bytes]:
    """Return the events of a streamed chat completion."""
    chunks = [{"index": 0, "delta": {"content": text}, "finish_reason": None} for text in texts]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    about = {"id": "chat-s", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    return [*events(*({**about, "choices": [chunk]} for chunk in chunks)), b"data: [DONE]\n\n"]


def tool_use(call_id: str, name: str, **arguments: Payload) -> Payload:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def user(text: Payload) -> Payload:
    return {"role": "user", "content": text}


URL = "https://api.openai.com/v1/"
KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"
OPAQUE_KEY = "opaque-Own-Key-0f-the-client/+"


def client_of(recorder: Payload, answers: Sequence[Payload], **options: Payload) -> Payload:
    """Return an HTTP client of a run whose requests get these answers, or exceptions, in order."""
    import httpx

    from trace_recorder import http_client

    remaining = iter(answers)

    def respond(_: httpx.Request) -> httpx.Response:
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        status, headers, pieces = answer
        content = iter(pieces) if len(pieces) > 1 else pieces[0]
        return httpx.Response(status, headers=headers, content=content)

    return http_client(recorder=recorder, library="httpx", transport=httpx.MockTransport(respond), **options)


# ── programs: agents that use public names only ──────────────────────────────────────────────────────────────────────


def manual(place: Path) -> None:
    """Record steps, agents, tools of every form, and everything else that an agent records by hand."""
    from trace_recorder import TrajectoryRecorder

    facts = {"provider": "anthropic", "model": "m", "max_steps": 9, "metadata": {"seed": 1, "key": KEY}}
    with TrajectoryRecorder(place / "run.json", task=f"mend it with {KEY}", **facts) as recorder:
        read = recorder.tool(lambda path, key=None: {"lines": [path], "key": key}, name="read")
        with recorder.agent("planner"), recorder.step():
            use = {"call_id": "c1", "name": "read", "arguments": {"path": "a.py"}}
            answer = {"content": "I read.", "tool_calls": [use], "usage": {"input_tokens": 3, "output_tokens": 1}}
            recorder.record_llm_interaction([user("Mend it.")], answer, "anthropic", "m", tools=["read"])
            read("a.py", key=KEY)
            with recorder.tool_call("research", {"topic": "x" * 20_000}, call_id="c2") as execution:
                with recorder.agent("researcher"):
                    recorder.record_llm_interaction([user("Look.")], {"content": "Found."}, "openai", "m2")
                    with recorder.step() as inner:
                        inner.reflection = "good"
                execution.result = {"found": True}
        with recorder.step(7) as step:
            step.reflection = "again"
            _tools(recorder)
        recorder.record_agent_step(8, "completed", [user("Mend it.")], {"content": "ok"}, [use], [{"call_id": "c1"}])
        recorder.record_agent_step(9, "error", error=ValueError("bad"))
        recorder.record_llm_interaction([user("Mend it.")], TimeoutError("too slow"), "openai", "m")
        recorder.update_lakeview(8, "it went well")
        recorder.annotate("judge", {"score": 3, "who": {1, 2}})
        recorder.reward("tests", 0.5, weight=2, step_number=8, explanation="half")
        recorder.reward("style", 1)
        recorder.finalize(success=True, final_result={"files": ["a.py"], "nan": math.nan})


def _tools(recorder: Payload) -> None:
    """Run tools that yield, fail, are closed early, and are asynchronous."""

    def counting() -> Iterator[int]:
        yield from (1, 2)
        return 3

    def failing() -> None:
        raise OSError("no such file")

    async def waiting(seconds: float) -> float:
        await asyncio.sleep(0)
        return seconds

    list(recorder.tool(counting)())
    early = recorder.tool(counting, name="early")()
    next(early)
    early.close()
    with suppress(OSError):
        recorder.tool(failing)()
    asyncio.run(recorder.tool(waiting)(0.5))


def failed(place: Path) -> None:
    """Record an agent that fails, whose tools failed, and whose last tool never returned."""
    from trace_recorder import TrajectoryRecorder

    with suppress(RuntimeError), TrajectoryRecorder(place / "run.json", task="fail") as recorder:
        recorder.tool(lambda: 1, name="before")()
        recorder.tool_call("never", {"a": 1}).__enter__()
        with recorder.step():
            raise RuntimeError("it is over")


def answers_of_every_kind(place: Path) -> None:
    """Record whole, streamed, refused, broken and odd answers, and requests that are not JSON."""
    import httpx

    from trace_recorder import TrajectoryRecorder

    use = tool_use("call_1", "read", path="a.py")
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    messages = [user("Mend it."), {"role": "assistant", "content": None, "tool_calls": [use]}]
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": "print()" * 2000})
    with TrajectoryRecorder(place / "run.json", task="answers") as recorder:
        pieces = chat_events("Grü", "ße", "z" * 70_000)
        answers = [
            plain(chat("I read.", use)),
            (200, EVENTS, pieces),
            (200, EVENTS, [b"".join(pieces)[:50], b"".join(pieces)[50:97], b"".join(pieces)[97:]]),
            (200, EVENTS, pieces[:2]),
            plain({"error": {"type": "rate_limit", "message": "later"}}, 429, **{"retry-after": "0"}),
            (502, {"content-type": "text/html"}, [b"<html>Bad gateway</html>"]),
            httpx.ConnectError("connection refused"),
            (200, {**JSON, "content-encoding": "gzip"}, [gzip.compress(json.dumps(chat("zip")).encode(), mtime=0)]),
            (200, JSON, [b'{"id": NaN, "choices": [{"message": {"content": "\\ud800"}}]}']),
            (200, {"content-type": "image/png"}, [b"\x89PNG\xff\xfe"]),
            (200, JSON, [b""]),
            *[plain(chat("last"))] * 4,
        ]
        client = client_of(recorder, answers)
        client.post(URL + "chat/completions", json={"model": "m", "messages": messages[:1], "tools": tools})
        for _ in range(3):
            client.post(URL + "chat/completions", json={"model": "m", "messages": messages, "stream": True})
        for _ in range(7):
            with suppress(httpx.ConnectError):
                client.post(URL + "chat/completions", json={"model": "m", "messages": messages, "temperature": 0.5})
        for body in (b'{"model": NaN}', b"\xff\xfe", b"", b'["a"]'):
            client.post(URL + "chat/completions", content=body)


def media(place: Path) -> None:
    """Record sounds, images, forms, embeddings, moderations, rankings and completions."""
    from trace_recorder import TrajectoryRecorder

    png = base64.b64encode(b"\x89PNG" + bytes(300)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png * 40}"}}
    with TrajectoryRecorder(place / "run.json", task="media") as recorder:
        answers = [
            (200, {"content-type": "audio/mpeg"}, [b"ID3\xff\x00"]),
            plain({"text": "heard"}),
            plain({"created": 1, "data": [{"b64_json": png}]}),
            plain({"object": "list", "model": "e", "data": [{"index": 0, "embedding": [0.1, 0.2]}]}),
            plain({"id": "m", "model": "mod", "results": [{"flagged": False}]}),
            plain({"id": "r", "results": [{"index": 1, "relevance_score": 0.5}]}),
            plain({"id": "c", "model": "m", "choices": [{"text": "more", "index": 0, "finish_reason": "stop"}]}),
            *[plain(chat("A pixel."))] * 2,
        ]
        client = client_of(recorder, answers)
        client.post(URL + "audio/speech", json={"model": "tts", "input": "hello", "voice": "a"})
        form = {"file": ("a.mp3", b"ID3\xff", "audio/mpeg"), "model": (None, "whisper-1")}
        client.post(URL + "audio/transcriptions", files=form)
        client.post(URL + "images/generations", json={"model": "i", "prompt": "a pixel"})
        client.post(URL + "embeddings", json={"model": "e", "input": ["a", "b" * 300]})
        client.post(URL + "moderations", json={"model": "mod", "input": "a"})
        client.post("https://api.cohere.com/v2/rerank", json={"model": "r", "query": "q", "documents": ["a", "b"]})
        client.post(URL + "completions", json={"model": "m", "prompt": "once"})
        for text in ("What?", "And now?"):
            content = [{"type": "text", "text": text}, part]
            client.post(URL + "chat/completions", json={"model": "m", "messages": [user(content)]})


def bedrock(place: Path) -> None:
    """Record binary frames of Bedrock, of both APIs."""
    from trace_recorder import TrajectoryRecorder

    host = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/"
    content = {"contentBlockIndex": 0, "delta": {"text": "hi"}}
    converse = [
        frame("messageStart", {"role": "assistant"}),
        frame("contentBlockDelta", content),
        frame("messageStop", {"stopReason": "end_turn"}),
        frame("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
    ]
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
    inner = {"bytes": base64.b64encode(json.dumps(delta).encode()).decode(), "p": "abc"}
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    with TrajectoryRecorder(place / "run.json", task="frames") as recorder:
        client = client_of(recorder, [(200, headers, converse), (200, headers, [frame("chunk", inner), b"\x00\x00"])])
        messages = [{"role": "user", "content": [{"text": "hello"}]}]
        client.post(host + "converse-stream", json={"messages": messages})
        claude = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [user("hello")]}
        client.post(host + "invoke-with-response-stream", json=claude)


def frame(kind: str, payload: Payload) -> bytes:
    """Return a frame of Amazon's event streams."""
    names = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in names.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + body
    return message + struct.pack(">I", crc32(message))


def secrets(place: Path) -> None:
    """Record secrets in every place, and one that becomes known by a header after it was written."""
    from trace_recorder import TrajectoryRecorder

    facts = {"task": f"use {OPAQUE_KEY}", "metadata": {"a": [OPAQUE_KEY], "api_key": "x1y2z3w4"}}
    with TrajectoryRecorder(place / "run.json", **facts) as recorder:
        recorder.annotate("note", f"it was {OPAQUE_KEY}")
        pieces = chat_events("the key is sk-live-4f9a8b7c", "6d5e4f3a2b1c0d9e8f7a6b5c, and ", OPAQUE_KEY)
        client = client_of(recorder, [plain(chat(f"No {KEY}")), (200, EVENTS, pieces)])
        client.headers["authorization"] = f"Bearer {OPAQUE_KEY}"
        client.post(
            URL + "chat/completions?key=abcdefgh12345678", json={"model": "m", "messages": [user(f"Use {KEY}")]}
        )
        client.post(URL + "chat/completions", json={"model": "m", "messages": [user(OPAQUE_KEY)], "stream": True})
        recorder.finalize(success=False, final_result=f"{KEY} {OPAQUE_KEY}")


def sliding(place: Path) -> None:
    """Record histories whose lists need many ranges: marks that move, and messages that are removed in the middle."""
    from trace_recorder import TrajectoryRecorder

    messages = [{"role": "system", "content": "Be brief."}]
    with TrajectoryRecorder(place / "run.json", history="delta") as recorder:
        client = client_of(recorder, [plain(chat(f"answer {number}", number=number)) for number in range(60)])
        for number in range(60):
            messages += [user(f"question {number}"), {"role": "assistant", "content": "the same"}]
            sent = [message for index, message in enumerate(messages) if number < 30 or index % 7]
            sent[-2] = {**sent[-2], "cache_control": {"type": "ephemeral"}}
            client.post(URL + "chat/completions", json={"model": "m", "messages": sent})


def background(place: Path) -> None:
    """Record a response in the background, whose final form the program fetches by polls."""
    from openai import OpenAI

    from trace_recorder import TrajectoryRecorder

    text = {"type": "output_text", "text": "Here.", "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": "o9", "output": []}
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    states = [{**about, "status": state} for state in ("queued", "in_progress")]
    final = {**about, "status": "completed", "output": [item], "usage": usage}
    with Provider(*map(plain, (*states, final))) as provider:
        with TrajectoryRecorder(place / "run.json") as recorder:
            with recorder.wrap(OpenAI(api_key=KEY, base_url=f"{provider.url}/v1")) as client:
                response = client.responses.create(model="o9", input="Look.", background=True)
                while response.status != "completed":
                    response = client.responses.retrieve(response.id)


def _work(client: Payload) -> None:
    """Make a plain call, a streamed call, and a call that is refused."""
    from openai import OpenAIError

    for text, streams in (("one", False), ("two", True), ("three", False)):
        with suppress(OpenAIError):
            answer = client.chat.completions.create(model="m", messages=[user(text)], stream=streams)
            if streams:
                list(answer)


_WORK_ANSWERS = (plain(chat("one")), (200, EVENTS, chat_events("tw", "o")), plain({"error": {"message": "no"}}, 400))


def repeated(place: Path) -> None:
    """Record a run, a replay of it, forks of it, and a response that a person wrote."""
    from openai import OpenAI

    from trace_recorder import TrajectoryRecorder, fork, replay

    source = place / "source.json"
    with Provider(*_WORK_ANSWERS) as provider:
        url = f"{provider.url}/v1"
        with TrajectoryRecorder(source, task="work") as recorder:
            with recorder.wrap(OpenAI(api_key=KEY, base_url=url)) as client:
                _work(client)
    nowhere = OpenAI(api_key=KEY, base_url="http://127.0.0.1:9/v1", max_retries=0)
    with replay(source) as run, TrajectoryRecorder(place / "again.json") as recorder:
        _work(recorder.wrap(run.wrap(nowhere)))
    for name, options in {"fork": {"model": "better"}, "by hand": {"answer": "It is two."}}.items():
        with Provider(_WORK_ANSWERS[1], _WORK_ANSWERS[0]) as provider:
            made = OpenAI(api_key=KEY, base_url=f"{provider.url}/v1", max_retries=0)
            recorder = TrajectoryRecorder(place / f"{name}.json", task="work")
            with fork(source, at="llm_2", recorder=recorder, **options) as branch:
                _work(branch.wrap(made))


def every_library(place: Path) -> None:
    """Record calls of the whole process: of httpx, httpx2, urllib3 and requests, and of an async SDK."""
    import httpx
    import requests
    import urllib3
    from openai import AsyncOpenAI

    from trace_recorder import TrajectoryRecorder, instrument, uninstrument

    async def ask(url: str) -> None:
        async with AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
            await client.chat.completions.create(model="m", messages=[user("async")])

    body = {"model": "m", "messages": [user("hello")]}
    instrument()
    try:
        with Provider(plain(chat("hi"))) as provider, TrajectoryRecorder(place / "run.json"):
            url = f"{provider.url}/v1/chat/completions"
            httpx.post(url, json=body)
            requests.post(url, json=body, timeout=10)
            urllib3.request("POST", url, json=body)
            asyncio.run(ask(f"{provider.url}/v1"))
    finally:
        uninstrument()


def retries(place: Path) -> None:
    """Record calls that an SDK repeats, and equal requests after a failure."""
    import httpx
    from openai import OpenAI

    from trace_recorder import TrajectoryRecorder

    later = plain({"error": {"message": "later"}}, 429, **{"retry-after-ms": "1"})
    with Provider(later, plain(chat("at last")), later, later, later, plain(chat("end"))) as provider:
        with TrajectoryRecorder(place / "run.json") as recorder:
            with recorder.wrap(OpenAI(api_key=KEY, base_url=f"{provider.url}/v1", max_retries=2)) as client:
                for _ in range(2):
                    with suppress(Exception):
                        client.chat.completions.create(model="m", messages=[user("hello")])
            with recorder.wrap(httpx.Client()) as client:
                for _ in range(2):
                    client.post(f"{provider.url}/v1/chat/completions", json={"model": "m", "messages": [user("a")]})


def scored(place: Path) -> None:
    """Score a run from the command line after its end."""
    import subprocess

    from trace_recorder import TrajectoryRecorder

    with TrajectoryRecorder(place / "run.json", task="score") as recorder:
        recorder.record_llm_interaction([user("q")], {"content": "a"}, "openai", "m")
    scorer = place / "scorer.py"
    scorer.write_text("def score(trajectory):\n    return float(len(trajectory.llm_interactions))\n")
    command = [sys.executable, "-m", "trace_recorder", "score", str(place / "run.json"), "--reward", f"{scorer}:score"]
    subprocess.run(command, cwd=sys.path[0], capture_output=True, check=True)
    scorer.unlink()


PROGRAMS: dict[str, Run] = {
    "programs/manual": manual,
    "programs/failed": failed,
    "programs/answers": answers_of_every_kind,
    "programs/media": media,
    "programs/bedrock": bedrock,
    "programs/secrets": secrets,
    "programs/sliding": sliding,
    "programs/scored": scored,
    "sockets/background": background,
    "sockets/repeated": repeated,
    "sockets/every library": every_library,
    "sockets/retries": retries,
}


def write_streams_by_size() -> None:
    """Let the recorder write parts of streams by their size only, because a busy machine would decide the times.

    This function needs names inside the package. Without them, streams may be cut at different places.
    """
    with suppress(ImportError, AttributeError):
        from trace_recorder import TrajectoryRecorder
        from trace_recorder.capture.stream_flusher import process_flusher
        from trace_recorder.recording.limits import Limits

        TrajectoryRecorder._limits = Limits(flush_seconds=3600.0)
        process_flusher._seconds = 3600.0


def check_package(checkout: str) -> None:
    """Stop if the package is not the checkout's own."""
    import trace_recorder

    if not trace_recorder.__file__.startswith(f"{checkout}/"):
        sys.exit(f"{trace_recorder.__file__} is not in {checkout}")


def main() -> None:
    """Record all runs, and write down which could not be recorded."""
    checkout, directory, every, *groups = sys.argv[1:]
    sys.path[0] = checkout
    check_package(checkout)
    write_streams_by_size()
    failures: dict[str, str] = {}
    runs = [*PROGRAMS.items()]
    try:
        runs += runs_of_tests(int(every))
    except Exception as error:  # noqa: BLE001 - it is a finding
        failures["runs of the tests"] = f"{type(error).__name__}: {error}"
    for name, run in runs:
        if groups and name.partition("/")[0] not in groups:
            continue
        place = Path(directory, name)
        place.mkdir(parents=True)
        try:
            run(place)
        except Exception as error:  # noqa: BLE001 - it is a finding
            failures[name] = f"{type(error).__name__}: {error}".replace(directory, "/place")
    for path in [*Path(directory).rglob("*")]:
        if path.is_dir() and path.name in {"moving", "whole"}:
            shutil.rmtree(path)
    Path(directory, "failures.json").write_text(json.dumps(failures, indent=1))


if __name__ == "__main__":
    main()
