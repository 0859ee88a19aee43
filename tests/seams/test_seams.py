"""Calls by every HTTP library other than httpx: the caller notices nothing, and each call is recorded completely."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.isolation.hooks import HOOKS, Hook
from tests.processes import python
from tests.provider import (
    CHAT,
    CHAT_STREAM,
    DROP,
    GENERATED,
    SILENCE,
    UNANSWERED,
    Answer,
    chat_chunk,
    plain,
    serving,
    stream,
)
from tests.seams.callers import ASK, LIBRARIES, WAYS, Library, Outcome
from trace_recorder import TrajectoryRecorder, instrument, load, uninstrument

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # aiohttp warns of a response that its caller drops
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),  # google-genai's
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Payload = Any
PATH = "/v1/chat/completions"
REFUSED = plain({"error": {"message": "no such model", "type": "invalid_request_error"}}, 400)
each_library = pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)


def gzipped(answer: Answer) -> Answer:
    """Return an answer that is compressed as a whole and sent in two pieces."""
    data = gzip.compress(b"".join(answer.chunks))  # type: ignore[arg-type]
    return Answer([data[:20], data[20:]], answer.status, {**answer.headers, "content-encoding": "gzip"})


ANSWERS = {
    "whole": (plain(CHAT), "whole"),
    "whole, compressed": (gzipped(plain(CHAT)), "whole"),
    "refused": (REFUSED, "whole"),
    **{way: (stream(*CHAT_STREAM), way) for way in WAYS[1:]},
    "lines, compressed": (gzipped(stream(*CHAT_STREAM)), "lines"),
    "cut off": (stream(chat_chunk("one"), 0.02, DROP), "lines"),
    "silent": (UNANSWERED, "impatient"),
}
"""The server's answer, and the way in which the caller sends the request."""


def recorded(kind: type[Library], path: Path, answer: Answer, way: str) -> tuple[Payload, Payload, Any]:
    """Return the caller's outcome without and with recording, and the recorded interaction."""
    with serving(answer) as server:
        alone = kind().outcome(server.url + PATH, way)
    with serving(answer) as server, TrajectoryRecorder(path, strict=True) as recorder:
        outcome = kind().outcome(server.url + PATH, way, recorder.wrap)
    [call] = load(path).llm_interactions
    return alone, outcome, call


@each_library
@pytest.mark.parametrize("name", ANSWERS)
def test_a_caller_gets_the_same(tmp_path: Path, kind: type[Library], name: str) -> None:
    """A recorded call gives its caller the same status, headers, pieces, types and exceptions as an unrecorded one."""
    alone, outcome, _ = recorded(kind, tmp_path / "a.json", *ANSWERS[name])

    assert outcome.joined() == alone.joined()
    assert len(outcome.got) == len(alone.got) or name in {"pieces", "read"}


EXPECTED = {
    "whole": ("hi", True),
    "whole, compressed": ("hi", True),
    "refused": (None, True),
    "lines": ("Grüße", True),
    "pieces": ("Grüße", True),
    "read": ("Grüße", True),
    "lines, compressed": ("Grüße", True),
    "cut off": ("one", False),
    "silent": (None, False),
}
"""The expected recorded content, and whether it is complete."""


@each_library
@pytest.mark.parametrize("name", EXPECTED)
def test_the_answer_is_recorded(tmp_path: Path, kind: type[Library], name: str) -> None:
    """The record of a call has the answer's content, whether it is complete, and the caller's error."""
    _, outcome, call = recorded(kind, tmp_path / "a.json", *ANSWERS[name])

    assert (call.response.content, call.complete) == EXPECTED[name]
    assert [message.content for message in call.input_messages] == ["hello"]
    if outcome.raised is not None:
        assert call.error.type.rpartition(".")[2] in {error.__name__ for error, _ in outcome.raised}


@each_library
@pytest.mark.parametrize("way", ["closed", "left"])
def test_a_stream_that_is_not_read_to_its_end_is_incomplete(tmp_path: Path, kind: type[Library], way: str) -> None:
    """A stream that is not read to its end is recorded with the received part and the reason.

    The generators of requests and urllib3 close their source.
    """
    answer = stream(chat_chunk("one"), 0.05, *[chat_chunk("more")] * 2000)
    _, _, call = recorded(kind, tmp_path / "a.json", answer, way)

    assert (call.response.content[:3], call.complete) == ("one", False)
    assert call.ended_by == ("it was abandoned" if (kind.name, way) == ("aiohttp", "left") else "the caller closed it")


@cache
def unrecorded(kind: type[Library], name: str) -> Outcome:
    """Return the outcome of a call without a recorder."""
    answer, way = ANSWERS[name]
    with serving(answer) as server:
        return kind().outcome(server.url + PATH, way).joined()


@each_library
@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("name", ["whole", "lines", "cut off"])
def test_no_failure_of_recording_reaches_the_caller(tmp_path: Path, kind: type[Library], hook: Hook, name: str) -> None:
    """While any place of recording fails, the outcome for the caller is the same as unrecorded."""
    answer, way = ANSWERS[name]
    recorder = hook.recorder(tmp_path / "a.json")
    with serving(answer) as server, pytest.MonkeyPatch.context() as patch:
        hook.breaks(patch)
        outcome = kind().outcome(server.url + PATH, way, recorder.wrap)
    recorder.finalize()

    assert outcome.joined() == unrecorded(kind, name)


