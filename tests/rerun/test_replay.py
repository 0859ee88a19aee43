"""Replay: a run is answered from its journal, and any other request is refused with its differences."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest

from tests.provider import DROP, Answer, chat_chunk, serving, stream
from tests.rerun.runs import KEY, NOWHERE, ask, client, record, said
from trace_recorder import (
    ReplayMismatchError,
    TrajectoryRecorder,
    load,
    replay,
)


def test_a_run_is_replayed_without_its_server(tmp_path: Path) -> None:
    """Each call gets its recorded answer, in whichever order different calls are made."""
    path = tmp_path / "run.json"
    record(path, [said("one"), said("two")], lambda made: (ask(made, "first"), ask(made, "second")))

    with replay(path) as run:
        made = run.wrap(client())
        answers = ask(made, "second"), ask(made, "first")

    assert answers == ("two", "one")


def test_equal_calls_are_answered_in_their_recorded_order(tmp_path: Path) -> None:
    """A request that was recorded twice is answered twice, and not a third time."""
    path = tmp_path / "run.json"
    record(path, [said("one"), said("two")], lambda made: (ask(made), ask(made)))

    def thrice() -> None:
        with replay(path) as run:
            made = run.wrap(client(max_retries=0))
            assert (ask(made), ask(made)) == ("one", "two")
            ask(made)

    with pytest.raises(openai.APIConnectionError) as raised:
        thrice()
    assert "all recorded calls have been used" in str(raised.value.__cause__)


def test_a_stream_has_its_recorded_chunks(tmp_path: Path) -> None:
    """The chunks have the recorded boundaries, whatever the events are."""
    path = tmp_path / "run.json"
    pieces = [
        chat_chunk("Hel") + chat_chunk("lo")[:10],
        chat_chunk("lo")[10:],
        chat_chunk(None, "stop"),
        b"data: [DONE]\n\n",
    ]

    def chunks(made: openai.OpenAI) -> list[bytes]:
        with made.chat.completions.with_streaming_response.create(
            model="m", messages=[{"role": "user", "content": "hello"}], stream=True
        ) as response:
            return list(response.iter_bytes())

    came = record(path, [stream(*pieces)], chunks)
    with replay(path) as run:
        again = chunks(run.wrap(client()))

    assert again == came


def test_speed_delays_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At speed 1 a stream takes as long as it took. By default the replay does not sleep."""
    path = tmp_path / "run.json"
    record(path, [stream(chat_chunk("a"), 0.3, chat_chunk("b"), b"data: [DONE]\n\n")], _streamed)

    sleep, slept, taken = time.sleep, list[float](), list[float]()

    def sleep_noted(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            slept.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", sleep_noted)
    for speed in (1.0, None):
        slept.clear()
        began = time.perf_counter()
        with replay(path, speed=speed) as run:
            assert _streamed(run.wrap(client())) == "ab"
        taken.append(time.perf_counter() - began)

    assert (taken[0] > 0.25, slept) == (True, [])


def _streamed(made: openai.OpenAI) -> str:
    chunks = made.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_an_error_is_raised_as_the_same_exception(tmp_path: Path) -> None:
    """The SDK raises the provider's error with the recorded status and message."""
    path = tmp_path / "run.json"

    def failing(made: openai.OpenAI) -> tuple[type, int, str]:
        with pytest.raises(openai.APIStatusError) as raised:
            ask(made)
        return type(raised.value), raised.value.status_code, raised.value.message

    came = record(path, [Answer([b'{"error": {"message": "no such model"}}'], status=404)], failing)
    with replay(path) as run:
        again = failing(run.wrap(client()))

    assert again == came


def test_a_broken_stream_breaks_at_the_same_place(tmp_path: Path) -> None:
    """The received part is given, and then an exception of the same class is raised."""
    path = tmp_path / "run.json"

    def broken(made: openai.OpenAI) -> tuple[list[str], str]:
        came: list[str] = []
        try:
            _gather(made, came)
        except httpx_error() as error:
            return came, f"{type(error).__module__}.{type(error).__name__}: {error}"
        return came, "it did not break"

    came = record(path, [stream(chat_chunk("Hel"), DROP)], broken)
    with replay(path) as run:
        again = broken(run.wrap(client()))

    assert again == came == (["Hel"], again[1])
    assert again[1] != "it did not break"


def _gather(made: openai.OpenAI, came: list[str]) -> None:
    asked: Any = [{"role": "user", "content": "hello"}]
    for chunk in made.chat.completions.create(model="m", messages=asked, stream=True):
        came += [chunk.choices[0].delta.content or ""]


def httpx_error() -> tuple[type[Exception], ...]:

    return httpx.TransportError, httpx2.TransportError, openai.APIConnectionError


def test_a_changed_prompt_is_shown_by_word(tmp_path: Path) -> None:
    """The mismatch, which is the cause of the SDK's error, names the message, and shows the changed word."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)

    with pytest.raises(openai.APIConnectionError) as raised, replay(path) as run:
        ask(run.wrap(client(max_retries=0)), "Please list all the files")

    assert isinstance(raised.value.__cause__, ReplayMismatchError)
    assert "llm_1" in str(raised.value.__cause__)
    assert "messages[0].content: Please list{+ all+} the files" in str(raised.value.__cause__)


def _described(how: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "description": how}}]


@pytest.mark.parametrize(
    ("ignored", "change"),
    [
        ("temperature", {"temperature": 0.7}),
        ("messages[0].content", {"text": "something else"}),
        ("messages[-1]", {"text": "something else"}),
        (
            "tools[*].function.description",
            {"tools": [{"type": "function", "function": {"name": "f", "description": "2"}}]},
        ),
    ],
)
def test_ignored_members_may_differ(tmp_path: Path, ignored: str, change: dict[str, Any]) -> None:
    """Paths name the members and elements that the comparison ignores."""
    path = tmp_path / "run.json"
    before: dict[str, Any] = {"temperature": 0.2} if "temperature" in change else {}
    if "tools" in change:
        before = {"tools": _described("1")}
    record(path, [said("one")], lambda made: ask(made, **before))
    text = change.pop("text", "Please list the files")

    with replay(path, ignore=[ignored]) as run:
        assert ask(run.wrap(client()), text, **{**before, **change}) == "one"
    with pytest.raises(openai.APIConnectionError), replay(path) as run:
        ask(run.wrap(client(max_retries=0)), text, **{**before, **change})


@pytest.mark.parametrize("path", ["", "[0]", "messages[x]", "a b"])
def test_an_invalid_path_is_refused(tmp_path: Path, path: str) -> None:
    """A path that names no member would silently ignore nothing."""
    record(tmp_path / "run.json", [said("one")], ask)

    with pytest.raises(ValueError, match="ignore="):
        replay(tmp_path / "run.json", ignore=[path])


def test_a_function_may_compare_requests(tmp_path: Path) -> None:
    """`match` gets both requests as JSON values."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)

    with replay(path, match=lambda live, recorded: live["model"] == recorded["model"]) as run:
        assert ask(run.wrap(client()), "something else") == "one"


def test_calls_that_nobody_made_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the end of a strict block they are raised, and otherwise logged.

    They never replace the agent's own exception.
    """
    path = tmp_path / "run.json"
    record(path, [said("one"), said("two")], lambda made: (ask(made, "first"), ask(made, "second")))

    with pytest.raises(ReplayMismatchError, match="nobody asked for: llm_2"), replay(path) as run:
        ask(run.wrap(client()), "first")
    with caplog.at_level(logging.WARNING), replay(path, strict=False) as run:
        ask(run.wrap(client()), "first")
    assert "llm_2" in caplog.text
    with pytest.raises(KeyError), replay(path):
        raise KeyError


def test_a_masked_prompt_is_matched(tmp_path: Path) -> None:
    """A prompt with a secret equals its recording, in which a mask replaces the secret."""
    path = tmp_path / "run.json"
    secret = f"the key is {KEY}, use it"
    record(path, [said(f"I use {KEY}")], lambda made: ask(made, secret))

    with replay(path) as run:
        answer = ask(run.wrap(client()), secret)

    assert KEY not in answer
    assert "[REDACTED:" in answer


def test_simultaneous_async_calls_get_their_own_answers(tmp_path: Path) -> None:
    """Fifty calls are made at once, some of them equal, in a different order."""
    path = tmp_path / "run.json"
    texts = [f"question {number % 40}" for number in range(50)]

    async def all_of(made: openai.AsyncOpenAI, asked: list[str]) -> list[str]:
        async def one(text: str) -> str:
            given = await made.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
            return f"{text}: {given.choices[0].message.content}"

        async with made:
            return await asyncio.gather(*map(one, asked))

    with serving(*(said(f"answer {number}") for number in range(50))) as server:
        with TrajectoryRecorder(path, strict=True) as recorder:
            made = recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1"))
            came = asyncio.run(all_of(made, texts))
    with replay(path) as run:
        again = asyncio.run(all_of(run.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=NOWHERE)), texts[::-1]))

    assert sorted(again) == sorted(came)


def test_instrument_answers_all_clients(tmp_path: Path) -> None:
    """With `instrument`, clients that are not wrapped are answered. After the block they use their network again."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)
    made = client(max_retries=0)

    with replay(path, instrument=True):
        assert ask(made) == "one"
    with pytest.raises(openai.APIConnectionError) as raised:
        ask(made)
    assert not isinstance(raised.value.__cause__, ReplayMismatchError)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_replay_gives_http_clients_of_both_libraries(tmp_path: Path, library: Any) -> None:
    """The HTTP clients are for an SDK, or for a program that posts by itself."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)
    body = load(path).llm_interactions[0].raw_request

    with replay(path) as run, run.http_client(library) as made:
        assert made.post(f"{NOWHERE}/chat/completions", json=body).json()["choices"][0]["message"]["content"] == "one"


def test_other_requests_of_a_wrapped_client_are_sent(tmp_path: Path) -> None:
    """A wrapped client sends its requests that are not LLM calls."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)

    with serving(Answer([b"fine"])) as server, replay(path, strict=False) as run:
        with httpx.Client(trust_env=False) as made:
            assert run.wrap(made).post(f"{server.url}/weather", content=b"?").text == "fine"


def test_a_hidden_mismatch_is_raised_at_the_end(tmp_path: Path) -> None:
    """An agent that catches all exceptions, as many do, does not make a test pass."""
    path = tmp_path / "run.json"
    record(path, [said("one")], ask)

    def hide() -> None:
        with replay(path) as run:
            made = run.wrap(client(max_retries=0))
            with suppress(openai.OpenAIError):
                ask(made, temperature=0)
            ask(made)

    with pytest.raises(ReplayMismatchError, match="temperature"):
        hide()
