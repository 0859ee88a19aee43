"""Recording every call of the process: earlier clients, clients of every kind, and libraries imported later.

Afterwards everything is restored.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions

import trace_recorder
from tests.chat_calls import Wire, asked, said
from tests.processes import python
from tests.provider import CHAT, CHAT_STREAM, GENERATED, MESSAGE, OLLAMA, Answer, plain, serving, stream
from trace_recorder import (
    TrajectoryRecorder,
    UnsupportedClientError,
    async_http_client,
    instrument,
    load,
    uninstrument,
    unwrap,
    wrap,
)
from trace_recorder.capture.all_clients import TRANSPORT_METHOD
from trace_recorder.capture.websocket_patch import websocket_patch

ASK: Any = [{"role": "user", "content": "hello"}]
URL = "http://provider.test/v1/chat/completions"
CLASSES = (httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient)


def import_hooks() -> list[object]:
    """Return the hooks of imports, except the one that stays while a wrapped client lives."""
    return [hook for hook in sys.meta_path if hook is not websocket_patch.import_hook]


def inside() -> list[object]:
    """Return everything that `instrument` changes in the process."""
    return [*(vars(kind)[TRANSPORT_METHOD] for kind in CLASSES), *import_hooks(), socket.getaddrinfo]


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = inside()
    yield
    uninstrument()
    assert inside() == before


def seen(recorder: TrajectoryRecorder) -> list[tuple[str, str | None]]:
    """Return the provider and the answer of each call of a run."""
    calls = load(recorder.trajectory_path).llm_interactions
    return [(call.api, call.response.content if call.response else None) for call in calls]


def ask(client: openai.OpenAI) -> None:
    client.chat.completions.create(model="m", messages=ASK)


def openai_client(url: str, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, **settings)


def call_openai(url: str) -> None:
    with openai_client(url) as client:
        ask(client)


def call_openai_stream(url: str) -> None:
    with openai_client(url) as client:
        for _ in client.chat.completions.create(model="m", messages=ASK, stream=True):
            pass


def call_openai_async(url: str) -> None:
    async def work() -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client:
            await client.chat.completions.create(model="m", messages=ASK)

    asyncio.run(work())


def call_anthropic(url: str) -> None:
    with anthropic.Anthropic(base_url=url, api_key="k") as client:
        client.messages.create(model="m", messages=ASK, max_tokens=9)


def call_google(url: str) -> None:
    client = genai.Client(api_key="k", http_options=HttpOptions(base_url=url))
    client.models.generate_content(model="m", contents="hello")
    client.close()


def call_google_async(url: str) -> None:
    async def work() -> None:
        client = genai.Client(api_key="k", http_options=HttpOptions(base_url=url))
        await client.aio.models.generate_content(model="m", contents="hello")
        await client.aio.aclose()
        client.close()

    asyncio.run(work())


def call_ollama(url: str) -> None:
    client = ollama.Client(host=url)
    client.chat(model="m", messages=ASK)
    client._client.close()


@pytest.mark.parametrize(
    ("call", "answer", "api"),
    [
        (call_openai, plain(CHAT), "openai-chat"),
        (call_openai_stream, stream(*CHAT_STREAM), "openai-chat"),
        (call_openai_async, plain(CHAT), "openai-chat"),
        (call_anthropic, plain(MESSAGE), "anthropic-messages"),
        (call_google, plain(GENERATED), "google-generate"),
        (call_google_async, plain(GENERATED), "google-generate"),
        (call_ollama, plain(OLLAMA), "ollama-chat"),
    ],
)
def test_a_call_without_wrapping_is_recorded(call: Any, answer: Answer, api: str, tmp_path: Path) -> None:
    """In an instrumented process, a call of each SDK's unwrapped client is recorded with its answer."""
    instrument()
    with serving(answer) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        call(server.url)

    [(recorded, content)] = seen(recorder)
    assert (recorded, bool(content)) == (api, True)


def test_an_existing_client_is_recorded_too(tmp_path: Path) -> None:
    """A client that was created before `instrument`, with a custom transport, is recorded until `uninstrument`."""
    client = httpx.Client(mounts={"http://provider.test": Wire(said("from the mount"))}, trust_env=False)
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        for change in (uninstrument, instrument, instrument, uninstrument):
            change()
            client.post(URL, json=asked("hello"))

    assert seen(recorder) == [("openai-chat", "from the mount")] * 2