class Patient:
    """The chunks of a server that sends a chunk only when the caller has the one before."""

    def __init__(self) -> None:
        self.heard = threading.Semaphore(0)
        self.stalled = False

    def __iter__(self) -> Iterator[object]:
        for number in range(5):
            yield chat_chunk(str(number))
            self.stalled |= not self.heard.acquire(timeout=60)
        yield b"data: [DONE]\n\n"


@each_library
def test_a_chunk_is_passed_on_when_it_arrives(tmp_path: Path, kind: type[Library]) -> None:
    """The caller has each chunk before the server sends the next."""
    chunks = Patient()
    library = kind()
    with serving(stream(chunks)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        server.answers[0] = Answer(chunks, 200, {"content-type": "text/event-stream"})  # type: ignore[arg-type]
        client = library.client()
        recorder.wrap(client)
        library.ask(client, server.url + PATH, "lines", lambda piece: piece and chunks.heard.release())
        library.close(client)

    assert not chunks.stalled


@each_library
def test_an_answer_is_recorded_before_its_end_reaches_the_caller(tmp_path: Path, kind: type[Library]) -> None:
    """When the caller's last read returns, the answer is on file, so that a kill loses nothing."""
    path = tmp_path / "a.json"
    with serving(plain(CHAT)) as server, TrajectoryRecorder(path) as recorder:
        seen: list[Payload] = []

        def hear(piece: Payload) -> None:
            if isinstance(piece, bytes):
                seen.append([call.response.content for call in load(path.with_suffix(".jsonl")).llm_interactions])

        library = kind()
        client = library.client()
        recorder.wrap(client)
        library.ask(client, server.url + PATH, "whole", hear)
        library.close(client)

    assert seen == [["hi"]]


@each_library
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda one: one.name)
def test_a_process_that_ends_in_a_stream_has_the_received_part(
    tmp_path: Path, kind: type[Library], number: signal.Signals
) -> None:
    """A process that is ended in a stream leaves the received part on file; Ctrl-C is the call's error, and a kill
    leaves none.
    """
    code = """
    import os, sys, time
    from pathlib import Path
    from trace_recorder import TrajectoryRecorder
    from tests.seams.callers import LIBRARIES
    library = LIBRARIES[sys.argv[3]]()
    client = library.client()

    def hear(piece):
        if isinstance(piece, bytes) and piece.strip():
            while b'"llm_stream"' not in Path(sys.argv[2]).with_suffix(".jsonl").read_bytes():
                time.sleep(0.02)  # the text is on file a second after it came
            os.kill(os.getpid(), int(sys.argv[4]))

    recorder = TrajectoryRecorder(sys.argv[2])
    recorder.start()
    library.ask(recorder.wrap(client), sys.argv[1], "lines", hear)
    """
    path = tmp_path / "a.json"
    answer = stream(chat_chunk("one"), 0.1, chat_chunk("two"), SILENCE)
    with serving(answer) as server:
        ended = python(code, server.url + PATH, path, kind.name, int(number))
    run = load(path.with_suffix(".jsonl"))
    [call] = run.llm_interactions

    assert ended.returncode in {-number, 1}
    assert (call.response.content[:3], call.complete, run.status) == ("one", False, "interrupted")
    assert ("KeyboardInterrupt" in ended.stderr) == (number == signal.SIGINT)


@each_library
def test_the_recorded_request_is_the_server_s(tmp_path: Path, kind: type[Library]) -> None:
    """The recorded body is the one that the server got.

    The recorded address has no key, and only allowed headers are recorded.
    """
    path = tmp_path / "a.json"
    with serving(plain(CHAT)) as server, TrajectoryRecorder(path) as recorder:
        kind().outcome(f"{server.url}{PATH}?api-version=1&key=SECRETKEY123", "whole", recorder.wrap)
    text = path.with_suffix(".jsonl").read_text()
    [request] = [one for line in text.splitlines() if (one := json.loads(line))["kind"] == "llm_request"]

    assert server.bodies() == [ASK]
    assert load(path).llm_interactions[0].raw_request == ASK
    assert "SECRETKEY123" not in text
    assert "user-agent" not in {name.lower() for name in request["data"]["headers"]}


@each_library
def test_an_instrumented_process_records_any_client(tmp_path: Path, kind: type[Library]) -> None:
    """`instrument()` records wrapped and unwrapped clients once, and `uninstrument()` ends it."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        instrument()
        try:
            kind().outcome(server.url + PATH, "whole")
            kind().outcome(server.url + PATH, "whole", recorder.wrap)
        finally:
            uninstrument()
        kind().outcome(server.url + PATH, "whole")

    assert len(load(tmp_path / "a.json").llm_interactions) == 2


@each_library
def test_an_unknown_url_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Library]) -> None:
    """A request to a model's host at an unknown address is one gap, which names only the host."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True) as recorder:
        url = server.url.replace("127.0.0.1", "localhost")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        library = kind()
        client = recorder.wrap(library.client())
        for path in ("/v1/videos", PATH, "/v1/audio/voices"):
            library.post(client, url + path, json.dumps(ASK).encode())
        library.close(client)
    run = load(tmp_path / "a.json")

    assert [gap.what for gap in run.gaps] == ["record a request to localhost"]
    assert len(run.llm_interactions) == 1


