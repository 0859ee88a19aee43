"""Requests in a replay: redirects, cancellation, bodies that are not JSON, and the cost of matching a long history."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.counting import arguments_of, calls
from tests.provider import CHAT, SILENCE, UNANSWERED, Answer, Server, chat_chunk, plain, serving, stream
from tests.rerun.runs import KEY, NOWHERE, ask, client, record, said
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, load, replay
from trace_recorder.rerun import matching

ASKED: Any = [{"role": "user", "content": "hello"}]
ADDRESS = "/v1/chat/completions"


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed_again(tmp_path: Path, status: int) -> None:
    """The target of a redirect is not recorded. The replay takes it from the next attempt."""
    path, again = tmp_path / "run.json", tmp_path / "again.json"
    with serving(said("from elsewhere")) as other:
        moved = Answer([b"{}"], status, {"content-type": "application/json", "location": f"{other.url}{ADDRESS}"})
        came = record(path, [moved], ask)

    with TrajectoryRecorder(again, strict=True) as recorder, replay(path) as run:
        answer = ask(run.wrap(recorder.wrap(client())))

    [call] = load(again).llm_interactions
    assert (answer, came) == ("from elsewhere", "from elsewhere")
    assert [attempt.status for attempt in call.attempts] == [status, 200]


class Agent:
    """An agent that asks for a stream or an answer by an async client. `came` is the part received so far."""

    def __init__(self, url: str, wrap: Any, *, streams: bool) -> None:
        self._made = openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0)
        self._wrap = wrap
        self._streams = streams
        self.came: list[str] = []

    async def call(self) -> None:
        """Call the model."""
        async with self._made as made:
            answer: Any = await self._wrap(made).chat.completions.create(
                model="m", messages=ASKED, stream=self._streams
            )
            async for chunk in answer:
                self.came.append(chunk.choices[0].delta.content)

    async def cancelled(self, server: Server) -> None:
        """Make a call, and cancel it when the server has the request, or when a chunk has arrived."""
        task = asyncio.create_task(self.call())
        while not (self.came if self._streams else server.requests):
            await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def timed_out(self) -> None:
        """Make a call with a timeout, which begins when a chunk has arrived, if the agent waits for chunks."""
        async with asyncio.timeout(None) as limit:

            async def expire() -> None:
                while self._streams and not self.came:
                    await asyncio.sleep(0.01)
                limit.reschedule(asyncio.get_running_loop().time() + 0.5)

            expiring = asyncio.create_task(expire())
            await self.call()
            await expiring


def cancelled_run(path: Path, *, streams: bool) -> list[str]:
    """Record a call that is cancelled. Return the received part."""
    answer = stream(chat_chunk("a"), SILENCE) if streams else UNANSWERED
    with serving(answer) as server, TrajectoryRecorder(path, strict=True) as recorder:
        agent = Agent(f"{server.url}/v1", recorder.wrap, streams=streams)
        asyncio.run(agent.cancelled(server))
    return agent.came


@pytest.mark.parametrize("streams", [False, True])
def test_a_cancelled_call_waits_for_its_cancellation(tmp_path: Path, streams: bool) -> None:
    """The agent's own timeout ends the call again, before the answer or in the middle of it."""
    path = tmp_path / "run.json"
    came = cancelled_run(path, streams=streams)

    with replay(path) as run:
        agent = Agent(NOWHERE, run.wrap, streams=streams)
        with pytest.raises(TimeoutError):
            asyncio.run(agent.timed_out())

    assert agent.came == came == (["a"] if streams else [])


def test_a_cancelled_call_is_a_mismatch_if_it_is_not_cancelled(tmp_path: Path) -> None:
    """An agent that waits longer than the recorded agent gets an error, because no more is recorded."""
    path = tmp_path / "run.json"
    cancelled_run(path, streams=False)

    with pytest.raises(ReplayMismatchError, match="CancelledError"), replay(path) as run:
        with suppress(openai.APIConnectionError):
            asyncio.run(Agent(NOWHERE, run.wrap, streams=False).call())


