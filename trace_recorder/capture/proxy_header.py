"""The header by which a program's own recorder tells `trace-recorder proxy` that it records a request itself.

The proxy then forwards the request unrecorded. Only requests to the proxy get the header, and the proxy removes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours

PROXY_VARIABLE = "TRACE_RECORDER_PROXY"
"""The environment variable with the address of `trace-recorder proxy`, for programs that send their calls there."""
TOKEN_VARIABLE = "TRACE_RECORDER_PROXY_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_HEADER = "x-trace-recorder-token"  # noqa: S105 - the name of a header
"""The header in which a client that is not on this machine proves that it may use the proxy."""
RECORDED_HEADER = "x-trace-recorder-run"
"""The header by which a recorded request asks the proxy not to record it again.

Its value is the quoted path of the run's document. The proxy does not forward it.
"""


def _proxy_of(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the host and the port of the proxy that the environment names, or None."""
    try:
        parts = urlsplit(environment.get(PROXY_VARIABLE, ""))
        address = parts.hostname, parts.port
    except ours(ValueError):  # somebody else set the variable
        return None
    host, port = address
    return (host, port) if host and port else None


proxy_address = _proxy_of(os.environ)
"""The host and the port of `trace-recorder proxy`, if it runs this program."""


class OfRun(Protocol):
    """What is recorded in a run, such as an `Exchange`. The run is None if none is open."""

    @property
    def run(self) -> Run | None:
        """The run."""


def headers_for_proxy(recorded: OfRun | None, url: Any) -> dict[str, str]:
    """Return the header that tells the proxy who records a request, if the request goes to the proxy."""
    if proxy_address is None or recorded is None or (url.host, url.port) != proxy_address or recorded.run is None:
        return {}
    return {RECORDED_HEADER: quote(os.fsencode(recorded.run.document))}
