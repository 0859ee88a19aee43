"""What a service of traces gives: its traces, page by page, and the run of each.

`ListedTrace.version` changes when a trace does, so that what is here already need not be fetched again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Protocol

from trace_recorder.errors import MissingExtraError
from trace_recorder.imports.foreign.run import ForeignRun


@dataclass(frozen=True, slots=True)
class ListedTrace:
    """One trace of a list. A `version` of "" is a trace that goes on, or may."""

    identity: str
    version: str


class TraceService(Protocol):
    """A service. `format` is the name of its exports' format, `address` says where its runs come from."""

    @property
    def format(self) -> str:
        """The name of the format that its traces are read as."""

    @property
    def address(self) -> str:
        """The service and the project."""

    @property
    def settings(self) -> str:
        """The environment variables with the service's key and address."""

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces of the project, page by page. Raises what the service's client raises."""

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch a trace and return its run; None if there is nothing in it. Raises what the service's client raises."""


def client_module(name: str, extra: str) -> ModuleType:
    """Import the package of a service's client. Raises MissingExtraError, with what to install, if it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        message = f"{name} is not installed: pip install 'trace-recorder[{extra}]'"
        raise MissingExtraError(message) from error
