"""How each known program is directed to the proxy: its options, its variables, and the addresses of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trace_recorder.proxy.programs.known import directed
from trace_recorder.proxy.upstreams import Upstream, address_of, upstream_for, upstreams

PROXY = "http://proxy"


class Led(NamedTuple):
    """The command with the options for the proxy, where its requests go, and what is said before it starts."""

    command: str
    goes_to: Mapping[str, str]
    said: list[str]


Lead = Callable[..., Led]


def _goes_to(by_name: Mapping[str, Upstream], name: str, path: str) -> str:
    upstream = upstream_for(by_name, name, lambda _: None)
    return str(upstream and address_of(upstream, name, path))


@pytest.fixture
def lead(tmp_path: Path) -> Lead:
    """Return a function that directs a command in a home directory with some files."""

    def lead(command: str, files: Mapping[str, Any] = {}, **variables: str) -> Led:  # noqa: B006 - it is not changed
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        directed_command = directed(command.split(), {"HOME": str(tmp_path), **variables}, tmp_path)
        direction = directed_command.direction
        by_name = upstreams(direction.environment, (), direction.upstreams)
        led = {key: value for upstream in by_name.values() for key, value in upstream.environment(PROXY).items()}
        words = directed_command.to(PROXY)
        addresses = {**led, "options": next((word for word in words if PROXY in word), "")}
        goes_to = {
            name: _goes_to(by_name, *_path(value))
            for name, value in addresses.items()
            if value and direction.not_recorded is None
        }
        return Led(" ".join(words), goes_to, [*directed_command.notices()])

    return lead


def _path(value: str) -> tuple[str, str]:
    """Return the upstream and the rest of the path of an address of the proxy."""
    name, _, rest = value.partition(f"{PROXY}/")[2].rstrip('"}').partition("/")
    return name, rest


CODEX = "codex exec hello"
OPENAI = "https://api.openai.com/v1/"


@pytest.mark.parametrize(
    ("command", "files", "expected"),
    [
        (CODEX, {}, ('codex -c openai_base_url="http://proxy/codex" exec hello', OPENAI)),
        (
            "timeout 9 npx -y @openai/codex@0.171.0 exec hello",
            {},
            ('timeout 9 npx -y @openai/codex@0.171.0 -c openai_base_url="http://proxy/codex" exec hello', OPENAI),
        ),
        (
            CODEX,
            {"config.toml": 'openai_base_url = "https://gw.example/llm/"'},
            ('codex -c openai_base_url="http://proxy/codex" exec hello', "https://gw.example/llm/"),
        ),
        (
            CODEX,
            {"config.toml": 'model_provider = "own"\nmodel_providers.own.base_url = "https://own.example/v1"'},
            ('codex -c model_providers.own.base_url="http://proxy/codex" exec hello', "https://own.example/v1/"),
        ),
        (
            "codex exec --profile=work hello",
            {
                "config.toml": 'profiles.work.model_provider = "own"\nmodel_providers.own.base_url = "https://a.example"',
                "work.config.toml": 'model_providers.own.base_url = "https://b.example"',
            },
            (
                'codex -c model_providers.own.base_url="http://proxy/codex" exec --profile=work hello',
                "https://b.example/",
            ),
        ),
        (
            "codex exec -c model_provider=own hello",
            {"config.toml": 'model_providers.own.base_url = "https://own.example"'},
            (
                'codex -c model_providers.own.base_url="http://proxy/codex" exec -c model_provider=own hello',
                "https://own.example/",
            ),
        ),
    ],
)
def test_codex_keeps_its_provider(
    lead: Lead, tmp_path: Path, command: str, files: dict[str, str], expected: tuple[str, str]
) -> None:
    """Only the address of the provider that Codex uses anyway is changed, so its sessions can be resumed."""
    led = lead(command, files, CODEX_HOME=str(tmp_path))
    assert ((led.command, led.goes_to["options"]), led.said) == (expected, [])


def test_codex_ignores_the_variable_of_another_program(lead: Lead) -> None:
    """OPENAI_BASE_URL is not read by Codex, so a gateway in that variable does not get Codex's requests."""
    led = lead(CODEX, OPENAI_BASE_URL="https://gw.example/v1")
    assert (led.goes_to["options"], led.goes_to["OPENAI_BASE_URL"]) == (OPENAI, "https://gw.example/v1")


