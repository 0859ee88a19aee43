"""Decides which requests a server on the loopback interface answers: requests of programs and of the server's own page.

Every web page that is open in a browser can send requests to this machine. So the header `Host` must have the server's
own address, because an attacker can make any other name resolve to this machine (DNS rebinding). A request that a
browser sends for a page must come from the server's own page. Programs send neither `Origin` nor `Sec-Fetch-Site`.
"""

from __future__ import annotations

from collections.abc import Callable

HOST = "127.0.0.1"
LOOPBACK_NAMES = frozenset({HOST, "localhost", "::1"})
"""The names of the loopback interface, which only programs on this machine can reach."""
DEFAULT_PORT = 80
"""The default port of HTTP. Clients leave this port out of the header `Host`."""


def own_hosts(port: int) -> frozenset[str]:
    """Return the values of the header `Host` that are right for a server at `port` of the loopback interface."""
    shown = "" if port == DEFAULT_PORT else f":{port}"
    hosts = set()
    for name in LOOPBACK_NAMES:
        if ":" in name:
            hosts.add(f"[{name}]{shown}")
        else:
            hosts.add(f"{name}{shown}")
    return frozenset(hosts)


def why_refused(port: int, method: str, header: Callable[[str], str | None]) -> str | None:
    """Return why the server at `port` refuses a request, as a sentence. Return None if the server answers the request.

    `header` takes the name of a header in small letters, and returns the header's value. If a user follows a link on
    another site, the server answers.
    """
    if header("host") not in own_hosts(port):
        return "this server answers only at its own address."
    origin, site = header("origin"), header("sec-fetch-site")
    if origin is not None and origin.removeprefix("http://") not in own_hosts(port):
        return "a page of another origin may not ask this server."
    is_visit = method == "GET" and header("sec-fetch-mode") == "navigate"
    if site not in {None, "same-origin", "none"} and not is_visit:
        return "another site may not ask this server."
    return None
