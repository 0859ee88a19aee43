"""A client that is wrapped twice, wrapped over a recording HTTP client, shared, copied, pickled, closed, or refused."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.provider import plain, serving
from tests.versions import anthropic_shapes, google_shapes, openai_shapes
from tests.versions.every_shape import FIRST, SHAPES, each_of
from tests.versions.shapes import (
    NotInThisVersionError,
    Shape,
    http_clients,
    inside,
    of_the_sdks,
    own_transport,
    speaks,
    taking,
)
from trace_recorder import (
    TrajectoryRecorder,
    UnsupportedClientError,
    async_http_client,
    http_client,
    load,
    unwrap,
    wrap,
)
from trace_recorder.capture.method_slots import uses_aiohttp

pytestmark = of_the_sdks
Payload = Any

each_client = each_of(FIRST)
NOWHERE = "http://127.0.0.1:9"

MADE_OVER: dict[str, Callable[..., Payload]] = {
    "OpenAI": openai_shapes.sync,
    "AsyncOpenAI": openai_shapes.asynchronous,
    "Anthropic": anthropic_shapes.sync,
    "AsyncAnthropic": anthropic_shapes.asynchronous,
}
OF = {"OpenAI": FIRST[0], "AsyncOpenAI": FIRST[1], "Anthropic": FIRST[2], "AsyncAnthropic": FIRST[3]}


def over(name: str, url: str, own: Payload) -> Payload:
    """Return a client of openai or anthropic with an HTTP client. Skip the test if this version does not accept it."""
    make = MADE_OVER[name]
    try:
        return taking(own, lambda: make(url, http_client=own), lambda: make(url))
    except (ImportError, AttributeError, NotInThisVersionError) as missing:
        pytest.skip(f"not in this version: {missing}")


def recorded(recorder: TrajectoryRecorder) -> int:
    """Return how many calls were recorded."""
    return len(load(recorder.trajectory_path).llm_interactions)


@each_client
def test_wrapping_twice_records_once(tmp_path: Path, shape: Shape) -> None:
    """A client that is wrapped twice by its recorder, and then for the context, is recorded once, with one warning."""
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = recorder.wrap(recorder.wrap(shape.client(server.url)))
        with pytest.warns(UserWarning, match="bound to another recorder") as warned:
            wrap(client)
        shape.run(client)

    assert (recorded(recorder), [one.filename for one in warned]) == (1, [__file__])


@pytest.mark.parametrize("name", OF)
def test_each_attempt_of_a_retried_call_is_recorded(tmp_path: Path, name: str) -> None:
    """A call that an SDK retries is one call with two attempts, whether or not the SDK sends their number."""
    shape = SHAPES[OF[name]]
    failed = plain({"error": {"message": "later"}}, 500, **{"retry-after": "0.01", "retry-after-ms": "1"})
    with (
        serving(failed, *shape.call.answers) as server,
        TrajectoryRecorder(directory=tmp_path, strict=True) as recorder,
    ):
        client = recorder.wrap(shape.client(server.url))
        client.max_retries = 1
        shape.run(client)

    attempts = [
        [attempt.error is None for attempt in call.attempts] for call in load(recorder.trajectory_path).llm_interactions
    ]
    assert (attempts, len(server.requests)) == ([[False, True]], 2)


@each_client
def test_a_client_moves_to_a_later_recorder(tmp_path: Path, shape: Shape) -> None:
    """A client of an ended run is recorded by the next recorder that wraps it, and `unwrap` restores its state before
    the first `wrap`.
    """
    with serving(*shape.call.answers) as server:
        client = shape.client(server.url)
        before = inside(client)
        with TrajectoryRecorder(directory=tmp_path, strict=True) as first:
            first.wrap(client)
        with TrajectoryRecorder(directory=tmp_path, strict=True) as second:
            second.wrap(client)
            shape.run(client)

    assert (recorded(first), recorded(second), inside(unwrap(client))) == (0, 1, before)


@each_client
def test_a_shallow_copy_of_a_client_is_recorded(tmp_path: Path, shape: Shape) -> None:
    """`copy.copy` of a wrapped client uses the same HTTP clients, and is recorded once."""
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = recorder.wrap(shape.client(server.url))
        shape.run(copy.copy(client))

    assert recorded(recorder) == 1


def refusal(act: Callable[[Payload], object], client: Payload) -> str:
    """Return the message with which a call of the function fails."""
    with pytest.raises(TypeError) as raised:
        act(client)
    return str(raised.value)


@each_client
def test_pickling_a_client_fails_as_before(tmp_path: Path, shape: Shape) -> None:
    """Pickling a wrapped client fails with the same error as pickling an unwrapped client."""
    client = shape.client(NOWHERE)
    before = refusal(pickle.dumps, client)

    assert refusal(pickle.dumps, wrap(client)) == before


@pytest.mark.parametrize("name", MADE_OVER)
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_client_over_http_client_is_recorded(tmp_path: Path, name: str, library: str) -> None:
    """A client over `http_client()` or `async_http_client()` is recorded once, even if the client itself is wrapped as
    well.
    """
    pytest.importorskip(library)
    shape = SHAPES[OF[name]]
    make = async_http_client if shape.asynchronous else http_client
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        for wrapping in (lambda client: client, recorder.wrap):
            shape.run(wrapping(over(name, server.url, make(library=library))))

    assert recorded(recorder) == 2


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_google_client_over_http_clients_is_recorded(tmp_path: Path, library: str) -> None:
    """A google-genai client with recording HTTP clients is recorded, sync and async."""
    pytest.importorskip(library)
    sync, asynchronous = SHAPES[FIRST[4]], SHAPES[FIRST[5]]
    own = {"httpx_client": http_client(library=library), "httpx_async_client": async_http_client(library=library)}
    with serving(*sync.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        try:
            client = google_shapes.gemini(server.url, **own)
        except (ImportError, ValueError, NotInThisVersionError) as missing:
            pytest.skip(f"not in this version: {missing}")
        client.models.generate_content(**sync.call.arguments)
        asynchronous.run(client)

    assert recorded(recorder) == 2


@pytest.mark.parametrize("name", ["OpenAI", "Anthropic"])
def test_two_clients_with_one_http_client_are_recorded_once(tmp_path: Path, name: str) -> None:
    """If two wrapped clients share an HTTP client, each call is recorded once. One `unwrap` restores both."""
    shape = SHAPES[OF[name]]
    library = import_module(speaks(shape.client(NOWHERE)))
    transport = own_transport(library.__name__, asynchronous=False)
    shared = library.Client(transport=transport)
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        clients = [recorder.wrap(over(name, server.url, shared)) for _ in range(2)]
        for client in clients:
            shape.call.method(client)(**shape.call.arguments)
        unwrap(clients[0])
        shape.run(clients[1])

    assert (recorded(recorder), shared._transport is transport) == (2, True)


@each_client
def test_closing_a_wrapped_client_closes_its_http_client(tmp_path: Path, shape: Shape) -> None:
    """When a wrapped client is closed, its HTTP client is closed, and its transport refuses requests."""
    client = wrap(shape.client(NOWHERE))
    if shape.asynchronous and uses_aiohttp(getattr(client, "_api_client", None)):
        pytest.skip("its async calls go by aiohttp, and not by the HTTP client inside")
    http = next(one for one in http_clients(client) if hasattr(one, "aclose") == shape.asynchronous)
    if shape.asynchronous:
        asyncio.run(http.aclose())
    else:
        http.close()

    assert http.is_closed
    with pytest.raises(Exception, match=r"closed|Connection error"):
        shape.run(client)


@each_client
def test_a_client_of_an_unknown_shape_is_refused_unchanged(shape: Shape) -> None:
    """A client whose transports cannot be found is refused, and stays unchanged."""
    client = shape.client(NOWHERE)
    odd = http_clients(client)[-1]
    mounts = vars(odd).pop("_mounts")
    before = [vars(one).copy() for one in http_clients(client)]
    with pytest.raises(UnsupportedClientError, match=r"keeps its transport where .* Build the client with"):
        wrap(client)

    unwrap(client)
    assert [vars(one) for one in http_clients(client)] == before
    odd._mounts = mounts


def test_a_google_client_that_must_not_use_aiohttp_does_not() -> None:
    """The user's setting that keeps a google-genai client from aiohttp is unchanged during and after wrapping."""
    client = SHAPES[FIRST[4]].client(NOWHERE)

    def told() -> bool:
        return False

    client._api_client._use_aiohttp = told
    while_wrapped = wrap(client)._api_client._use_aiohttp

    assert (while_wrapped, unwrap(client)._api_client._use_aiohttp) == (told, told)