def test_a_local_server_of_codex_is_an_upstream(lead: Lead) -> None:
    led = lead("codex exec --oss --local-provider lmstudio hello")
    assert (led.command, led.goes_to["CODEX_OSS_BASE_URL"], led.said) == (
        "codex exec --oss --local-provider lmstudio hello",
        "http://localhost:1234/v1",
        [],
    )


@pytest.mark.parametrize(
    ("command", "config", "why"),
    [
        ("codex exec -c openai_base_url=https://x.example hello", "", "the option -c openai_base_url=… of the command"),
        (CODEX, 'model_provider = "amazon-bedrock"', "Amazon Bedrock's requests are signed"),
        (CODEX, 'model_provider = "a b"', "no option can change the address of a provider with the name 'a b'"),
        (CODEX, 'openai_base_url = "nowhere:x"', "'http://nowhere:x' is not the address of a server"),
        (
            CODEX,
            'model_provider = "az"\nmodel_providers.az.base_url = "https://x.openai.azure.com/openai"',
            "it makes requests for Azure only if",
        ),
    ],
)
def test_codex_says_why_it_is_not_recorded(lead: Lead, tmp_path: Path, command: str, config: str, why: str) -> None:
    led = lead(command, {"config.toml": config}, CODEX_HOME=str(tmp_path))
    (said,) = led.said
    assert (led.command, led.goes_to, said.startswith(f"Codex will not be recorded: {why}")) == (command, {}, True)


def test_claude_code_follows_the_address_in_its_settings(lead: Lead) -> None:
    """The settings win over the environment. The project's settings win over the user's."""
    files = {
        ".claude/settings.json": {"env": {"ANTHROPIC_BASE_URL": "https://gw.example"}},
        ".claude/settings.local.json": '// mine\n{"env": {"ANTHROPIC_BASE_URL": "https://own.example/a"}}',
    }
    led = lead("claude -p hello", files, ANTHROPIC_BASE_URL="https://unused.example")
    options = '--settings {"env": {"ANTHROPIC_BASE_URL": "http://proxy/anthropic"}}'
    assert (led.command, led.goes_to["options"]) == (f"claude {options} -p hello", "https://own.example/a/")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("ANTHROPIC_BASE_URL", "https://api.anthropic.com/")),
        ({"ANTHROPIC_BASE_URL": "https://gw.example/a"}, ("ANTHROPIC_BASE_URL", "https://gw.example/a/")),
        (
            {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_BASE_URL": "https://gw.example/v1"},
            ("ANTHROPIC_VERTEX_BASE_URL", "https://gw.example/v1/"),
        ),
        (
            {
                "CLAUDE_CODE_USE_BEDROCK": "1",
                "CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1",
                "ANTHROPIC_BEDROCK_BASE_URL": "https://gw.example",
            },
            ("ANTHROPIC_BEDROCK_BASE_URL", "https://gw.example/"),
        ),
    ],
)
def test_claude_code_goes_to_the_server_of_its_cloud(
    lead: Lead, variables: dict[str, str], expected: tuple[str, str]
) -> None:
    led = lead("claude -p hello", **variables)
    assert (led.command, led.goes_to[expected[0]], led.said) == ("claude -p hello", expected[1], [])


GATEWAY = '{"env":{"ANTHROPIC_BASE_URL":"https://gw.example"}}'


@pytest.mark.parametrize(
    ("command", "variables", "why"),
    [
        ("claude -p hello", {"CLAUDE_CODE_USE_BEDROCK": "1"}, "the requests for Amazon Bedrock are signed"),
        ("claude -p hello", {"CLAUDE_CODE_USE_VERTEX": "1"}, "ANTHROPIC_VERTEX_BASE_URL has to be set"),
        ("claude -p hello", {"CLAUDE_CODE_USE_FOUNDRY": "1"}, "ANTHROPIC_FOUNDRY_BASE_URL has to be set"),
        (f"claude --settings {GATEWAY} -p hello", {}, "ANTHROPIC_BASE_URL in the settings of --settings"),
    ],
)
def test_claude_code_says_why_it_is_not_recorded(lead: Lead, command: str, variables: dict[str, str], why: str) -> None:
    led = lead(command, **variables)
    (said,) = led.said
    assert (led.command, led.goes_to, said.startswith(f"Claude Code will not be recorded: {why}")) == (
        command,
        {},
        True,
    )


