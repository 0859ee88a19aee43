"""Programs that read the address of most providers from a place that the proxy cannot set for one run."""

from __future__ import annotations

from pathlib import Path

from trace_recorder.dialects.json_access import as_list, as_text
from trace_recorder.proxy.programs.launch import Direction, Launch, Program, by_hand, json_object, member, not_recorded
from trace_recorder.proxy.upstreams import Upstream, upstream_at

_OPENCODE = (
    'only Anthropic with an API key, and a provider with "baseURL": "{env:…}" in its configuration. Each other login '
    "goes to its provider as without the proxy"
)
_COPILOT = (
    "with a GitHub login, GitHub names the server for each account. With COPILOT_PROVIDER_BASE_URL, it is recorded"
)
_CLINE = "it reads addresses from its own settings alone"
_CLINE_PATHS = {
    "anthropic": "anthropic",
    "gemini": "google",
    "openai-native": "openai/v1",
    "openrouter": "openrouter/api/v1",
}
"""For each provider of Cline whose address is known: the path of its upstream."""
_DROID = "it reads addresses from its own settings alone. Factory's own models have a server of Factory"


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


def _cline(launch: Launch) -> Direction:
    """The address of a provider is in `providers.json`, which `cline auth --baseurl` writes."""
    directory = Path(next(launch.values_of("--data-dir"), None) or launch.home() / ".cline" / "data")
    path = directory / "settings" / "providers.json"
    stored = json_object(path)
    provider = next(launch.values_of("-P", "--provider"), None) or stored.get("lastUsedProvider")
    address = as_text(member(stored, "providers", str(provider), "settings", "baseUrl")) or None
    if address is None and provider not in _CLINE_PATHS:
        return not_recorded(launch, f"{_CLINE}, and the address of the provider {provider} is not known")
    return by_hand(launch, _CLINE, f'"baseUrl" in {path}', address, _CLINE_PATHS.get(str(provider), ""))


def _droid(launch: Launch) -> Direction:
    """The address of a model of one's own is in `customModels` of its settings."""
    path = launch.home("FACTORY_HOME_OVERRIDE") / ".factory" / "settings.json"
    models = as_list(json_object(path).get("customModels"))
    address = next(filter(None, (as_text(member(model, "baseUrl")) for model in models)), None)
    return by_hand(launch, _DROID, f'"baseUrl" of customModels in {path}', address, "anthropic")


PROGRAMS = (
    Program("opencode", frozenset({"opencode", "opencode-ai"}), _opencode),
    Program("Copilot CLI", frozenset({"copilot", "@github/copilot"}), _copilot),
    Program("Cline", frozenset({"cline"}), _cline),
    Program("Droid", frozenset({"droid", "@factory/cli"}), _droid),
)