@pytest.mark.parametrize("bound", ["bound", "following", "both", "unwrapped"])
def test_a_wrapped_client_is_recorded_once(bound: str, tmp_path: Path) -> None:
    """A wrapped client's call is recorded only by its own recorder.

    After `unwrap`, the process's recorder records it.
    """
    own, other = TrajectoryRecorder(tmp_path / "own.json"), TrajectoryRecorder(tmp_path / "other.json")
    instrument(recorder=other)
    with serving(plain(CHAT)) as server, own, openai_client(server.url) as client:
        if bound in {"following", "both"}:
            wrap(client)
        if bound in {"bound", "both", "unwrapped"}:
            own.wrap(client)
        ask(unwrap(client) if bound == "unwrapped" else client)

    assert (len(seen(own)), list(tmp_path.glob("other*"))) == (1, [])


def test_a_transport_around_a_recording_one_is_recorded_once(tmp_path: Path) -> None:
    """A call through a transport around the recording transport is recorded once."""

    class Around(httpx2.AsyncBaseTransport):
        def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
            self._inner = inner

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await self._inner.handle_async_request(request)

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def run(url: str) -> None:
        made = httpx2.AsyncClient(transport=Around(async_http_client(library="httpx2")._transport), trust_env=False)
        async with openai.AsyncOpenAI(base_url=url, api_key="k", http_client=made) as client:
            await client.chat.completions.create(model="m", messages=ASK)

    instrument()
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        asyncio.run(run(f"{server.url}/v1"))

    assert len(seen(recorder)) == 1


def test_the_given_recorder_records_all_other_calls(tmp_path: Path) -> None:
    """A call in the context of an active recorder is recorded by this recorder.

    Other calls are recorded by the given recorder, whose run begins with the first of them.
    """
    fallback, active = TrajectoryRecorder(tmp_path / "given.json"), TrajectoryRecorder(tmp_path / "active.json")
    instrument(recorder=fallback)
    with httpx.Client(transport=Wire(said("yes")), trust_env=False) as client:
        with active:
            client.post(URL, json=asked("hello"))
        before = list(tmp_path.glob("given*"))
        client.post(URL, json=asked("hello"))
        client.get("http://provider.test/something/else")
    fallback.finalize()

    assert (before, len(seen(active)), len(seen(fallback))) == ([], 1, 1)


def test_other_traffic_is_unchanged() -> None:
    """If no recorder runs, or a request is not an LLM call, the caller gets the transport's own response object."""
    instrument()
    response = httpx.Response(200, json={})
    client = httpx.Client(transport=httpx.MockTransport(lambda _: response), trust_env=False)

    got = client.post(URL, json=asked("hello")), client.post("http://provider.test/else")
    assert [one is response for one in got] == [True, True]


def test_a_later_replacement_of_a_method_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`uninstrument` keeps a method that other code put around ours, and nothing is recorded afterwards."""
    instrument()
    ours = vars(httpx.Client)[TRANSPORT_METHOD]

    def around(*arguments: Any) -> Any:
        return ours(*arguments)

    with monkeypatch.context() as patch, TrajectoryRecorder(tmp_path / "run.json") as recorder:
        patch.setattr(httpx.Client, TRANSPORT_METHOD, around)
        theirs = vars(httpx.Client)[TRANSPORT_METHOD]
        uninstrument()
        stayed = vars(httpx.Client)[TRANSPORT_METHOD] is theirs
        httpx.Client(transport=Wire(said("yes")), trust_env=False).post(URL, json=asked("hello"))
        patch.undo()
        setattr(httpx.Client, TRANSPORT_METHOD, ours.__wrapped__)

    assert (stayed, seen(recorder)) == (True, [])


def test_an_unfamiliar_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a client class lacks the method to replace, `instrument` raises an error and changes nothing."""
    before = inside()[1:]
    with monkeypatch.context() as patch:
        patch.delattr(httpx.Client, TRANSPORT_METHOD)
        with pytest.raises(UnsupportedClientError, match="instrument"):
            instrument()
        after = [*(vars(kind)[TRANSPORT_METHOD] for kind in CLASSES[1:]), *import_hooks(), socket.getaddrinfo]

    assert after == before


