"""Programs that read the address of most providers from a place that the proxy cannot set for one run."""

from __future__ import annotations

from trace_recorder.proxy.programs.launch import Direction, Launch, Program, not_recorded
from trace_recorder.proxy.upstreams import Upstream, upstream_at

_OPENCODE = (
    'only Anthropic with an API key, and a provider with "baseURL": "{env:…}" in its configuration. Each other login '
    "goes to its provider as without the proxy"
)
_PI = 'it reads addresses from "baseUrl" in its models.json alone. Start the proxy with --port, and name it there'
_COPILOT = (
    "with a GitHub login, GitHub names the server for each account. With COPILOT_PROVIDER_BASE_URL, it is recorded"
)
_CLINE = "it reads addresses from its own settings alone. Start the proxy with --port, and name it there"


def _opencode(launch: Launch) -> Direction:
    """Its SDK expects the version in the address, which Anthropic's own SDK adds."""
    anthropic = Upstream("anthropic", "https://api.anthropic.com", {"ANTHROPIC_BASE_URL": "/v1"})
    address = launch.environment.get("ANTHROPIC_BASE_URL")
    upstream = upstream_at(anthropic, address) if address else anthropic
    return Direction(launch.environment, (upstream,), notice=_OPENCODE)


def _copilot(launch: Launch) -> Direction:
    variable = "COPILOT_PROVIDER_BASE_URL"
    address = launch.environment.get(variable)
    if not address:
        return not_recorded(launch, _COPILOT)
    return Direction(launch.environment, (upstream_at(Upstream("copilot", "", {variable: ""}), address),))


PROGRAMS = (
    Program("opencode", frozenset({"opencode", "opencode-ai"}), _opencode),
    Program("pi", frozenset({"pi", "@mariozechner/pi-coding-agent"}), lambda launch: not_recorded(launch, _PI)),
    Program("Copilot CLI", frozenset({"copilot", "@github/copilot"}), _copilot),
    Program("Cline", frozenset({"cline"}), lambda launch: not_recorded(launch, _CLINE)),
)
