"""Codex: its provider stays the one of its configuration. Only the address of that provider is changed.

Codex stores the name of the provider with each session, and resumes only sessions of the current provider. Therefore
the name must be the same with and without the proxy. Codex 0.115 and later read the address of the provider `openai`
from `openai_base_url`. Earlier versions read it from `OPENAI_BASE_URL`, and ignore the unknown key.

Codex decides which login it uses: `CODEX_API_KEY`, or else the login of `auth.json` or the keyring. The proxy follows
it, because `upstreams.address_of` reads the login of each request.

Source: Codex's pages "Config basics" and "Advanced Configuration", and its crate `model-provider-info`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_recorder.proxy.programs.launch import Direction, Launch, Program, member, not_recorded, toml_table
from trace_recorder.proxy.upstreams import CHATGPT, Upstream, upstream_at
from trace_recorder.signal_handlers import ours

UPSTREAM = Upstream("codex", "https://api.openai.com/v1", {}, logins=CHATGPT)
_OPEN_SOURCE_PORTS = {"ollama": 11434, "ollama-chat": 11434, "lmstudio": 1234}
"""The providers of `--oss`, which run on this machine. Codex does not let a configuration change their address."""
_AZURE = re.compile(
    r"openai\.azure\.|cognitiveservices\.azure\.|aoai\.azure\.|azure-api\.|azurefd\.|windows\.net/openai"
)
"""Addresses by which Codex recognises Azure, and for which it makes other requests."""


def direct(launch: Launch) -> Direction:
    """Return how Codex is directed to the proxy."""
    chosen = dict(_command_line(launch))
    config = _with_layer(_files(launch), _nested(chosen))
    provider = _provider(launch, config)
    if provider in _OPEN_SOURCE_PORTS:
        return Direction(launch.environment, (_open_source(launch, provider),))
    if provider == "amazon-bedrock":
        return not_recorded(launch, "Amazon Bedrock's requests are signed for the address that they are sent to")
    key = "openai_base_url" if provider == "openai" else f"model_providers.{provider}.base_url"
    address = member(config, *key.split("."))
    if any(key == other or key.startswith(f"{other}.") for other in chosen):
        return not_recorded(launch, f"the option -c {key}=… of the command decides where its requests go")
    if not re.fullmatch(r"[\w-]+", provider):
        return not_recorded(launch, f"no option can change the address of a provider with the name {provider!r}")
    if isinstance(address, str) and _AZURE.search(address):
        return not_recorded(launch, "it makes requests for Azure only if they go to an address of Azure")
    return _to_proxy(launch, key, address)


def _to_proxy(launch: Launch, key: str, address: Any) -> Direction:
    upstream = UPSTREAM
    if isinstance(address, str) and address:
        upstream = upstream_at(Upstream(UPSTREAM.name, "", {}), address)
    return Direction(
        launch.environment, (upstream,), options=lambda url: ["-c", f"{key}={json.dumps(f'{url}/{UPSTREAM.name}')}"]
    )


def _provider(launch: Launch, config: dict[str, Any]) -> str:
    if "--oss" in launch.arguments:
        return str(next(launch.values_of("--local-provider"), None) or config.get("oss_provider") or "ollama")
    return str(config.get("model_provider") or "openai")


def _open_source(launch: Launch, provider: str) -> Upstream:
    port = launch.environment.get("CODEX_OSS_PORT") or _OPEN_SOURCE_PORTS[provider]
    address = launch.environment.get("CODEX_OSS_BASE_URL") or f"http://localhost:{port}/v1"
    return upstream_at(Upstream(UPSTREAM.name, "", {"CODEX_OSS_BASE_URL": "/v1"}), address)


def _files(launch: Launch) -> dict[str, Any]:
    """Return the configuration in Codex's files. A project's file may not name a provider, so it is not read."""
    home = Path(launch.environment.get("CODEX_HOME") or launch.home() / ".codex")
    config = _with_layer(toml_table(Path("/etc/codex/config.toml")), toml_table(home / "config.toml"))
    profile = next(launch.values_of("-p", "--profile"), None) or config.get("profile")
    if not isinstance(profile, str):
        return config
    config = _with_layer(config, member(config, "profiles", profile))
    return _with_layer(config, toml_table(home / f"{profile}.config.toml"))


def _command_line(launch: Launch) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of the options `-c`."""
    for option in launch.values_of("-c", "--config"):
        key, _, value = option.partition("=")
        try:
            yield key.strip(), tomllib.loads(f"value = {value}")["value"]
        except ours(ValueError):  # Codex takes such a value as a text
            yield key.strip(), value.strip()


def _nested(options: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for key, value in options.items():
        for name in reversed(key.split(".")):
            value = {name: value}  # noqa: PLW2901 - the value in one more table
        config = _with_layer(config, value)
    return config


def _with_layer(below: dict[str, Any], above: Any) -> dict[str, Any]:
    """Return a configuration with the values of the layer above it. Tables are merged."""
    merged = dict(below)
    if not isinstance(above, dict):
        return merged
    for key, value in above.items():
        lower = merged.get(key)
        if isinstance(lower, dict) and isinstance(value, dict):
            merged[key] = _with_layer(lower, value)
        else:
            merged[key] = value
    return merged


PROGRAM = Program("Codex", frozenset({"codex", "@openai/codex"}), direct)
