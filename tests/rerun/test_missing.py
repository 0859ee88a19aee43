"""Replay with missing="live": requests that were not recorded are sent, and their tools are run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.provider import Server, plain, serving
from tests.rerun.plugin_runs import KEY, answered
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, replay, tool


def ask(made: openai.OpenAI, text: str) -> str | None:
    """Return the model's answer to one message."""
    asked: Any = [{"role": "user", "content": text}]
    return made.chat.completions.create(model="m", messages=asked).choices[0].message.content


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider that answers "old" once, and then "new"."""
    with serving(answered("old"), answered("new")) as server:
        yield server


@pytest.fixture
def path(server: Server, tmp_path: Path) -> Path:
    """A recording of one call, which the model answered with "old"."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder, client(server) as made:
        ask(recorder.wrap(made), "known")
    return tmp_path / "run.json"


def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0)


def test_an_unrecorded_call_is_sent(server: Server, path: Path) -> None:
    """The other calls are answered from the recording, each once. There is no mismatch."""
    with client(server) as made, replay(path, missing="live") as run:
        run.wrap(made)
        said = [ask(made, text) for text in ("other", "known", "known")]

    assert (said, run.live_calls, run.mismatch, len(server.requests)) == (["new", "old", "new"], 2, None, 3)


def test_unrecorded_async_calls_are_sent(server: Server, path: Path) -> None:
    """An async client works in the same way."""

    async def both() -> list[str | None]:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0) as made:
            run.wrap(made)
            asked: list[Any] = [[{"role": "user", "content": text}] for text in ("other", "known")]
            answers = [await made.chat.completions.create(model="m", messages=one) for one in asked]
            return [answer.choices[0].message.content for answer in answers]

    with replay(path, missing="live") as run:
        assert asyncio.run(both()) == ["new", "old"]


def test_an_http_client_of_the_replay_has_a_network(server: Server, path: Path) -> None:
    """With missing="live" it has a network. The HTTP client of a replay without missing="live" has none."""
    with replay(path, missing="live", strict=False) as run, run.http_client("httpx") as made:
        answer = made.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": []})
    with pytest.raises(ReplayMismatchError), replay(path) as run, run.http_client("httpx") as made:
        made.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": []})

    assert answer.json()["choices"][0]["message"]["content"] == "new"


def test_a_call_without_a_recorded_end_is_sent(server: Server, path: Path) -> None:
    """The process was killed while it waited, so the recording ends with the request."""
    journal = path.with_suffix(".jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    [request] = [at for at, line in enumerate(lines) if b'"kind":"llm_request"' in line]
    journal.write_bytes(b"".join(lines[: request + 1]))

    with client(server) as made, replay(path, missing="live") as run:
        assert ask(run.wrap(made), "known") == "new"


class OwnError(Exception):
    """An exception of the agent's own."""


ran: list[str] = []


@tool
def search(query: str) -> str:
    """A tool that notes its runs."""
    ran.append(query)
    if query == "nothing":
        raise OwnError("nothing was found")
    return query.upper()


def test_an_unrecorded_tool_call_is_run(tmp_path: Path) -> None:
    """A tool call with new arguments is run. The recorded call with other arguments is not used for it."""
    ran.clear()
    with TrajectoryRecorder(tmp_path / "run.json", strict=True):
        search("a")

    with replay(tmp_path / "run.json", missing="live") as run:
        given = search("b"), search("a")

    assert (given, ran, run.live_calls) == (("B", "A"), ["a", "b"], 1)


def test_a_recorded_replay_names_the_same_exception(tmp_path: Path) -> None:
    """If a tool's exception has a class of its own, both recordings have the name of that class."""
    ran.clear()
    names = []
    for number in range(2):
        path = tmp_path / f"{number}.json"
        again = [replay(tmp_path / "0.json")] if number else []
        with TrajectoryRecorder(path, strict=True):
            for context in again:
                context.__enter__()
            with pytest.raises(Exception, match="nothing was found") as raised:
                search("nothing")
            for context in again:
                context.__exit__(None, None, None)
        names.append(type(raised.value).__name__)

    assert (names, ran) == (["OwnError", "OwnError"], ["nothing"])


def test_other_requests_are_sent_as_usual(server: Server, path: Path) -> None:
    """A request that is not an LLM call is not part of the replay."""
    with serving(plain({"fine": True})) as other, replay(path, missing="live", strict=False) as run:
        with httpx.Client(trust_env=False) as made:
            assert run.wrap(made).post(f"{other.url}/weather", content=b"?").json() == {"fine": True}
    assert run.live_calls == 0
