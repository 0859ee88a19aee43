"""pi: an extension, which an option names for this run alone, changes the addresses of providers.

No variable has an address. `pi_extension.mjs` reads variables that only the proxy sets, and registers the provider of
each with its address. The provider keeps its models and its keys. The address in `models.json` is the upstream.

Source: pi's pages "Custom providers" and "Models", and pi 0.73 and 1.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.proxy.programs.launch import Direction, Launch, Program, json_object, member
from trace_recorder.proxy.upstreams import Upstream, upstream_at

_EXTENSION = Path(__file__).with_name("pi_extension.mjs")
_BEGINNING = "TRACE_RECORDER_PI_"
_COMMANDS = frozenset({"auth", "config", "install", "list", "mcp", "remove", "uninstall", "update"})
"""Commands of pi that ask no model, and know no option for an extension."""
_ADDRESSES = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta",
    "openrouter": "https://openrouter.ai/api/v1",
}
_IN_PART = (
    "only Anthropic, OpenAI, Google and OpenRouter, and the providers with an address in its models.json. Each other "
    "provider gets its requests as without the proxy"
)


def direct(launch: Launch) -> Direction:
    """Return how pi is directed to the proxy."""
    if launch.arguments and launch.arguments[0] in _COMMANDS:
        return Direction(launch.environment)
    upstreams = tuple(_upstreams(launch))
    return Direction(launch.environment, upstreams, lambda _: ["-e", str(_EXTENSION)], notice=_IN_PART)


def _upstreams(launch: Launch) -> Iterator[Upstream]:
    """Yield an upstream for each provider whose address is known."""
    directory = Path(launch.environment.get("PI_CODING_AGENT_DIR") or launch.home() / ".pi" / "agent")
    addresses = dict(_ADDRESSES)
    for provider, settings in as_dict(json_object(directory / "models.json").get("providers")).items():
        if address := as_text(member(settings, "baseUrl")):
            addresses[provider] = address
    for number, (provider, address) in enumerate(addresses.items()):
        name = provider
        if not re.fullmatch(r"[A-Za-z][\w-]*", provider):
            name = f"provider-{number}"
        yield upstream_at(Upstream(f"pi-{name}", "", {f"{_BEGINNING}{provider}": ""}), address)


PROGRAM = Program(
    "pi",
    frozenset({"pi", "@mariozechner/pi-coding-agent", "@earendil-works/pi-coding-agent"}),
    direct,
)
