"""A replay together with recorders inside and outside of it, threads, and other replays, and the state that it
leaves.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.provider import serving
from tests.rerun.runs import KEY, NOWHERE, ask, client, record, said
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, load, replay, tool

TEXTS = [f"question {number}" for number in range(20)]


@tool
def lookup(name: str) -> str:
    """A tool whose result shows that it was run."""
    return f"{name} was run"


def recorded_run(path: Path, answer: str, result: str = "") -> Path:
    """Return a run with an LLM call, and a tool call whose recorded result is `result`."""

    @tool(name="lookup")
    def look(name: str) -> str:
        return result

    def act(made: openai.OpenAI) -> None:
        ask(made)
        if result:
            look(name="x")

    record(path, [said(answer)], act)
    return path


@pytest.mark.parametrize("recorder_outside", [True, False])
@pytest.mark.parametrize("recorder_wraps_first", [True, False])
def test_a_replay_can_be_recorded(tmp_path: Path, recorder_outside: bool, recorder_wraps_first: bool) -> None:
    """The call is answered and recorded, in whatever order the blocks are entered and the client is wrapped."""
    path, again = recorded_run(tmp_path / "run.json", "one"), tmp_path / "again.json"
    made = client()

    def call(recorder: TrajectoryRecorder, run: Any) -> str:
        for wrap in (recorder.wrap, run.wrap) if recorder_wraps_first else (run.wrap, recorder.wrap):
            wrap(made)
        return ask(made)

    if recorder_outside:
        with TrajectoryRecorder(again, strict=True) as recorder, replay(path) as run:
            answer = call(recorder, run)
    else:
        with replay(path) as run, TrajectoryRecorder(again, strict=True) as recorder:
            answer = call(recorder, run)

    [first], [second] = (load(one).llm_interactions for one in (path, again))
    assert (answer, second.raw_request, second.raw_response) == ("one", first.raw_request, first.raw_response)


@pytest.mark.parametrize("recorder_wraps_first", [True, False])
def test_a_recorder_goes_on_after_a_replay(tmp_path: Path, recorder_wraps_first: bool) -> None:
    """A client that is recorded when the replay ends is still recorded, and sends requests to its server again."""
    path = recorded_run(tmp_path / "run.json", "one")
    with serving(said("from the server")) as server:
        made = client(f"{server.url}/v1")
        with TrajectoryRecorder(tmp_path / "again.json", strict=True) as recorder:
            with replay(path) as run:
                for wrap in (recorder.wrap, run.wrap) if recorder_wraps_first else (run.wrap, recorder.wrap):
                    wrap(made)
                ask(made)
            ask(made, "another")

    answers = [call.response.content for call in load(tmp_path / "again.json").llm_interactions]
    assert answers == ["one", "from the server"]


def test_wrapping_twice_answers_once(tmp_path: Path) -> None:
    """A client that is wrapped twice is answered once, and has its own transport and retries after the block."""
    path = recorded_run(tmp_path / "run.json", "one")
    made = client()
    before = made._client._transport, {name for name in vars(made) if "retry" in name}

    with replay(path) as run:
        assert ask(run.wrap(run.wrap(made))) == "one"

    assert (made._client._transport, {name for name in vars(made) if "retry" in name}) == before


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_replays_of_one_client_may_end_in_any_order(tmp_path: Path, first_ends_first: bool) -> None:
    """The replay that wrapped last answers. When both have ended the client is unchanged."""
    first, second = (replay(recorded_run(tmp_path / f"{name}.json", name), strict=False) for name in ("one", "two"))
    made = client()
    before = made._client._transport

    first.wrap(made)
    second.wrap(made)
    answer = ask(made)
    for one in (first, second) if first_ends_first else (second, first):
        one.__exit__(None, None, None)

    assert (answer, made._client._transport) == ("two", before)


def test_threads_get_their_own_answers(tmp_path: Path) -> None:
    """Many threads use one client at once, and each gets its own answer."""
    path = tmp_path / "run.json"
    record(path, [said(f"to {text}") for text in TEXTS], lambda made: [ask(made, text) for text in TEXTS])

    with replay(path) as run, ThreadPoolExecutor(8) as pool:
        made = run.wrap(client())
        answers = list(pool.map(lambda text: ask(made, text), reversed(TEXTS)))

    assert answers == [f"to {text}" for text in reversed(TEXTS)]


def test_two_simultaneous_replays_are_separate(tmp_path: Path) -> None:
    """Two tasks each have a replay. Their clients and tools get the answers of their own run."""
    paths = [recorded_run(tmp_path / f"{name}.json", name, f"result {name}") for name in ("one", "two")]
    met = asyncio.Barrier(2)

    async def act(path: Path) -> tuple[str | None, str]:
        with replay(path) as run:
            async with run.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=NOWHERE)) as made:
                async with met:
                    asked: Any = [{"role": "user", "content": "Please list the files"}]
                    answer = await made.chat.completions.create(model="m", messages=asked)
                async with met:
                    return answer.choices[0].message.content, lookup("x")

    async def both() -> list[tuple[str | None, str]]:
        return await asyncio.gather(*map(act, paths))

    assert asyncio.run(both()) == [("one", "result one"), ("two", "result two")]


def test_a_replay_with_live_tools_is_not_answered_by_a_second(tmp_path: Path) -> None:
    """With `tools="live"`, the tools of a task are run while a second task replays."""
    paths = [recorded_run(tmp_path / f"{name}.json", name, f"result {name}") for name in ("one", "two")]

    async def other() -> str:
        with replay(paths[0], tools="live", strict=False):
            return lookup("x")

    async def both() -> str:
        with replay(paths[1], strict=False):
            return await asyncio.create_task(other(), context=contextvars.Context())

    assert asyncio.run(both()) == "x was run"


def in_a_thread(act: Callable[[], str]) -> list[str]:
    """Return the result of a function in a thread without a context, or the class of its exception."""
    results: list[str] = []

    def run() -> None:
        try:
            results.append(act())
        except ReplayMismatchError as mismatch:
            results.append(str(mismatch))

    thread = threading.Thread(target=contextvars.Context().run, args=(run,))
    thread.start()
    thread.join()
    return results


def test_a_thread_without_a_context_uses_the_only_replay(tmp_path: Path) -> None:
    """A tool in such a thread is answered by the only open replay. If two are open, neither answers, and it is
    not run.
    """
    paths = [recorded_run(tmp_path / f"{name}.json", name, f"result {name}") for name in ("one", "two")]

    with replay(paths[0], strict=False):
        alone = in_a_thread(lambda: lookup("x"))
        with replay(paths[1], strict=False):
            [between] = in_a_thread(lambda: lookup("x"))

    assert alone == ["result one"]
    assert "belongs to none of the 2 replays" in between


def test_a_hidden_request_is_named_at_the_end(tmp_path: Path) -> None:
    """An HTTP client of the replay refuses other requests. The replay names them at its end, even if the agent hides
    the error.
    """
    path = recorded_run(tmp_path / "run.json", "one")

    def post() -> None:
        with replay(path) as run, run.http_client("httpx") as made:
            with suppress(ReplayMismatchError):
                made.post("http://127.0.0.1:9/weather", content=b"?")

    with pytest.raises(ReplayMismatchError, match="is not an LLM call"):
        post()
