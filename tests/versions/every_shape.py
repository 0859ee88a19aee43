"""All shapes of clients of the installed SDKs, and a call for each shape."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution

import pytest

from tests.provider import Server
from tests.versions import anthropic_shapes, google_shapes, ollama_shapes, openai_shapes
from trace_recorder import LLMInteraction

SHAPES = {
    **{f"openai, {name}": shape for name, shape in openai_shapes.SHAPES.items()},
    **{f"anthropic, {name}": shape for name, shape in anthropic_shapes.SHAPES.items()},
    **{f"google-genai, {name}": shape for name, shape in google_shapes.SHAPES.items()},
    **{f"ollama, {name}": shape for name, shape in ollama_shapes.SHAPES.items()},
}

FIRST = (
    "openai, OpenAI: create",
    "openai, AsyncOpenAI: create",
    "anthropic, Anthropic: create",
    "anthropic, AsyncAnthropic: create",
    "google-genai, Client: generate_content",
    "google-genai, Client, .aio: generate_content",
    "ollama, Client: chat",
    "ollama, AsyncClient: chat",
)
"""For each sync and async client class of an SDK, the name of a shape with a simple call."""


def is_installed(package: str) -> bool:
    """Return whether an SDK is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


INSTALLED = {package: is_installed(package) for package in ("openai", "anthropic", "google-genai", "ollama")}


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with each of these shapes, except shapes of an SDK that is not installed."""
    packages = [(name, name.partition(",")[0]) for name in names]
    marks = {package: pytest.mark.skipif(not there, reason=f"no {package}") for package, there in INSTALLED.items()}
    shapes = [pytest.param(SHAPES[name], id=name, marks=marks[package]) for name, package in packages]
    return pytest.mark.parametrize("shape", shapes)


def said(one: LLMInteraction) -> object:
    """Return the outcome of a recorded call, and its request."""
    return one.api, one.complete, one.error, one.raw_request


def asked(server: Server) -> list[object]:
    """Return the path and the body of every request that a server got, and the header of the user's own transport."""
    return [(path, body, headers.get("x-sent-through")) for path, headers, body in server.requests]
