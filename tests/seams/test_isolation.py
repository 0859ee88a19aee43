"""Failures of recording, signals, and concurrent agents, with every HTTP library other than httpx."""

from __future__ import annotations

import asyncio
import contextvars
import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.faults.late_errors import LateError, Place, handling, places_of, profiled, raise_late
from tests.isolation.hooks import HOOKS, BrokenError, Hook
from tests.isolation.outcomes import in_all
from tests.provider import CHAT_STREAM, SILENCE, UNANSWERED, chat_chunk, serving, stream
from tests.seams.callers import LIBRARIES, Aiohttp, Library, body_of
from tests.seams.test_seams import ANSWERS, PATH
from trace_recorder import TrajectoryRecorder, load, wrap
from trace_recorder.capture.method_seams import current_interception
from trace_recorder.capture.seam import request_in_progress
from trace_recorder.reading.validate import validate

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Payload = Any
AGENTS = 12
each_library = pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)
NOT_PASSED = {"wrap the stream", "find a decoder", "decode"}
"""Places of recording that these answers do not pass, because they are not encoded and these libraries have no
transports.
"""


def caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether an exception, or one of its causes, is of a class, because the libraries wrap some exceptions."""
    return kind in [one for one, *_ in in_all(error)]


@each_library
@pytest.mark.parametrize(
    "hook", [pytest.param(hook, id=name) for name, hook in HOOKS.items() if hook.raises and name not in NOT_PASSED]
)
def test_a_strict_recorder_raises(tmp_path: Path, kind: type[Library], hook: Hook) -> None:
    """With `strict=True`, every failure of recording is raised; otherwise it is a gap."""
    name = next(
        name for way, name in (("stream", "lines"), ("plain", "whole"), ("cut", "cut off")) if hook.gaps.get(way)
    )
    answer, way = ANSWERS[name]
    seen: list[BaseException] = []

    class Seeing(kind):  # type: ignore[misc, valid-type]
        def ask(self, *arguments: Payload) -> None:
            try:
                super().ask(*arguments)
            except BaseException as error:
                seen.append(error)
                raise

    for strict in (True, False):
        recorder = hook.recorder(tmp_path / f"{strict}.json", strict=strict)
        with serving(answer) as server, pytest.MonkeyPatch.context() as patch:
            if hook.has_begun:
                recorder.start()
            hook.breaks(patch)
            Seeing().outcome(server.url + PATH, way, recorder.wrap)
        if not hook.has_begun:
            recorder.start()
        recorder.finalize()
        assert any(caused_by(error, BrokenError) for error in seen) == strict
        seen.clear()

    assert load(tmp_path / "False.json").gaps


SEAMS = ("aiohttp_sessions", "urllib3_pools", "method_seams", "method_slots", "/seam", "/exchange")


@each_library
@pytest.mark.parametrize("way", ["whole", "lines"])
def test_no_exception_of_a_handler_is_swallowed(tmp_path: Path, kind: type[Library], way: str) -> None:
    """An exception that a signal handler raises anywhere in a seam reaches the agent, and the next call is recorded
    whole.
    """
    path = tmp_path / "run.json"
    library = kind()
    with serving(ANSWERS[way][0]) as server, TrajectoryRecorder(path) as recorder:
        client = recorder.wrap(library.client())

        def act() -> None:
            library.ask(client, server.url + PATH, way, lambda _: None)

        def swallows(place: Place) -> bool:
            pending, dropped = [place], []

            def interrupt(at: Place) -> None:
                if pending == [at]:
                    pending.clear()
                    signal.raise_signal(signal.SIGUSR1)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "unraisablehook", lambda unraisable: dropped.append(unraisable.exc_type))
                try:
                    with handling(raise_late), profiled(interrupt):
                        act()
                except Exception as error:  # noqa: BLE001 - the library may wrap the exception
                    return not caused_by(error, LateError)
            return not pending and LateError not in dropped

        act()
        places = [place for place in sorted(places_of(act)) if place[0].removesuffix(".py").endswith(SEAMS)]
        swallowed = [place for place in places if swallows(place)]
        # Otherwise calls of other clients would be lost.
        assert (current_interception.get(), request_in_progress.get()) == (None, None)
        act()
        library.close(client)
    last = load(path).llm_interactions[-1]

    assert len(places) > 10
    assert swallowed == []
    assert [finding.what for finding in validate(path).findings if finding.severity == "error"] == []
    assert (last.complete, last.error) == (True, None)


def asked_and_told(path: Path) -> list[Payload]:
    """Return the recorded questions with their answers."""
    calls = load(path).llm_interactions
    return [(call.input_messages[0].content, call.response.content, call.complete) for call in calls]


def question(agent: int, number: int) -> Payload:
    """Return the body of a streamed call of an agent."""
    return {**body_of("lines"), "messages": [{"role": "user", "content": f"agent {agent}, question {number}"}]}


def by_threads(kind: type[Library], url: str, directory: Path) -> None:
    """Run agents that share a client, each in a thread with its own recorder."""
    library = kind()
    client = wrap(library.client())
    begin = Barrier(AGENTS)

    def work(agent: int) -> None:
        begin.wait()
        with TrajectoryRecorder(directory / f"{agent}.json", strict=True):
            for number in range(2):
                library.post(client, url, json.dumps(question(agent, number)).encode())

    with ThreadPoolExecutor(AGENTS) as pool:
        for done in [pool.submit(contextvars.Context().run, work, agent) for agent in range(AGENTS)]:
            done.result()
    library.close(client)


def by_tasks(url: str, directory: Path) -> None:
    """Run agents that share an aiohttp session, each in a task with its own recorder."""

    async def work(session: Payload, agent: int) -> None:
        async with TrajectoryRecorder(directory / f"{agent}.json", strict=True):
            for number in range(2):
                async with session.post(url, json=question(agent, number)) as response:
                    async for _ in response.content:
                        await asyncio.sleep(0)

    async def together() -> None:
        aiohttp = pytest.importorskip("aiohttp")
        async with aiohttp.ClientSession() as session:
            wrap(session)
            await asyncio.gather(*(work(session, agent) for agent in range(AGENTS)))

    asyncio.run(together())


@each_library
def test_many_agents_with_one_client_are_separate(tmp_path: Path, kind: type[Library]) -> None:
    """Each agent has exactly its own calls in its own file, in order."""
    answer = stream(CHAT_STREAM[0], 0.01, *CHAT_STREAM[1:])
    with serving(answer) as server:
        if kind is Aiohttp:
            by_tasks(server.url + PATH, tmp_path)
        else:
            by_threads(kind, server.url + PATH, tmp_path)
    on_file = {agent: asked_and_told(tmp_path / f"{agent}.json") for agent in range(AGENTS)}

    assert len(server.requests) == 2 * AGENTS
    assert on_file == {
        agent: [(f"agent {agent}, question {number}", "Grüße", True) for number in range(2)] for agent in range(AGENTS)
    }


@pytest.mark.skipif("aiohttp" not in LIBRARIES, reason="aiohttp has an environment of its own")
@pytest.mark.parametrize("moment", ["before the answer", "in the stream"])
def test_a_cancelled_task_is_recorded(tmp_path: Path, moment: str) -> None:
    """A cancelled task raises asyncio's own exception, and the call has the cancellation as its error."""
    silent = stream(chat_chunk("one"), SILENCE)
    late = UNANSWERED

    async def work(url: str) -> None:
        aiohttp = pytest.importorskip("aiohttp")
        async with aiohttp.ClientSession() as session:
            recorder.wrap(session)
            heard = asyncio.Event()

            async def call() -> None:
                async with session.post(url, json=body_of("lines")) as response:
                    async for _ in response.content:
                        heard.set()

            task = asyncio.create_task(call())
            if moment == "in the stream":
                await heard.wait()
            else:
                while not server.requests:
                    await asyncio.sleep(0.005)
            task.cancel("enough")
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await task

    with serving(late if moment == "before the answer" else silent) as server:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            asyncio.run(work(server.url + PATH))
    [one] = load(tmp_path / "run.json").llm_interactions

    assert one.error is not None
    assert (one.complete, one.error.type.rpartition(".")[2]) == (False, "CancelledError")
    assert (one.response and one.response.content) == (None if moment == "before the answer" else "one")
