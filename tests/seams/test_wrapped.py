"""Clients of every HTTP library other than httpx, while they are wrapped and afterwards."""

from __future__ import annotations

from inspect import iscoroutinefunction, isroutine, signature
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, plain, serving
from tests.seams.callers import LIBRARIES, Library
from trace_recorder import TrajectoryRecorder, load, unwrap
from trace_recorder.capture.method_slots import method_slots

Payload = Any
PATH = "/v1/chat/completions"
each_library = pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # aiohttp warns of a response that its caller drops
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@each_library
def test_a_wrapped_client_keeps_its_type_and_its_methods(tmp_path: Path, kind: type[Library]) -> None:
    """`wrap` returns the same object, with the same type and the same names and signatures of methods."""
    library = kind()
    client = library.client()
    before = (type(client), methods_of(client))
    with TrajectoryRecorder(tmp_path / "a.json") as recorder:
        wrapped = recorder.wrap(client)
        after = (type(wrapped), methods_of(wrapped))
    library.close(client)

    assert (wrapped is client, after) == (True, before)


def methods_of(client: Payload) -> dict[str, tuple[str, str, bool]]:
    """Return the name, the signature and the kind of each method of a client."""
    names = [name for name in dir(type(client)) if not name.startswith("__") and isroutine(getattr(type(client), name))]
    methods = {name: getattr(client, name) for name in names}
    return {name: (one.__name__, str(signature(one)), iscoroutinefunction(one)) for name, one in methods.items()}


@each_library
def test_the_user_s_own_method_is_called_and_restored(tmp_path: Path, kind: type[Library]) -> None:
    """A method that a program assigned to a client is called while the client is wrapped, and restored by `unwrap`."""
    called: list[str] = []

    def bind(client: Payload) -> None:
        [slot] = method_slots(client)
        original = getattr(client, slot.method)

        def own(*arguments: Payload, **named: Payload) -> Payload:
            called.append(slot.method)
            return original(*arguments, **named)

        vars(client)[slot.method] = own
        recorder.wrap(recorder.wrap(client))
        calls.append((client, slot.method, own))

    calls: list[Payload] = []
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        kind().outcome(server.url + PATH, "whole", bind)
    [(client, method, own)] = calls

    assert (len(called), len(load(tmp_path / "a.json").llm_interactions)) == (1, 1)
    assert vars(unwrap(client))[method] is own


@each_library
def test_unwrap_restores_a_client(tmp_path: Path, kind: type[Library]) -> None:
    """An unwrapped client is not recorded, and has its earlier state."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:

        def bind(client: Payload) -> None:
            before = dict(vars(client))
            unwrap(recorder.wrap(client))
            assert vars(client) == before

        kind().outcome(server.url + PATH, "whole", bind)

    assert load(tmp_path / "a.json").llm_interactions == []