BODIES = {
    "text": b"hello, no JSON",
    "bytes": b"\xff\xfe\x00",
    "nothing": b"",
    "a list": b"[1, 2]",
    "not a number": b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
    "half a pair": b'{"messages": [{"role": "user", "content": "\\ud83d"}]}',
    "nested too deep": b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a name twice": b'{"model": "a", "model": "b", "messages": []}',
    "a huge number": b'{"seed": ' + b"9" * 5000 + b"}",
    "with a key": f'{{"messages": [{{"role": "user", "content": "{KEY}"}}]}}'.encode(),
    "a text with a key": f"my key is {KEY}".encode(),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_of_any_bytes_are_matched(tmp_path: Path, body: bytes) -> None:
    """A request with any bytes is matched, even if strict readers refuse its JSON."""
    path = tmp_path / "run.json"
    headers = {"authorization": f"Bearer {KEY}"}
    with serving(plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        with httpx.Client(trust_env=False, headers=headers) as made:
            recorder.wrap(made).post(f"{server.url}{ADDRESS}", content=body)

    with replay(path) as run, run.http_client("httpx", headers=headers) as made:
        assert made.post(f"http://127.0.0.1:9{ADDRESS}", content=body).json() == CHAT
    with pytest.raises(ReplayMismatchError), replay(path) as run, run.http_client("httpx", headers=headers) as made:
        made.post(f"http://127.0.0.1:9{ADDRESS}", content=b"something else")


TURNS = 1000


def conversation(turns: int) -> bytes:
    """Return the request of a turn, whose history has 400 bytes for each turn."""
    texts = (f"turn {number} ".encode() + b"x" * 400 for number in range(turns))
    messages = b",".join(b'{"role":"user","content":"%b"}' % text for text in texts)
    return b'{"model":"m","messages":[' + messages + b"]}"


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a thousand turns of 400 bytes. Each request has the whole history."""
    path = tmp_path_factory.mktemp("long") / "run.json"
    whole = conversation(TURNS)
    ends = [whole.index(b"turn %d " % number) for number in range(1, TURNS)]
    bodies = [whole[: end - len(b',{"role":"user","content":"')] + b"]}" for end in ends] + [whole]
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=CHAT))
    with TrajectoryRecorder(path, strict=True) as recorder, httpx.Client(transport=transport) as made:
        recorder.wrap(made)
        for body in bodies:
            made.post(f"https://localhost{ADDRESS}", content=body)
    return path


def test_the_cost_of_a_call_is_linear_in_its_request(long_run: Path) -> None:
    """Ten times the history takes at most ten times the function calls and digests."""
    with replay(long_run, strict=False) as run, run.http_client("httpx") as made:

        def post(turns: int) -> Any:
            body = conversation(turns)
            return lambda: made.post(f"http://127.0.0.1:9{ADDRESS}", content=body).raise_for_status()

        taken = {turns: calls(post(turns)) for turns in (99, 990)}
        digested = [len(arguments_of(post(turns), matching._digest, lambda _: 1)) for turns in (100, 1000)]

    assert taken[990] <= 10 * taken[99]
    assert digested == [101, 1001]  # a digest of each message, and of the model


def test_opening_a_run_digests_each_message_once(long_run: Path) -> None:
    """A message that a thousand requests repeat is digested when it is first met."""
    digested = arguments_of(lambda: replay(long_run), matching._digest, lambda _: 1)

    assert len(digested) == 2 * TURNS  # a digest of each message, and of the model of each request


def test_equal_requests_are_answered_without_a_search(tmp_path: Path) -> None:
    """The last of many equal calls costs no more than the first, because answered calls are not searched again."""
    path = tmp_path / "run.json"
    body = json.dumps({"model": "m", "messages": ASKED}).encode()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=CHAT))
    with TrajectoryRecorder(path, strict=True) as recorder, httpx.Client(transport=transport) as made:
        recorder.wrap(made)
        for _ in range(200):
            made.post(f"https://localhost{ADDRESS}", content=body)

    with replay(path) as run, run.http_client("httpx") as made:
        taken = [calls(lambda: made.post(f"http://127.0.0.1:9{ADDRESS}", content=body)) for _ in range(200)]

    assert taken[-1] <= taken[1]