LATER = """
import json, sys
import trace_recorder
recorder = trace_recorder.TrajectoryRecorder(sys.argv[2], strict=True)
trace_recorder.instrument(recorder=recorder)
before = sorted({"httpx", "httpx2"} & set(sys.modules))
import httpx, httpx2
loaders = [sorted(vars(one.__spec__.loader)) for one in (httpx, httpx2)]
for library in (httpx, httpx2):
    library.post(sys.argv[1], json={"model": "m", "messages": []})
trace_recorder.uninstrument()
left = ["_transport_for_url" in repr(vars(kind)) and hasattr(vars(kind)["_transport_for_url"], "__wrapped__")
        for kind in (httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient)]
recorder.finalize()
print(json.dumps([before, loaders, left]))
"""


def test_a_library_that_is_imported_later_is_recorded(tmp_path: Path) -> None:
    """`instrument` imports no library, and records a library that is imported later, whose loader is unchanged."""
    with serving(plain(CHAT)) as server:
        ended = python(LATER, f"{server.url}/v1/chat/completions", tmp_path / "run.json")

    before, loaders, left = json.loads(ended.stdout or "[0, 0, 0]")
    assert (ended.stderr, before, left) == ("", [], [False] * 4)
    assert loaders == [["name", "path"]] * 2
    assert len(load(tmp_path / "run.json").llm_interactions) == 2


@pytest.mark.parametrize("attach", ["recorder.wrap(client)", "trace_recorder.instrument(recorder=recorder)"])
def test_the_first_requests_import_no_dialect_and_compile_no_long_pattern(tmp_path: Path, attach: str) -> None:
    """Imports and long regular expressions are loaded when a client is wrapped, because in a first request they would
    block its event loop for 40 ms.
    """
    code = f"""
        import re, sys
        import httpx, trace_recorder
        recorder = trace_recorder.TrajectoryRecorder(sys.argv[2], strict=True)
        client = httpx.Client(base_url=sys.argv[1])
        {attach}
        compile, patterns = re._compiler.compile, []
        re._compiler.compile = lambda pattern, *more: patterns.append(pattern) or compile(pattern, *more)
        before = {{*sys.modules}}
        client.get("/elsewhere")
        client.post("/v1/embeddings", json={{"model": "m", "input": "a"}})
        print(*sorted(name for name in {{*sys.modules}} - before if name.startswith("trace_recorder.dialects")))
        print(*(pattern for pattern in patterns if len(pattern) > 1000))
        recorder.finalize()
        client.close()
    """
    with serving(plain(CHAT)) as server:
        ended = python(code, server.url, tmp_path / "run.json")

    assert (ended.stderr, ended.stdout) == ("", "\n\n")
    assert len(load(tmp_path / "run.json").llm_interactions) == 1


@pytest.mark.parametrize("created", ["before", "after"])
def test_a_following_client_is_recorded_by_the_given_recorder(created: str, tmp_path: Path) -> None:
    """A client that follows the context is recorded by the recorder of `instrument` where no recorder is active."""
    recorder = TrajectoryRecorder(tmp_path / "given.json", strict=True)
    with serving(plain(CHAT)) as server, openai_client(server.url) as wrapped, openai_client(server.url) as other:
        if created == "before":
            wrap(wrapped)
        instrument(recorder=recorder)
        ask(wrap(wrapped))
        ask(other)
        recorder.finalize()

    assert [call.input_messages[0].content for call in load(tmp_path / "given.json").llm_interactions] == ["hello"] * 2


def test_tools_and_steps_follow_to_the_given_recorder(tmp_path: Path) -> None:
    """Tools and steps of the module's functions belong to the recorder of `instrument` where no recorder is active."""
    recorder = TrajectoryRecorder(tmp_path / "given.json", strict=True)
    instrument(recorder=recorder)
    with trace_recorder.step(), trace_recorder.tool_call("search", {"q": "tea"}):
        pass
    recorder.finalize()

    steps = load(tmp_path / "given.json").agent_steps
    assert [(step.step_number, [tool.name for tool in step.tool_calls]) for step in steps] == [(1, ["search"])]