API_KEY = {".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}}}
GOOGLE = {".gemini/settings.json": {"security": {"auth": {"selectedType": "oauth-personal"}}}}


def test_gemini_cli_follows_its_env_file(lead: Lead) -> None:
    """A gateway in Gemini CLI's own `.env` file is the upstream, although the proxy sets that variable."""
    led = lead(
        "gemini -p hello", {**API_KEY, ".gemini/.env": "export GOOGLE_GEMINI_BASE_URL='https://gw.example' # ours"}
    )
    assert (led.goes_to["GOOGLE_GEMINI_BASE_URL"], led.said) == ("https://gw.example/", [])


def test_gemini_cli_s_own_home_is_read(lead: Lead, tmp_path: Path) -> None:
    """GEMINI_CLI_HOME names the directory whose settings choose the login."""
    settings = {f"other/{name}": content for name, content in API_KEY.items()}
    led = lead("gemini -p hello", settings, GEMINI_CLI_HOME=str(tmp_path / "other"))
    assert led.goes_to["GOOGLE_GEMINI_BASE_URL"] == "https://generativelanguage.googleapis.com/"


@pytest.mark.parametrize(
    ("files", "variables", "address"),
    [
        (GOOGLE, {"GEMINI_API_KEY": "k"}, "https://cloudcode-pa.googleapis.com/"),
        ({}, {"CLOUD_SHELL": "true"}, "https://cloudcode-pa.googleapis.com/"),
        ({}, {"GOOGLE_GENAI_USE_GCA": "true", "CODE_ASSIST_ENDPOINT": "https://gw.example/a"}, "https://gw.example/a/"),
    ],
)
def test_gemini_cli_s_google_login_goes_to_code_assist(
    lead: Lead, files: dict[str, Any], variables: dict[str, str], address: str
) -> None:
    """The variable of API keys is left out, because a gateway is another login."""
    led = lead("gemini -p hello", files, **variables)
    assert (led.goes_to["CODE_ASSIST_ENDPOINT"], "GOOGLE_GEMINI_BASE_URL" in led.goes_to, led.said) == (
        address,
        False,
        [],
    )


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("us-central1", "https://us-central1-aiplatform.googleapis.com/"),
        ("global", "https://aiplatform.googleapis.com/"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com/"),
    ],
)
def test_gemini_cli_goes_to_vertex_ai_s_location(lead: Lead, location: str, address: str) -> None:
    led = lead("gemini -p hello", GOOGLE_GENAI_USE_VERTEXAI="true", GOOGLE_CLOUD_LOCATION=location)
    assert (led.goes_to["GOOGLE_VERTEX_BASE_URL"], "GOOGLE_GEMINI_BASE_URL" in led.goes_to) == (address, False)


@pytest.mark.parametrize(
    ("files", "variables", "why"),
    [
        ({}, {"GEMINI_API_KEY": "k"}, "its settings choose no login"),
    ],
)
def test_gemini_cli_says_why_it_is_not_recorded(
    lead: Lead, files: dict[str, Any], variables: dict[str, str], why: str
) -> None:
    led = lead("gemini -p hello", files, **variables)
    (said,) = led.said
    assert (led.goes_to, said.startswith(f"Gemini CLI will not be recorded: {why}")) == ({}, True)


QWEN = {"security": {"auth": {"selectedType": "openai", "baseUrl": "https://own.example/v1"}}}


@pytest.mark.parametrize(
    ("settings", "env_file", "variables", "address"),
    [
        ({}, "", {}, "https://api.openai.com/v1"),
        (QWEN, "", {}, "https://own.example/v1"),
        ({**QWEN, "env": {"OPENAI_BASE_URL": "https://b.example/v1"}}, "", {}, "https://b.example/v1"),
        (QWEN, "OPENAI_BASE_URL=https://c.example/v1\nOTHER=1", {}, "https://c.example/v1"),
        (QWEN, "OPENAI_BASE_URL=\nOTHER=1", {}, "https://own.example/v1"),
        (QWEN, "", {"OPENAI_BASE_URL": "https://d.example/v1"}, "https://d.example/v1"),
    ],
)
def test_qwen_code_follows_the_address_in_its_settings(
    lead: Lead, settings: dict[str, Any], env_file: str, variables: dict[str, str], address: str
) -> None:
    """The key in the settings goes to the server in the settings, although a variable would win over them."""
    led = lead("qwen -p hello", {".qwen/settings.json": settings, ".env": env_file}, **variables)
    assert (led.goes_to["OPENAI_BASE_URL"], led.said) == (address, [])