@pytest.mark.skipif("urllib3" not in LIBRARIES, reason="aiohttp has an environment of its own")
@pytest.mark.parametrize("by_requests", [True, False], ids=["requests", "urllib3"])
def test_retries_of_urllib3_are_one_call(tmp_path: Path, *, by_requests: bool) -> None:
    """Requests that urllib3 retries are attempts of one call, each with its status, whoever configured the retries."""
    urllib3, requests = import_module("urllib3"), import_module("requests")
    retries = urllib3.Retry(2, status_forcelist=[503], allowed_methods=None, backoff_factor=0)
    busy = plain({"error": {"message": "busy"}}, 503)
    with serving(busy, busy, plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True) as recorder:
        if by_requests:
            with recorder.wrap(requests.Session()) as session:
                session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
                session.post(server.url + PATH, json=ASK)
        else:
            with recorder.wrap(urllib3.PoolManager(retries=retries)) as manager:
                manager.request("POST", server.url + PATH, json=ASK)
    [call] = load(tmp_path / "a.json").llm_interactions

    assert [(attempt.number, attempt.status) for attempt in call.attempts] == [(0, 503), (1, 503), (2, 200)]
    assert call.response.content == "hi"


@pytest.mark.skipif("urllib3" not in LIBRARIES, reason="aiohttp has an environment of its own")
def test_urllib3_before_version_2_is_not_recorded(tmp_path: Path) -> None:
    """`wrap` refuses a client of urllib3 before version 2, and `instrument()` leaves it unrecorded."""
    code = """
    import sys
    import urllib3
    from trace_recorder import TrajectoryRecorder, UnsupportedClientError, instrument
    del urllib3.BaseHTTPResponse  # version 1 has none
    with TrajectoryRecorder(sys.argv[2]) as recorder, urllib3.PoolManager() as manager:
        try:
            recorder.wrap(manager)
        except UnsupportedClientError as error:
            print(error)
        instrument()
        print(manager.request("POST", sys.argv[1], json={}).status)
    """
    path = tmp_path / "a.json"
    with serving(plain(CHAT)) as server:
        ended = python(code, server.url + PATH, path)
    refusal, status = ended.stdout.splitlines()

    assert (ended.returncode, ended.stderr, status) == (0, "", "200")
    assert refusal.startswith("wrap() does not record this version of urllib3")
    assert (load(path).llm_interactions, load(path).gaps) == ([], ())


@each_library
def test_a_library_that_is_imported_later_is_recorded(tmp_path: Path, kind: type[Library]) -> None:
    """`instrument()` imports no library, and records libraries that are imported later."""
    code = """
    import sys
    from trace_recorder import TrajectoryRecorder, instrument
    instrument()
    assert "aiohttp" not in sys.modules and "urllib3" not in sys.modules
    from tests.seams.callers import LIBRARIES
    with TrajectoryRecorder(sys.argv[2]):
        LIBRARIES[sys.argv[3]]().outcome(sys.argv[1], "whole")
    """
    with serving(plain(CHAT)) as server:
        ended = python(code, server.url + PATH, tmp_path / "a.json", kind.name)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [call.response.content for call in load(tmp_path / "a.json").llm_interactions] == ["hi"]


def call_openai(url: str) -> None:
    """Call a model with openai's client, whose httpx sends by aiohttp."""

    async def work() -> None:
        openai = pytest.importorskip("openai")
        http_client = openai.DefaultAioHttpClient()
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", http_client=http_client) as client:
            await client.chat.completions.create(**ASK)

    asyncio.run(work())


def call_google(url: str) -> None:
    """Call a model with google-genai's async client, which sends by aiohttp."""

    async def work() -> None:
        genai = pytest.importorskip("google.genai")
        client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url))
        await client.aio.models.generate_content(model="m", contents="hello")
        await client.aio.aclose()

    asyncio.run(work())


@pytest.mark.skipif("aiohttp" not in LIBRARIES, reason="aiohttp has an environment of its own")
@pytest.mark.parametrize(("call", "answer"), [(call_openai, plain(CHAT)), (call_google, plain(GENERATED))])
def test_stacked_libraries_record_a_call_once(tmp_path: Path, call: Callable[[str], None], answer: Answer) -> None:
    """If one HTTP library sends by another, the outer one that recognises the call records it."""
    with serving(answer) as server, TrajectoryRecorder(tmp_path / "a.json"):
        instrument()
        try:
            call(server.url)
        finally:
            uninstrument()

    assert [call.response.content for call in load(tmp_path / "a.json").llm_interactions] == ["hi"]
