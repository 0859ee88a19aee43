"""Programs that read the addresses of their providers from variables, each with variables of its own.

aider, mini-swe-agent and OpenHands call models with LiteLLM, which has variables for each provider. A file may name an
address too. If that address wins over the variables, the program is not directed to the proxy.

Sources: the pages on environment variables of LiteLLM, aider, mini-swe-agent, OpenHands and goose; `load.go` in the
repository charmbracelet/crush and the providers in charmbracelet/catwalk; goose 1.52; Kimi Code 2.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from trace_recorder.proxy.programs.launch import (
    Direction,
    Launch,
    Program,
    by_hand,
    json_object,
    member,
    not_recorded,
    toml_table,
    variables_of_file,
)
from trace_recorder.proxy.upstreams import Upstream, upstream_at
from trace_recorder.signal_handlers import ours

_OPENAI, _ANTHROPIC = "https://api.openai.com", "https://api.anthropic.com"
_GOOGLE, _OPENROUTER = "https://generativelanguage.googleapis.com", "https://openrouter.ai"

LITELLM = (
    Upstream("openai", _OPENAI, {"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"}),
    Upstream("anthropic", _ANTHROPIC, {"ANTHROPIC_API_BASE": "", "ANTHROPIC_BASE_URL": ""}),
    Upstream("google", _GOOGLE, {"GEMINI_API_BASE": "/v1beta"}),
    Upstream("openrouter", _OPENROUTER, {"OPENROUTER_API_BASE": "/api/v1"}),
    Upstream("ollama", "http://localhost:11434", {"OLLAMA_API_BASE": ""}),
)
"""The addresses of LiteLLM. Of two variables, LiteLLM reads the first one that is set."""
_CRUSH = (
    Upstream("openai", _OPENAI, {"OPENAI_API_ENDPOINT": "/v1"}),
    Upstream("anthropic", _ANTHROPIC, {"ANTHROPIC_API_ENDPOINT": ""}),
    Upstream("google", _GOOGLE, {"GEMINI_API_ENDPOINT": ""}),
)
_GOOSE = (
    Upstream("openai", _OPENAI, {"OPENAI_HOST": "/"}),
    Upstream("anthropic", _ANTHROPIC, {"ANTHROPIC_HOST": "/"}),
    Upstream("google", _GOOGLE, {"GOOGLE_HOST": "/"}),
    Upstream("openrouter", _OPENROUTER, {"OPENROUTER_HOST": "/"}),
    Upstream("ollama", "http://localhost:11434", {"OLLAMA_HOST": "/"}),
)
"""goose joins a path to its hosts. Without a slash at its end, an address would lose its last part."""
_GOOSE_BASE_URL = Upstream("openai", _OPENAI, {"OPENAI_BASE_URL": "/v1"})
"""goose 1.52 reads this variable if OPENAI_HOST is not set."""
_KIMI = {
    "openai": ("OPENAI_BASE_URL", "/v1", _OPENAI),
    "openai_responses": ("OPENAI_BASE_URL", "/v1", _OPENAI),
    "anthropic": ("ANTHROPIC_BASE_URL", "", _ANTHROPIC),
    "google-genai": ("GOOGLE_GEMINI_BASE_URL", "", _GOOGLE),
}
"""For each type of provider in Kimi Code's configuration: its variable, the path at the end, and its address."""
_MOONSHOT = "https://api.moonshot.ai/v1"
_GOOSE_LINE = re.compile(r"""^([A-Z_]+):[ \t]*["']?([^"'\s#]+)""", re.MULTILINE)
_FILE_WINS = "the address in {} wins over the environment"


def direction_at(launch: Launch, variables: Mapping[str, str], known: tuple[Upstream, ...], notice: str) -> Direction:
    """Return a direction to upstreams whose variables the program reads. `variables` are as the program sees them.

    Raises UpstreamError.
    """
    upstreams = []
    for upstream in known:
        address = next(filter(None, map(variables.get, upstream.variables)), None)
        if address is None:
            upstreams.append(upstream)
        else:
            upstream_there = upstream_at(upstream, address)
            if "/" in upstream.variables.values():  # the slash is not a part of the address
                upstream_there = replace(upstream_there, variables=upstream.variables)
            upstreams.append(upstream_there)
    return Direction({**launch.environment, **variables}, tuple(upstreams), notice=notice or None)


def _aider(launch: Launch) -> Direction:
    """Aider's own files win over the environment: `.env`, and `.aider.conf.yml` for OpenAI's address."""
    root = next((parent for parent in launch.parents() if (parent / ".git").exists()), launch.directory)
    places = dict.fromkeys((launch.home(), root, launch.directory))
    names = {name for upstream in LITELLM for name in upstream.variables} | {"AIDER_OPENAI_API_BASE"}
    for place in places:
        if names & variables_of_file([place / ".env"]).keys():
            return not_recorded(launch, _FILE_WINS.format(place / ".env"))
        if "openai-api-base" in _text(place / ".aider.conf.yml"):
            return not_recorded(launch, _FILE_WINS.format(place / ".aider.conf.yml"))
    if any(launch.values_of("--openai-api-base")) or launch.environment.get("AIDER_OPENAI_API_BASE"):
        return not_recorded(launch, "its option --openai-api-base wins. Give the address in OPENAI_API_BASE")
    return direction_at(launch, launch.environment, LITELLM, "")