@pytest.mark.parametrize(
    ("command", "settings", "why"),
    [
        ("qwen -p hello --openai-base-url https://x.example", {}, "its option --openai-base-url wins"),
        ("qwen -p hello --auth-type=qwen-oauth", {}, "with a Qwen login"),
        (
            "qwen -p hello -m own",
            {"modelProviders": {"openai": [{"id": "own", "baseUrl": "https://own.example"}]}},
            "the address of the model own in modelProviders",
        ),
    ],
)
def test_qwen_code_says_why_it_is_not_recorded(lead: Lead, command: str, settings: dict[str, Any], why: str) -> None:
    led = lead(command, {".qwen/settings.json": settings})
    (said,) = led.said
    assert (led.goes_to, said.startswith(f"Qwen Code will not be recorded: {why}")) == ({}, True)


def test_opencode_gets_the_version_in_anthropic_s_address(lead: Lead) -> None:
    """Its SDK does not add the version to the address, as Anthropic's own SDK does."""
    led = lead("opencode run hello")
    (said,) = led.said
    assert led.goes_to["ANTHROPIC_BASE_URL"] == "https://api.anthropic.com/v1"
    assert said.startswith("opencode will be recorded in part: only Anthropic with an API key")


def test_copilot_s_own_provider_is_an_upstream(lead: Lead) -> None:
    led = lead("copilot -p hello", COPILOT_PROVIDER_BASE_URL="https://own.example/v1")
    assert (led.goes_to["COPILOT_PROVIDER_BASE_URL"], led.said) == ("https://own.example/v1/", [])


def test_pi_goes_to_the_addresses_of_its_providers(lead: Lead) -> None:
    """An extension of the package changes the addresses. Those in pi's file are the upstreams, and no variables."""
    stored = {"own": {"baseUrl": "https://own.example/v1"}, "anthropic": {"baseUrl": "https://gw.example/a"}, "b": {}}
    led = lead("pi -p hello", {".pi/agent/models.json": {"providers": stored}}, ANTHROPIC_BASE_URL="https://no.example")
    begins, extension, rest = led.command.partition("pi_extension.mjs")
    assert (begins.startswith("pi -e /"), extension != "", rest) == (True, True, " -p hello")
    addresses = {name.removeprefix("TRACE_RECORDER_PI_"): url for name, url in led.goes_to.items() if "_PI_" in name}
    assert addresses == {
        "own": "https://own.example/v1/",
        "anthropic": "https://gw.example/a/",
        "openai": "https://api.openai.com/v1/",
        "google": "https://generativelanguage.googleapis.com/v1beta/",
        "openrouter": "https://openrouter.ai/api/v1/",
    }
    assert led.said[0].startswith("pi will be recorded in part: only Anthropic, OpenAI, Google and OpenRouter")


def test_commands_of_pi_get_no_option(lead: Lead) -> None:
    assert lead("pi install npm:x").command == "pi install npm:x"


LITELLM = {
    "OPENAI_BASE_URL": "https://api.openai.com/v1",
    "ANTHROPIC_API_BASE": "https://api.anthropic.com/",
    "GEMINI_API_BASE": "https://generativelanguage.googleapis.com/v1beta",
    "OPENROUTER_API_BASE": "https://openrouter.ai/api/v1",
}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("aider --message hello", LITELLM),
        ("mini -t hello", LITELLM),
        ("openhands --headless -t hello", LITELLM),
        (
            "goose run -t hello",
            {"OPENAI_HOST": "https://api.openai.com/", "ANTHROPIC_HOST": "https://api.anthropic.com/"},
        ),
        (
            "crush run hello",
            {
                "OPENAI_API_ENDPOINT": "https://api.openai.com/v1",
                "ANTHROPIC_API_ENDPOINT": "https://api.anthropic.com/",
            },
        ),
    ],
)
def test_a_program_reads_variables_of_its_own(lead: Lead, command: str, expected: dict[str, str]) -> None:
    led = lead(command)
    assert (led.command, {name: led.goes_to[name] for name in expected}) == (command, expected)
    assert [said for said in led.said if "not be recorded" in said] == []


