"""Replays in which the results of simultaneous tools come in a different order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.invoking import invoke
from tests.provider import CHAT, Answer, plain, serving
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, replay, results_in_any_order
from trace_recorder.dialects.json_access import as_list
from trace_recorder.rerun.matching import in_one_order

ADDRESSES = {
    "chat": "http://127.0.0.1:9/v1/chat/completions",
    "responses": "http://127.0.0.1:9/v1/responses",
    "anthropic": "http://127.0.0.1:9/v1/messages",
    "google": "http://127.0.0.1:9/v1beta/models/m:generateContent",
}


def _chat(*order: str) -> dict[str, Any]:
    results = [{"role": "tool", "tool_call_id": name, "content": f"of {name}"} for name in order]
    asked = {"role": "assistant", "tool_calls": [{"id": name, "type": "function"} for name in "ab"]}
    return {"model": "m", "messages": [{"role": "user", "content": "q"}, asked, *results]}


def _responses(*order: str) -> dict[str, Any]:
    results = [{"type": "function_call_output", "call_id": name, "output": f"of {name}"} for name in order]
    return {"model": "m", "input": [{"role": "user", "content": "q"}, *results]}


def _anthropic(*order: str) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": name, "content": f"of {name}"} for name in order]
    return {"model": "m", "messages": [{"role": "user", "content": [*results, {"type": "text", "text": "So?"}]}]}


def _google(*order: str) -> dict[str, Any]:
    parts = [{"functionResponse": {"name": name, "response": {"output": f"of {name}"}}} for name in order]
    return {"contents": [{"role": "user", "parts": parts}]}


def _anthropic_apart(*order: str) -> dict[str, Any]:
    """Return a request with a message for each result."""
    [message] = _anthropic(*order)["messages"]
    return {"model": "m", "messages": [{**message, "content": [block]} for block in message["content"][:-1]]}


def _google_apart(*order: str) -> dict[str, Any]:
    """Return a request with a content for each result."""
    return {"contents": [{"role": "user", "parts": [part]} for part in _google(*order)["contents"][0]["parts"]]}


BODIES = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "anthropic, apart": _anthropic_apart,
    "google": _google,
    "google, apart": _google_apart,
}


def address(kind: str) -> str:
    return ADDRESSES[kind.partition(",")[0]]


def _recorded(path: Path, kind: str, *bodies: dict[str, Any]) -> Path:
    answer = plain(CHAT)
    with serving(*[Answer(answer.chunks, headers=answer.headers) for _ in bodies]) as server:
        with TrajectoryRecorder(path, strict=True) as recorder, recorder.wrap(httpx.Client()) as client:
            for body in bodies:
                client.post(address(kind).replace("http://127.0.0.1:9", server.url), json=body)
    return path


@pytest.mark.parametrize("kind", BODIES)
def test_results_of_a_turn_may_come_in_any_order(tmp_path: Path, kind: str) -> None:
    make = BODIES[kind]
    path = _recorded(tmp_path / "run.json", kind, make("a", "b"))

    with replay(path, match=results_in_any_order) as run, run.wrap(httpx.Client()) as client:
        assert client.post(address(kind), json=make("b", "a")).status_code == 200
    with replay(path, strict=False) as run, run.wrap(httpx.Client()) as client:
        with pytest.raises(ReplayMismatchError):
            client.post(address(kind), json=make("b", "a"))


@pytest.mark.parametrize("kind", BODIES)
def test_other_differences_are_still_mismatches(kind: str) -> None:
    make = BODIES[kind]
    assert results_in_any_order(make("a", "b"), make("b", "a"))
    assert not results_in_any_order(make("a", "b"), make("a", "c"))
    assert not results_in_any_order(make("a", "b"), make("a"))


def test_messages_between_results_keep_their_places() -> None:
    """Only consecutive results may change their order."""
    user = {"role": "user", "content": "q"}
    one, other = as_list(_chat("a", "b")["messages"])[2:]
    assert not results_in_any_order({"messages": [one, user, other]}, {"messages": [other, user, one]})
    assert in_one_order({"messages": [user, other, one, user]}) == {"messages": [user, one, other, user]}


def test_masked_results_may_come_in_any_order(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Zq8" * 30 + "AA"
    body = json.loads(json.dumps(_chat("a", "b")).replace("of a", f"the key is {key}"))
    path = _recorded(tmp_path / "run.json", "chat", body)
    body["messages"][2:] = reversed(body["messages"][2:])

    with replay(path, match=results_in_any_order) as run, run.wrap(httpx.Client()) as client:
        assert client.post(ADDRESSES["chat"], json=body).status_code == 200


def test_requests_of_simultaneous_agents_may_come_in_any_order(tmp_path: Path) -> None:
    bodies = [{"model": "m", "messages": [{"role": "user", "content": text}]} for text in ("one", "two", "one")]
    path = _recorded(tmp_path / "run.json", "chat", *bodies)
    with replay(path, match=results_in_any_order) as run, run.wrap(httpx.Client()) as client:
        assert [client.post(ADDRESSES["chat"], json=body).status_code for body in sorted(bodies, key=str)] == [200] * 3


@pytest.mark.parametrize("command", ["replay", "fork", "serve"])
def test_the_commands_have_an_option_for_any_order(command: str) -> None:
    assert "results-in-any-order" in invoke(command, "--help").output