def _mini_swe_agent(launch: Launch) -> Direction:
    """Its `.env` file counts where the environment has no such variable."""
    stored = variables_of_file([launch.home("XDG_CONFIG_HOME") / "mini-swe-agent" / ".env"])
    if "XDG_CONFIG_HOME" not in launch.environment:
        stored = variables_of_file([launch.home() / ".config" / "mini-swe-agent" / ".env"])
    return direction_at(launch, {**stored, **launch.environment}, LITELLM, "")


def _openhands(launch: Launch) -> Direction:
    """Its settings may name an address. With `--override-with-envs`, the address is in `LLM_BASE_URL`."""
    directory = launch.environment.get("OPENHANDS_PERSISTENCE_DIR") or launch.home() / ".openhands"
    path = Path(directory) / "agent_settings.json"
    address = launch.environment.get("LLM_BASE_URL")
    if "--override-with-envs" in launch.arguments and address:
        return Direction(launch.environment, (upstream_at(Upstream("openhands", "", {"LLM_BASE_URL": ""}), address),))
    settings = json_object(path)
    stored, model = member(settings, "llm", "base_url"), str(member(settings, "llm", "model") or "")
    if isinstance(stored, str) and stored:
        return by_hand(launch, _FILE_WINS.format(path), f'"base_url" in {path}', stored)
    if model.startswith("openhands/"):
        return not_recorded(launch, "its models openhands/… have an address that no variable changes")
    return direction_at(launch, launch.environment, LITELLM, "")


def _goose(launch: Launch) -> Direction:
    """Its configuration counts where the environment has no such variable."""
    directory = Path(launch.environment.get("XDG_CONFIG_HOME") or launch.home() / ".config")
    stored = dict(_GOOSE_LINE.findall(_text(directory / "goose" / "config.yaml")))
    hosts = {name for upstream in (*_GOOSE, _GOOSE_BASE_URL) for name in upstream.variables}
    variables = {name: value for name, value in stored.items() if name in hosts} | dict(launch.environment)
    known = _GOOSE
    if variables.get("OPENAI_BASE_URL") and not variables.get("OPENAI_HOST"):
        known = (_GOOSE_BASE_URL, *_GOOSE[1:])
    notice = "only OpenAI, Anthropic, Google, OpenRouter and Ollama. Each other provider gets its requests as before"
    return direction_at(launch, variables, known, notice)


def _crush(launch: Launch) -> Direction:
    notice = "only OpenAI, Anthropic and Google, unless its crush.json names an address. Others as without the proxy"
    return direction_at(launch, launch.environment, _CRUSH, notice)


def _kimi(launch: Launch) -> Direction:
    """The address in its configuration wins over the variable. A login writes its address there.

    Kimi Code 2.1 does not read KIMI_BASE_URL for a provider of its own type.
    """
    path = Path(launch.environment.get("KIMI_CODE_HOME") or launch.home() / ".kimi-code") / "config.toml"
    config = toml_table(path)
    variable = "KIMI_MODEL_BASE_URL"
    if launch.environment.get("KIMI_MODEL_NAME") and (address := launch.environment.get(variable)):
        return Direction(launch.environment, (upstream_at(Upstream("kimi", "", {variable: ""}), address),))
    model = next(launch.values_of("-m", "--model"), None) or config.get("default_model")
    name = member(config, "models", str(model), "provider")
    provider = member(config, "providers", str(name))
    kind, address = member(provider, "type") or "kimi", member(provider, "base_url")
    place = f"base_url of [providers.{name}] in {path}"
    if isinstance(address, str) and address:
        return by_hand(launch, _FILE_WINS.format(path), place, address)
    if kind not in _KIMI:
        return by_hand(launch, f"no variable changes the address of a provider of the type {kind}", place, _MOONSHOT)
    variable, ending, address = _KIMI[kind]
    return direction_at(launch, launch.environment, (Upstream("kimi", address, {variable: ending}),), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ours(OSError, ValueError):
        return ""


def _program(name: str, direct: Callable[[Launch], Direction], *commands: str) -> Program:
    return Program(name, frozenset(commands), direct)


PROGRAMS = (
    _program("aider", _aider, "aider"),
    _program("mini-swe-agent", _mini_swe_agent, "mini", "mini-swe-agent", "mini-extra"),
    _program("OpenHands", _openhands, "openhands"),
    _program("goose", _goose, "goose"),
    _program("Crush", _crush, "crush", "@charmland/crush"),
    _program("Kimi Code", _kimi, "kimi", "@moonshot-ai/kimi-code"),
)
