"""Sends requests by the transports inside ours, and knows to which hosts requests are being sent at the moment.

So a connection to such a host is known as one of ours (`unseen_clients.py`). A context variable could not tell this:
event loops look names up in threads that have no context, and connect in tasks of their own.
"""

from __future__ import annotations

import os
from typing import Any

from trace_recorder.dialects.endpoints import canonical_host

hosts_in_use: dict[int, bytes] = {}
"""The hosts, by the ids of the requests. Single operations of a dict need no lock."""


def send(transport: Any, request: Any) -> Any:
    """Send a request by a transport; return when the response has begun."""
    try:
        hosts_in_use[id(request)] = request.url.raw_host
        return transport.handle_request(request)
    finally:
        hosts_in_use.pop(id(request), None)


async def send_async(transport: Any, request: Any) -> Any:
    """Do the same by an async transport."""
    try:
        hosts_in_use[id(request)] = request.url.raw_host
        return await transport.handle_async_request(request)
    finally:
        hosts_in_use.pop(id(request), None)


def is_sending_to(host: str) -> bool:
    """Whether a request to a host is being sent by one of our transports, in whichever thread."""
    hosts = (raw.decode("ascii", "replace") for raw in list(hosts_in_use.values()))
    return canonical_host(host) in map(canonical_host, hosts)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=hosts_in_use.clear)  # the threads that were sending are not in the child
