"""Requests to models that pass a seam at an address which no reader knows: each host is a gap of the run, once.

Such as images, speech, or a provider's endpoint that is new. Only the host is on file: an address may hold more than a
user wants to show. Uploads, counts of tokens and other work around calls is no gap (`dialects/endpoints.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from trace_recorder.dialects.endpoints import may_be_call
from trace_recorder.recording.run import Run

_MAX_HOSTS = 10
_noted: WeakKeyDictionary[Run, set[str]] = WeakKeyDictionary()


def note(run_in_progress: Callable[[], Run | None], request: Any) -> None:
    """Note a request that is no known call, in the run that is open. No run is begun for it."""
    url = request.url
    if request.method != "POST" or not may_be_call(url.host, url.port, url.path, os.environ):
        return
    run = run_in_progress()
    hosts = set() if run is None else _noted.setdefault(run, set())
    if run is not None and url.host not in hosts and len(hosts) < _MAX_HOSTS:
        hosts.add(url.host)
        run.guard.queue_failure(f"record a request to {url.host}", "its address is not that of a call that can be read")
