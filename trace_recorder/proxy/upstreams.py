"""The upstreams of the proxy. The first part of a request's path names an upstream: `/openai/v1/chat/completions`.

An upstream is a provider's address. Programs read this address from environment variables, which `Upstream` lists. For
the program that it starts, the proxy sets these variables to its own address. If such a variable is set already, the
proxy forwards requests to the address in the variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from trace_recorder.dialects.endpoints import BASE_URL_VARIABLES
from trace_recorder.dialects.token_servers import TOKEN_SERVERS
from trace_recorder.signal_handlers import ours


class UpstreamError(ValueError):
    """The address of an upstream cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A provider. The proxy appends the rest of a request's path, after the name of the upstream, to `url`."""

    name: str
    url: str
    variables: Mapping[str, str]
    """The environment variables from which programs read the address, each with the path at the end of the address."""
    logins: str | None = None
    """The name of the upstream for requests with the token of a ChatGPT login. If None, they go where all others go."""
    tokens: str | None = None
    """The kind of the server if it is asked for the tokens of calls: a name of `TOKEN_SERVERS`."""

    def environment(self, proxy_url: str) -> dict[str, str]:
        """Return the variables that make programs send their requests to the proxy at `proxy_url`."""
        return {variable: f"{proxy_url}/{self.name}{path}" for variable, path in self.variables.items()}


def _of_dialect(family: str) -> dict[str, str]:
    variable, path = BASE_URL_VARIABLES[family]
    return {variable: path}


CHATGPT = "chatgpt"
_KNOWN = (
    Upstream("openai", "https://api.openai.com", _of_dialect("openai") | {"OPENAI_API_BASE": "/v1"}, logins=CHATGPT),
    Upstream(CHATGPT, "https://chatgpt.com/backend-api/codex", {}),
    Upstream("anthropic", "https://api.anthropic.com", _of_dialect("anthropic")),
    Upstream("google", "https://generativelanguage.googleapis.com", _of_dialect("google")),
    Upstream("code-assist", "https://cloudcode-pa.googleapis.com", {"CODE_ASSIST_ENDPOINT": ""}),
    Upstream("ollama", "http://127.0.0.1:11434", _of_dialect("ollama")),
    Upstream("openrouter", "https://openrouter.ai", {"OPENROUTER_BASE_URL": "/api/v1"}),
    Upstream("azure", "", {"AZURE_OPENAI_ENDPOINT": ""}),
)
"""An upstream with an empty address is offered only if its variable is set, or if an option names it."""


def upstreams(
    environment: Mapping[str, str],
    options: Iterable[str] = (),
    of_program: Iterable[Upstream] = (),
    tokens: Iterable[str] = (),
) -> dict[str, Upstream]:
    """Return the upstreams by name. An option `NAME=URL` adds or replaces an upstream. Raises UpstreamError.

    `of_program` has the upstreams of the program that the proxy starts, which replace the known ones. An option
    `NAME=SERVER` in `tokens` states that an upstream is asked for the tokens of calls, and which kind of server it is.
    """
    by_name = {known.name: _in_environment(known, environment) for known in _KNOWN}
    by_name |= {upstream.name: upstream for upstream in of_program}
    addresses: dict[str, str] = {}
    for name, url in map(named_address, options):
        if name in addresses:
            raise UpstreamError(f"{name} has two addresses; give it one")
        addresses[name] = url
    for name, url in addresses.items():
        known = by_name.get(name, Upstream(name, "", {}))
        # A server that the user names gets the tokens of logins too, unless the user names a server for them.
        logins = known.logins if CHATGPT in addresses else None
        by_name[name] = replace(upstream_at(known, url), logins=logins)
    by_name = {name: upstream for name, upstream in by_name.items() if upstream.url}
    for name, server in map(_token_server, tokens):
        if name not in by_name:
            raise UpstreamError(f"{name} is no upstream; add --upstream {name}=URL")
        by_name[name] = replace(by_name[name], tokens=server)
    return by_name


def _token_server(option: str) -> tuple[str, str]:
    """Return the name of an upstream and the kind of its server in an option `NAME=SERVER`, or `SERVER` for both."""
    name, _, server = option.partition("=")
    server = server or name
    if server not in TOKEN_SERVERS:
        raise UpstreamError(f"{option!r} does not name a server that states tokens: {', '.join(TOKEN_SERVERS)}")
    return name, server


def named_address(option: str) -> tuple[str, str]:
    """Return the name and the address in an option `NAME=URL`. Raises UpstreamError."""
    name, equals, url = option.partition("=")
    if not equals or not name.replace("-", "_").isidentifier() or name in {"run", "mcp"}:
        raise UpstreamError(f"{option!r} is not NAME=URL, such as vllm=http://localhost:8000")
    return name, url


def _in_environment(known: Upstream, environment: Mapping[str, str]) -> Upstream:
    """Return an upstream with the address in its environment variable, if the variable is set.

    If the address is invalid, `url` of the result is empty.
    """
    url = next(filter(None, (environment.get(variable) for variable in known.variables)), None)
    if url is None:
        return known
    try:
        return upstream_at(known, url)
    except UpstreamError:  # perhaps the program does not use this upstream: it gets the variable unchanged
        return replace(known, url="")


def address_of(upstream: Upstream, name: str, path: str) -> str:
    """Return where to send a request to an upstream.

    `name` is the name of an upstream in the request's path, and `path` is the path after it, without its first slash.
    """
    if upstream.name != name:
        path = path.removeprefix("v1/")
    return f"{upstream.url}/{path}"


def upstream_for(by_name: Mapping[str, Upstream], name: str, header: Callable[[str], str | None]) -> Upstream | None:
    """Return the upstream of a request whose path names `name`, or None for an unknown upstream.

    `header` returns the value of a header.
    """
    upstream = by_name.get(name)
    if upstream is not None and upstream.logins is not None and _has_chatgpt_login(header):
        return by_name[upstream.logins]
    return upstream


def _has_chatgpt_login(header: Callable[[str], str | None]) -> bool:
    """Whether a request has the token of a ChatGPT login.

    Codex states the account of a login in a header. The token of a login without an account is a JSON Web Token. No API
    key of OpenAI is one.
    """
    return header("chatgpt-account-id") is not None or (header("authorization") or "").startswith("Bearer eyJ")


def upstream_at(known: Upstream, url: str) -> Upstream:
    """Return the upstream with `url` as its address. Raises UpstreamError.

    If `url` ends with the path of a variable, such as `/v1`, the path is removed from `url`, and becomes the path of
    all variables.
    """
    if "://" not in url:
        url = f"http://{url}"
    url = url.rstrip("/")
    if not _is_address(url):
        raise UpstreamError(f"{url!r} is not the address of a server, such as https://gateway.example/v1")
    path = max(filter(url.endswith, known.variables.values()), key=len, default="")
    return Upstream(known.name, url.removesuffix(path), dict.fromkeys(known.variables, path))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ours(ValueError):  # the port is not a number, or a bracket is not closed
        return False
    return is_server and not parts.query and not parts.fragment