@pytest.mark.parametrize(
    ("command", "files", "variables", "variable", "address"),
    [
        ("mini -t hello", {}, {"ANTHROPIC_BASE_URL": "https://a.example"}, "ANTHROPIC_API_BASE", "https://a.example/"),
        (
            "mini -t hello",
            {".config/mini-swe-agent/.env": "OPENAI_API_BASE='https://b.example/v1'\n"},
            {},
            "OPENAI_API_BASE",
            "https://b.example/v1",
        ),
        (
            "goose run -t hello",
            {".config/goose/config.yaml": "GOOSE_PROVIDER: openai\nOPENAI_HOST: https://c.example/x # ours\n"},
            {},
            "OPENAI_HOST",
            "https://c.example/x/",
        ),
        (
            "goose run -t hello",
            {},
            {"OPENAI_BASE_URL": "https://c.example/v1"},
            "OPENAI_BASE_URL",
            "https://c.example/v1",
        ),
        (
            "node_modules/@aaif/goose-binary-linux-x64/bin/goose run",
            {},
            {"OPENAI_BASE_URL": "https://no.example", "OPENAI_HOST": "https://c.example"},
            "OPENAI_HOST",
            "https://c.example/",
        ),
        (
            "openhands --override-with-envs -t hello",
            {},
            {"LLM_BASE_URL": "https://d.example/v1"},
            "LLM_BASE_URL",
            "https://d.example/v1/",
        ),
        (
            "kimi -p hello",
            {
                ".kimi-code/config.toml": 'default_model = "a"\nmodels.a.provider = "p"\n'
                'providers.p.type = "anthropic"\n'
            },
            {"ANTHROPIC_BASE_URL": "https://e.example"},
            "ANTHROPIC_BASE_URL",
            "https://e.example/",
        ),
        (
            "kimi -p hello",
            {},
            {"KIMI_MODEL_NAME": "m", "KIMI_MODEL_BASE_URL": "https://f.example/v1"},
            "KIMI_MODEL_BASE_URL",
            "https://f.example/v1/",
        ),
    ],
)
def test_an_address_that_a_program_reads_is_the_upstream(  # noqa: PLR0913, PLR0917 - a row of the table
    lead: Lead, command: str, files: dict[str, str], variables: dict[str, str], variable: str, address: str
) -> None:
    """The address that the program reads without the proxy gets its requests, and no other program's variable."""
    assert lead(command, files, **variables).goes_to[variable] == address


KIMI = {
    ".kimi-code/config.toml": 'default_model = "a"\nmodels.a.provider = "p"\n'
    'providers.p.base_url = "https://own.example/v1/"\n'
}
CLINE = {".cline/data/settings/providers.json": {"lastUsedProvider": "anthropic"}}
DROID = {".factory/settings.json": {"customModels": [{"model": "m", "baseUrl": "https://own.example/v1"}]}}
OPENHANDS = {".openhands/agent_settings.json": {"llm": {"model": "m", "base_url": "https://own.example/v1"}}}
OWN = "trace-recorder proxy --port 8787 --upstream own=https://own.example/v1` in another terminal"


@pytest.mark.parametrize(
    ("command", "files", "instead"),
    [
        ("kimi -p hello", KIMI, OWN),
        ("kimi -p hello", {}, "trace-recorder proxy --port 8787 --upstream own=https://api.moonshot.ai/v1`"),
        ("cline hello", CLINE, "trace-recorder proxy --port 8787` in another terminal, and set"),
        ("droid exec hello", DROID, OWN),
        ("openhands -t hello", OPENHANDS, OWN),
        ("copilot -p hello", {}, None),
        ("cline hello", {}, None),
        ("aider -m hello", {".env": "ANTHROPIC_API_BASE=https://own.example"}, None),
        ("aider -m hello", {".aider.conf.yml": "openai-api-base: https://own.example"}, None),
    ],
)
def test_other_programs_say_why_they_are_not_recorded(
    lead: Lead, command: str, files: dict[str, Any], instead: str | None
) -> None:
    """If a proxy that runs on its own can record the program, the command says what to write where."""
    led = lead(command, files)
    assert (led.goes_to, " will not be recorded: " in led.said[0], len(led.said)) == ({}, True, 1 + bool(instead))
    assert (instead or "") in led.said[-1]


def test_an_unknown_program_gets_the_variables_alone(lead: Lead) -> None:
    led = lead("python codex_agent.py")
    assert (led.command, led.goes_to["OPENAI_BASE_URL"], led.said) == (
        "python codex_agent.py",
        "https://api.openai.com/v1",
        [],
    )
