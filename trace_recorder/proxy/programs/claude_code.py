"""Claude Code: an API key, a token and the login of a subscription all go to `ANTHROPIC_BASE_URL`.

The variables in its settings win over the environment. Therefore the settings decide which address is the upstream, and
the option `--settings` changes the address if settings name one. A second option `--settings` would replace the first.

Amazon Bedrock signs requests for the address to which they are sent, so a proxy cannot forward them. A server that the
user names for Claude Code, such as a company's gateway, needs no signature.

Source: Claude Code's pages "Settings", "LLM gateways" and "Claude Code on Amazon Bedrock, Google Vertex AI, Microsoft
Foundry".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from trace_recorder.proxy.programs.launch import (
    Direction,
    Launch,
    Program,
    json_object,
    member,
    not_recorded,
    text_members,
)
from trace_recorder.proxy.upstreams import Upstream, upstream_at

_MANAGED = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
_ADDRESSES = {"anthropic": "https://api.anthropic.com"}


class _Cloud(NamedTuple):
    """A server of Claude's models: the upstream, the name for people, and the variable with the server's address."""

    upstream: str
    name: str
    variable: str


_ANTHROPIC = _Cloud("anthropic", "Anthropic", "ANTHROPIC_BASE_URL")
_CLOUDS = {
    "CLAUDE_CODE_USE_VERTEX": _Cloud("vertex", "Google's Vertex AI", "ANTHROPIC_VERTEX_BASE_URL"),
    "CLAUDE_CODE_USE_FOUNDRY": _Cloud("foundry", "Microsoft Foundry", "ANTHROPIC_FOUNDRY_BASE_URL"),
    "CLAUDE_CODE_USE_MANTLE": _Cloud("bedrock", "Amazon Bedrock", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL"),
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": _Cloud("aws", "Anthropic on AWS", "ANTHROPIC_AWS_BASE_URL"),
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": _Cloud("cloud", "Google Cloud", "ANTHROPIC_GOOGLE_CLOUD_BASE_URL"),
    "CLAUDE_CODE_USE_BEDROCK": _Cloud("bedrock", "Amazon Bedrock", "ANTHROPIC_BEDROCK_BASE_URL"),
}
"""The cloud that each variable selects."""
_WITHOUT_SIGNATURE = (
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_MANTLE_AUTH",
    "CLAUDE_CODE_SKIP_ANTHROPIC_AWS_AUTH",
)


def direct(launch: Launch) -> Direction:
    """Return how Claude Code is directed to the proxy."""
    stored, above = _stored(launch), {**_of_option(launch), **_managed()}
    seen = Launch(launch.arguments, {**launch.environment, **stored, **above}, launch.directory)
    name, provider, variable = next((cloud for switch, cloud in _CLOUDS.items() if seen.is_set(switch)), _ANTHROPIC)
    if variable in above:
        return not_recorded(launch, f"{variable} in the settings of --settings, or in managed settings, wins")
    if variable in stored and any(seen.values_of("--settings")):
        return not_recorded(
            launch, f"{variable} in its settings wins, and the command has an option --settings already"
        )
    if name in {"bedrock", "aws"} and not any(map(seen.is_set, _WITHOUT_SIGNATURE)):
        return not_recorded(launch, f"the requests for {provider} are signed for the address that they are sent to")
    address = seen.environment.get(variable) or _ADDRESSES.get(name)
    if address is None:
        return not_recorded(launch, f"{variable} has to be set to the address of {provider}")
    upstream = upstream_at(Upstream(name, "", {variable: ""}), address)
    if variable in stored:
        return Direction(seen.environment, (upstream,), lambda url: _settings(upstream.environment(url)))
    return Direction(seen.environment, (upstream,))


def _settings(variables: Mapping[str, str]) -> list[str]:
    return ["--settings", json.dumps({"env": variables})]


def _stored(launch: Launch) -> dict[str, str]:
    """Return the variables in the settings of the user and of the project. The later file wins."""
    user = Path(launch.environment.get("CLAUDE_CONFIG_DIR") or launch.home() / ".claude")
    project = launch.directory / ".claude"
    variables: dict[str, str] = {}
    for path in (user / "settings.json", project / "settings.json", project / "settings.local.json"):
        variables |= text_members(json_object(path).get("env"))
    return variables


def _of_option(launch: Launch) -> Mapping[str, str]:
    """Return the variables of the option `--settings`, which names a file or is JSON itself."""
    value = next(launch.values_of("--settings"), None)
    if value is None:
        return {}
    try:
        return text_members(member(json.loads(value), "env"))
    except ValueError:
        return text_members(json_object(launch.directory / value).get("env"))


def _managed() -> dict[str, str]:
    return {name: text for path in _MANAGED for name, text in text_members(json_object(path).get("env")).items()}


PROGRAM = Program("Claude Code", frozenset({"claude", "@anthropic-ai/claude-code"}), direct)
