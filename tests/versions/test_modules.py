"""The modules `openai` and `ollama`, whose functions call a client of the module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, OLLAMA, Server, plain, serving
from tests.versions.shapes import own_transport
from trace_recorder import TrajectoryRecorder, UnsupportedClientError, load, unwrap, wrap

Payload = Any
ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that answers in both dialects."""
    with serving(plain({**OLLAMA, **CHAT})) as running:
        yield running


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[Payload]:
    """The module as after its import: no client, no HTTP client and no key."""
    module = pytest.importorskip("openai")
    for name in ("_client", "http_client", "api_key", "base_url"):
        monkeypatch.setattr(module, name, None)
    yield module
    if module.http_client is not None:
        module.http_client.close()


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch, server: Server) -> Iterator[Payload]:
    """The module with its client set to the server."""
    module = pytest.importorskip("ollama")
    monkeypatch.setattr(module._client._client, "base_url", server.url)
    yield module
    unwrap(module)
    module._client._client._transport.close()


def ask_openai(module: Payload, server: Server) -> Payload:
    """Use the module as its users do: set the key and the URL, then call a function."""
    module.api_key = "k"
    module.base_url = f"{server.url}/v1/"
    return module.chat.completions.create(**ASK).choices[0].message.content


def recorded(recorder: TrajectoryRecorder) -> list[str | None]:
    """Return the dialect of each recorded call."""
    return [call.api for call in load(recorder.trajectory_path).llm_interactions]


def test_the_module_openai_is_wrapped_before_its_first_call(tmp_path: Path, openai: Payload, server: Server) -> None:
    """`wrap(openai)` needs no key, and records all later calls of the module's functions."""
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        same = wrap(openai)
        answer = ask_openai(openai, server)

    assert (same is openai, answer, recorded(recorder)) == (True, "hi", ["openai-chat"])


def test_the_module_openai_is_wrapped_after_its_first_call(tmp_path: Path, openai: Payload, server: Server) -> None:
    """`wrap(openai)` finds the client that the module has created, and `unwrap` restores it."""
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        ask_openai(openai, server)
        made, transport = openai.http_client, openai.http_client._transport
        recorder.wrap(openai)
        ask_openai(openai, server)
        unwrap(openai)
        ask_openai(openai, server)

    assert (openai.http_client is made, made._transport is transport) == (True, True)
    assert recorded(recorder) == ["openai-chat"]


def test_the_user_s_http_client_of_the_module_openai_is_kept(tmp_path: Path, openai: Payload, server: Server) -> None:
    """The user's `openai.http_client` is wrapped in place, with its transport inside."""
    library = openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
    openai.http_client = own = openai.DefaultHttpxClient(transport=own_transport(library, asynchronous=False))
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        wrap(openai)
        ask_openai(openai, server)

    assert openai.http_client is own
    assert [headers.get("x-sent-through") for _, headers, _ in server.requests] == ["a transport of the user's own"]
    assert recorded(recorder) == ["openai-chat"]


def test_the_module_openai_may_use_azure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, openai: Payload, server: Server
) -> None:
    """A module that is configured for Azure is recorded with Azure as the provider and the deployment as the model."""
    settings = {"api_type": "azure", "api_key": "k", "azure_endpoint": server.url, "api_version": "2024-10-21"}
    for name, value in settings.items():
        monkeypatch.setattr(openai, name, value)
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        wrap(openai).chat.completions.create(**ASK)

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.provider, one.api, one.model) == ("azure", "openai-chat", "m")
    assert server.requests[0][0].startswith("/openai/deployments/m/chat/completions")


def test_unwrap_restores_an_unused_module_openai(openai: Payload) -> None:
    """`unwrap` removes and closes the HTTP client that `wrap` set in an unused module."""
    made = wrap(openai).http_client
    unwrap(openai)

    assert (openai.http_client, made.is_closed) == (None, True)


def test_the_module_openai_works_after_unwrap(tmp_path: Path, openai: Payload, server: Server) -> None:
    """After `unwrap(openai)` the module's functions work unrecorded, also if it was never wrapped."""
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        unwrap(openai)
        untouched = openai.http_client
        unwrap(recorder.wrap(openai))
        answer = ask_openai(openai, server)

    assert (untouched, answer, recorded(recorder)) == (None, "hi", [])


def test_the_module_ollama_is_wrapped(tmp_path: Path, ollama: Payload) -> None:
    """`wrap(ollama)` records the module's functions, even those that were imported by name before."""
    from ollama import chat

    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        wrap(ollama)
        chat(**ASK)
        ollama.chat(**ASK)

    assert recorded(recorder) == ["ollama-chat"] * 2


def test_the_module_ollama_is_restored(tmp_path: Path, ollama: Payload) -> None:
    """`unwrap(ollama)` restores the earlier transport, and the functions are not recorded."""
    before = ollama._client._client._transport
    with TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        unwrap(recorder.wrap(ollama))
        ollama.chat(**ASK)

    assert (ollama._client._client._transport is before, recorded(recorder)) == (True, [])


@pytest.mark.parametrize(("package", "name"), [("anthropic", None), ("google.genai", None), ("openai", "OpenAI")])
def test_an_object_that_is_not_a_client_is_refused_by_name(package: str, name: str | None) -> None:
    """The error names a module without a client of its own, or a class in place of a client."""
    module = pytest.importorskip(package)
    given = getattr(module, name) if name else module
    with pytest.raises(UnsupportedClientError, match=f"(module|class) '{package}.* Give it a client of openai"):
        wrap(given)
