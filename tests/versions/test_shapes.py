"""Each shape of client, of whichever versions are installed: recorded once, unchanged for its user, and restored."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.capture.server import Server, serving
from tests.versions import anthropic_shapes, google_shapes, ollama_shapes, openai_shapes
from tests.versions.shapes import Shape, inside, of_the_sdks
from trace_recorder import LLMInteraction, TrajectoryRecorder, load, unwrap

pytestmark = of_the_sdks
SHAPES = {
    **{f"openai, {name}": shape for name, shape in openai_shapes.SHAPES.items()},
    **{f"anthropic, {name}": shape for name, shape in anthropic_shapes.SHAPES.items()},
    **{f"google-genai, {name}": shape for name, shape in google_shapes.SHAPES.items()},
    **{f"ollama, {name}": shape for name, shape in ollama_shapes.SHAPES.items()},
}
OF_EACH_CLIENT = {(shape.make, shape.asynchronous): name for name, shape in reversed(SHAPES.items())}


def is_installed(package: str) -> bool:
    """Whether an SDK is there."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


INSTALLED = {package: is_installed(package) for package in ("openai", "anthropic", "google-genai", "ollama")}


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with each of these shapes, but for those of an SDK that is not installed."""
    packages = [(name, name.partition(",")[0]) for name in names]
    marks = {package: pytest.mark.skipif(not there, reason=f"no {package}") for package, there in INSTALLED.items()}
    shapes = [pytest.param(SHAPES[name], id=name, marks=marks[package]) for name, package in packages]
    return pytest.mark.parametrize("shape", shapes)


def said(one: LLMInteraction) -> object:
    """What the record of a call says of how it went, and the request that it holds."""
    return one.api, one.complete, one.error, one.raw_request


def asked(server: Server) -> list[object]:
    """The path and the body of every request that a server had, and the header of the user's own transport."""
    return [(path, body, headers.get("x-sent-through")) for path, headers, body in server.requests]


@each_of(SHAPES)
def test_a_call_is_recorded_once(tmp_path: Path, shape: Shape) -> None:
    """Each LLM call is on file once, whole, with the request that the server had; other calls are not."""
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        shape.run(recorder.wrap(shape.client(server.url)))

    recorded = [said(one) for one in load(recorder.trajectory_path).llm_interactions]
    expected = [(api, True, None, body) for api, body in zip(shape.call.apis, server.bodies(), strict=False)]
    assert (len(recorded), recorded) == (len(shape.call.apis), expected)


@each_of(SHAPES)
def test_a_call_is_as_it_would_be_unwrapped(tmp_path: Path, shape: Shape) -> None:
    """A wrapped client sends the same requests, and gives its caller the same."""
    with serving(*shape.call.answers) as server:
        plainly = shape.run(shape.client(server.url)), asked(server)
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        recorded = shape.run(recorder.wrap(shape.client(server.url))), asked(server)

    assert recorded == plainly


@each_of(OF_EACH_CLIENT.values())
def test_unwrap_restores_a_client(tmp_path: Path, shape: Shape) -> None:
    """unwrap leaves the very transports that were there, nothing else, and a client whose calls go unrecorded."""
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = shape.client(server.url)
        before = inside(client)
        restored = inside(unwrap(recorder.wrap(client)))
        shape.run(client)

    assert (restored, load(recorder.trajectory_path).llm_interactions) == (before, [])
