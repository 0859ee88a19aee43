"""Lets the retries of SDKs wait for nothing while a replay answers them, whichever client makes them.

The SDKs of openai and anthropic compute a pause in one method of a class, which clients and their `with_options()`
copies share; it is replaced there. It is asked each time whether the replay answers the client's HTTP client, so that
other clients of the process wait as ever. google-genai keeps its pauses in each client.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

METHOD = "_calculate_retry_timeout"
MODULES = ("openai._base_client", "anthropic._base_client")


class RetryPauses:
    """Replaces the method in the SDKs that are imported, from `skip` to `restore`.

    `is_answered` tells whether the retries of an HTTP client wait for nothing.
    """

    def __init__(self, is_answered: Callable[[Any], bool]) -> None:
        self._is_answered = is_answered
        self._active = True
        self._patched: dict[type, tuple[Any, Any]] = {}

    def skip(self) -> None:
        """Replace the method of each SDK that is imported and has not been seen yet."""
        for name in MODULES:
            kind = getattr(sys.modules.get(name), "BaseClient", None)
            if kind is not None and kind not in self._patched and METHOD in vars(kind):
                self._patch(kind)

    def restore(self) -> None:
        """Put the original method back. Where another replay has replaced ours, ours stays and does nothing."""
        self._active = False
        for kind, (found, ours) in self._patched.items():
            if vars(kind).get(METHOD) is ours:
                setattr(kind, METHOD, found)

    def _patch(self, kind: type) -> None:
        method = vars(kind)[METHOD]

        @wraps(method)
        def seconds(client: Any, *arguments: Any, **named: Any) -> Any:
            if self._active and self._is_answered(getattr(client, "_client", None)):
                return 0.0
            return method(client, *arguments, **named)

        self._patched[kind] = method, seconds
        setattr(kind, METHOD, seconds)
