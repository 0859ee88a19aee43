"""Gemini CLI: each kind of login has a server and a variable of its own.

An API key goes to `GOOGLE_GEMINI_BASE_URL`, and Vertex AI's requests go to `GOOGLE_VERTEX_BASE_URL`. If the settings
choose no login, Gemini CLI takes a set `GOOGLE_GEMINI_BASE_URL` for the choice of a gateway, and refuses to start.
Therefore the variable is set only if the settings choose an API key.

The token of a Google login goes to Code Assist, at the address in `CODE_ASSIST_ENDPOINT`.

Source: `contentGenerator.ts`, `server.ts` and `settings.ts` in the repository google-gemini/gemini-cli.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trace_recorder.proxy.programs.launch import (
    Direction,
    Launch,
    Program,
    json_object,
    member,
    not_recorded,
    variables_of_file,
)
from trace_recorder.proxy.upstreams import Upstream

_GOOGLE_LOGINS = {"oauth-personal", "cloud-shell", "compute-default-credentials"}
_NOT_CHOSEN = (
    'its settings choose no login. Write {"security": {"auth": {"selectedType": "gemini-api-key"}}} to '
    "~/.gemini/settings.json"
)
_SYSTEM_SETTINGS = "/etc/gemini-cli/settings.json"


def direct(launch: Launch) -> Direction:
    """Return how Gemini CLI is directed to the proxy."""
    variables = {
        **variables_of_file(env_files(launch, launch.home("GEMINI_CLI_HOME"), ".gemini")),
        **launch.environment,
    }
    seen = Launch(launch.arguments, variables, launch.directory)
    login = _login(seen)
    google = Upstream("google", "", {})  # without its variable, which would be taken for a choice
    if login in _GOOGLE_LOGINS:
        return Direction(variables, (google,))
    if login == "vertex-ai":
        return Direction(variables, (google, Upstream("vertex", _vertex(seen), {"GOOGLE_VERTEX_BASE_URL": ""})))
    if login not in {"gemini-api-key", "gateway"}:
        return not_recorded(launch, _NOT_CHOSEN)
    return Direction(variables)


def _login(seen: Launch) -> str | None:
    """Return the login that the settings choose, or else the variables. Return None if only an API key is set."""
    user = json_object(seen.home("GEMINI_CLI_HOME") / ".gemini" / "settings.json")
    project = json_object(seen.directory / ".gemini" / "settings.json")
    system = json_object(Path(seen.environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or _SYSTEM_SETTINGS))
    for settings in (system, project, user):
        chosen = member(settings, "security", "auth", "selectedType") or settings.get("selectedAuthType")
        if isinstance(chosen, str):
            return chosen
    return _login_of_variables(seen)


def _login_of_variables(seen: Launch) -> str | None:
    if seen.environment.get("GOOGLE_GENAI_USE_GCA") == "true":
        return "oauth-personal"
    if seen.environment.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    if seen.environment.get("GOOGLE_GEMINI_BASE_URL"):
        return "gateway"
    if seen.environment.get("GEMINI_API_KEY"):
        return None
    if "true" in {seen.environment.get("CLOUD_SHELL"), seen.environment.get("GEMINI_CLI_USE_COMPUTE_ADC")}:
        return "compute-default-credentials"
    return None


def _vertex(seen: Launch) -> str:
    """Return the address of Vertex AI, which depends on the location. An API key has no location."""
    address = seen.environment.get("GOOGLE_VERTEX_BASE_URL")
    if address:
        return address.rstrip("/")
    location = seen.environment.get("GOOGLE_CLOUD_LOCATION")
    if location in {"us", "eu"}:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    if location in {None, "", "global"} or seen.environment.get("GOOGLE_API_KEY"):
        return "https://aiplatform.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def env_files(launch: Launch, home: Path, folder: str) -> Iterator[Path]:
    """Yield the `.env` files that Gemini CLI and its descendants look for. The program reads the first that exists.

    `folder` is the name of the program's own folder.
    """
    for directory in (*launch.parents(), home):
        yield directory / folder / ".env"
        yield directory / ".env"


PROGRAM = Program("Gemini CLI", frozenset({"gemini", "@google/gemini-cli"}), direct)
