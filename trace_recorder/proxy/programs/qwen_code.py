"""Qwen Code: the address of an OpenAI-compatible server is in a variable, in the settings, or in an option.

The variable wins over the settings, so a proxy that sets it has to forward requests to the address in the settings.
The login with a Qwen account has a server of its own. Qwen ended that login on 15 April 2026.

Source: Qwen Code's page "Settings", and Qwen Code 0.24.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trace_recorder.proxy.programs.gemini_cli import env_files
from trace_recorder.proxy.programs.launch import (
    Direction,
    Launch,
    Program,
    json_object,
    member,
    not_recorded,
    text_members,
    variables_of_file,
)

_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
"""For each kind of login that a proxy can forward: the variable with the address of its server."""


def direct(launch: Launch) -> Direction:
    """Return how Qwen Code is directed to the proxy."""
    settings = _settings(launch)
    stored = {**text_members(settings.get("env")), **variables_of_file(env_files(launch, launch.home(), ".qwen"))}
    variables = {**stored, **launch.environment}
    seen = Launch(launch.arguments, variables, launch.directory)
    login = next(seen.values_of("--auth-type"), None) or member(settings, "security", "auth", "selectedType")
    if any(seen.values_of("--openai-base-url")):
        return not_recorded(launch, "its option --openai-base-url wins. Give the address in OPENAI_BASE_URL")
    if login == "qwen-oauth":
        return not_recorded(launch, "with a Qwen login, its requests go to a server that no variable changes")
    if login == "vertex-ai":
        return not_recorded(launch, "its requests go to Google's Vertex AI")
    variable = _VARIABLES.get(str(login), "OPENAI_BASE_URL")
    model = next(seen.values_of("-m", "--model"), None) or member(settings, "model", "name")
    if _has_own_address(settings, model):
        return not_recorded(launch, f"the address of the model {model} in modelProviders of its settings wins")
    address = member(settings, "security", "auth", "baseUrl")
    if isinstance(address, str) and address and not variables.get(variable):
        variables[variable] = address
    return Direction(variables)


def _settings(launch: Launch) -> dict[str, Any]:
    """Return the members of the settings of the user and of the project. The project's win."""
    merged: dict[str, Any] = {}
    own = Path(launch.environment.get("QWEN_HOME") or launch.home() / ".qwen")
    for folder in (own, launch.directory / ".qwen"):
        merged |= json_object(folder / "settings.json")
    return merged


def _has_own_address(settings: dict[str, Any], model: object) -> bool:
    """Whether the settings name a server for this model."""
    providers = settings.get("modelProviders")
    if not isinstance(providers, dict):
        return False
    entries = (entry for models in providers.values() for entry in models)
    return any(member(entry, "id") == model and member(entry, "baseUrl") for entry in entries)


PROGRAM = Program("Qwen Code", frozenset({"qwen", "@qwen-code/qwen-code"}), direct)
