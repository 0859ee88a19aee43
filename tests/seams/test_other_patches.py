"""Other libraries replace and restore the same methods as we do, in any order: each call is on file once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, plain, serving
from tests.seams.callers import ASK
from trace_recorder import TrajectoryRecorder, instrument, load, uninstrument, unwrap
from trace_recorder.capture.method_slots import method_slots

PATH = "/v1/chat/completions"
BODY = json.dumps(ASK)
Payload = Any


def ask_urllib3(url: str) -> None:
    import_module("urllib3").PoolManager().request("POST", url, body=BODY)


def ask_requests(url: str) -> None:
    import_module("requests").post(url, data=BODY, timeout=60)


def ask_httpx(library: str) -> Callable[[str], None]:
    return lambda url: import_module(library).post(url, content=BODY)


def ask_aiohttp(url: str) -> None:
    async def work() -> None:
        async with import_module("aiohttp").ClientSession() as session, session.post(url, data=BODY) as response:
            await response.read()

    asyncio.run(work())


PATCHED = {
    "urllib3": ("urllib3", "HTTPConnectionPool", "_make_request", ask_urllib3),
    "requests": ("urllib3", "HTTPConnectionPool", "_make_request", ask_requests),
    "httpx": ("httpx", "Client", "_transport_for_url", ask_httpx("httpx")),
    "httpx2": ("httpx2", "Client", "_transport_for_url", ask_httpx("httpx2")),
    "aiohttp": ("aiohttp", "ClientSession", "_request", ask_aiohttp),
}
"""The module, the class and the method that `instrument()` replaces for each library, and a call."""
LIBRARIES = [name for name in PATCHED if find_spec(name)]
each_library = pytest.mark.parametrize("name", LIBRARIES)

ORDERS = {
    "the other stays": "on other off on",
    "the other is gone again": "on other off undo on",
    "the other goes after us": "on other off on undo",
    "two others": "on other off on other off on",
    "two others, gone in turn": "on other off on other off on undo undo",
    "the library's method is forced back": "on other off force on",
    "the library's method is forced back in between": "on other force on",
    "the other was there first": "other on off on",
    "the other restores what was below us": "other on undo on",
}
"""What happens before a call: ours goes on and off, and another method comes and is undone."""


class Others:
    """Another library, which replaces a method, and restores what it found."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name, self.original = kind, name, vars(kind)[name]
        self._replaced: list[Payload] = []

    def other(self) -> None:
        """Replace the method."""
        replaced = vars(self.kind)[self.name]

        async def other_async(*arguments: Payload, **keywords: Payload) -> Payload:
            return await replaced(*arguments, **keywords)

        def other(*arguments: Payload, **keywords: Payload) -> Payload:
            return replaced(*arguments, **keywords)

        self._replaced.append(replaced)
        setattr(self.kind, self.name, other_async if iscoroutinefunction(replaced) else other)

    def undo(self) -> None:
        """Restore what was found."""
        setattr(self.kind, self.name, self._replaced.pop())

    def force(self) -> None:
        """Restore the library's own method."""
        setattr(self.kind, self.name, self.original)


@pytest.fixture
def others(name: str) -> Iterator[Others]:
    """Another library, of which nothing is left after the test."""
    module, kind, method, _ = PATCHED[name]
    others = Others(getattr(import_module(module), kind), method)
    yield others
    uninstrument()
    others.force()


def act(others: Others, order: str) -> None:
    """Do what an order says."""
    steps = {"on": instrument, "off": uninstrument}
    for step in order.split():
        steps.get(step, getattr(others, step, lambda: None))()


@each_library
@pytest.mark.parametrize("order", ORDERS)
def test_a_call_is_on_file_once(tmp_path: Path, name: str, others: Others, order: str) -> None:
    """An instrumented process records each call once, whatever other libraries have done before."""
    act(others, ORDERS[order])
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json"):
        PATCHED[name][3](server.url + PATH)
    run = load(tmp_path / "a.json")

    assert (len(run.llm_interactions), [gap.what for gap in run.gaps]) == (1, [])


@each_library
@pytest.mark.parametrize("order", ORDERS)
def test_nothing_is_on_file_afterwards(tmp_path: Path, name: str, others: Others, order: str) -> None:
    """After `uninstrument()`, no call is recorded, even if our method is below another one."""
    act(others, f"{ORDERS[order]} off")
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json"):
        PATCHED[name][3](server.url + PATH)

    assert load(tmp_path / "a.json").llm_interactions == []


@each_library
def test_without_others_the_method_is_restored(name: str, others: Others) -> None:
    """The class has its own method after any number of `instrument()` and `uninstrument()`."""
    act(others, "on off on on off on off")

    assert vars(others.kind)[others.name] is others.original


CLIENTS = [name for name in LIBRARIES if name in ("urllib3", "requests", "aiohttp")]


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    "order", ["wrap other unwrap wrap", "wrap other unwrap undo wrap", "wrap other wrap undo wrap"]
)
@pytest.mark.parametrize("copies", [True, False])
def test_a_wrapped_client_is_recorded_once(tmp_path: Path, name: str, order: str, *, copies: bool) -> None:
    """A client's own method may be replaced by other code, which may copy the attributes of ours."""
    makers = {"urllib3": "PoolManager", "requests": "Session", "aiohttp": "ClientSession"}

    async def work(url: str, recorder: TrajectoryRecorder) -> None:
        client = getattr(import_module(name), makers[name])()
        [slot] = method_slots(client)
        earlier: list[Payload] = []

        def other() -> None:
            below = getattr(client, slot.method)
            earlier.append(vars(client)[slot.method])

            def own(*arguments: Payload, **keywords: Payload) -> Payload:
                return below(*arguments, **keywords)

            if copies:
                vars(own).update(vars(below))
            vars(client)[slot.method] = own

        def undo() -> None:
            vars(client)[slot.method] = earlier.pop()

        steps = {
            "wrap": lambda: recorder.wrap(client),
            "unwrap": lambda: unwrap(client),
            "other": other,
            "undo": undo,
        }
        for step in order.split():
            steps[step]()
        if name == "aiohttp":
            async with client, client.post(url, data=BODY) as response:
                await response.read()
        else:
            client.request("POST", url, **{"body" if name == "urllib3" else "data": BODY})

    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        asyncio.run(work(server.url + PATH, recorder))

    assert len(load(tmp_path / "a.json").llm_interactions) == 1
