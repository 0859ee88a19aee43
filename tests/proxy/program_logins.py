"""Real programs with each of their logins through the proxy: where a request goes, and which key or token it has.

    python -m tests.proxy.program_logins DIRECTORY [NAME…]        # as tests/proxy/programs.py

All logins are made up. One server of this machine stands for all providers: the first part of a path says which. A
login that the proxy cannot record must be announced before the program starts, and must not reach this server.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.processes import ROOT
from tests.provider import Answer, Request, serving
from tests.proxy.programs import DONE, answer_of, is_same
from tests.scripted_model import Model
from trace_recorder import load
from trace_recorder.capture.decoding import plain_request

LIMIT_SECONDS = 120
STOPPED_AFTER_SECONDS = 30
CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key")


@dataclass(frozen=True)
class Login:
    """A program with one login, and the expected destination of its requests to a model.

    `{url}` in the command, the environment and the files becomes the address of the server.
    """

    program: str
    name: str
    command: Sequence[str]
    goes_to: Sequence[tuple[str, str]] = ()
    """Each distinct pair of a path and a key or token. It is empty if the login is not recorded."""
    said: str = ""
    """What the command says before the program starts."""
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    upstreams: Mapping[str, str] = field(default_factory=dict)


def _token(**claims: object) -> str:
    """Return a JSON Web Token, as logins of ChatGPT have it."""
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, {"exp": 4102444800, **claims}))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, b"signature"))


def _codex_login(account: str | None, key: str | None = None) -> str:
    identity = {} if account is None else {"chatgpt_account_id": account}
    token = _token(**{"https://api.openai.com/auth": {"chatgpt_plan_type": "plus", **identity}})
    tokens = {"id_token": token, "access_token": token, "refresh_token": "refresh", "account_id": account}
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": key, "tokens": tokens, "last_refresh": "2099-01-01T00:00:00Z"}
    return json.dumps(login)


def _codex(tools: Path) -> Iterator[Login]:
    command = (str(tools / "codex"), "exec", "--skip-git-repo-check", "-m", "gpt-5", "Weather?")
    ends = {"codex": "{url}/api/v1", "openai": "{url}/api/v1", "chatgpt": "{url}/chatgpt/backend-api/codex"}
    key, api, chatgpt = (
        {"auth.json": '{"OPENAI_API_KEY": "sk-file"}'},
        "/api/v1/responses",
        "/chatgpt/backend-api/codex/responses",
    )
    account, no_account = {"auth.json": _codex_login("account")}, {"auth.json": _codex_login(None)}
    token = "Bearer eyJ…"  # noqa: S105 - made up
    login = partial(Login, "Codex", command=command, upstreams=ends)
    yield login("API key", goes_to=[(api, "Bearer sk-file")], files=key)
    yield login("ChatGPT", goes_to=[(chatgpt, token)], files=account)
    yield login("ChatGPT without an account", goes_to=[(chatgpt, token)], files=no_account)
    yield login(
        "ChatGPT and OPENAI_API_KEY",
        goes_to=[(chatgpt, token)],
        files=account,
        environment={"OPENAI_API_KEY": "sk-env"},
    )
    yield login(
        "ChatGPT and CODEX_API_KEY",
        goes_to=[(api, "Bearer sk-env")],
        files=account,
        environment={"CODEX_API_KEY": "sk-env"},
    )
    gateway = {**account, "config.toml": 'openai_base_url = "{url}/gateway"'}
    yield Login("Codex", "ChatGPT, openai_base_url", command, [("/gateway/responses", token)], files=gateway)
    own = 'model_provider = "own"\n[model_providers.own]\nname = "o"\nbase_url = "{url}/own"\nenv_key = "OWN"\n'
    yield Login(
        "Codex",
        "own provider",
        command,
        [("/own/responses", "Bearer o")],
        files={"config.toml": own},
        environment={"OWN": "o"},
    )
    bedrock = (*command[:2], "-c", "model_provider=amazon-bedrock", *command[2:])
    yield Login(
        "Codex", "Amazon Bedrock", bedrock, said="Codex will not be recorded: Amazon Bedrock's requests are signed"
    )


def _claude(tools: Path) -> Iterator[Login]:
    command = (str(tools / "claude"), "-p", "Weather?")
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    oauth = {
        "accessToken": "sk-ant-oat01-login",
        "refreshToken": "r",
        "expiresAt": 4102444800000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    account, path = {".claude/.credentials.json": json.dumps({"claudeAiOauth": oauth})}, "/anthropic/v1/messages"
    login = partial(Login, "Claude Code", command=command, upstreams={"anthropic": "{url}/anthropic"})
    key, bearer = {**quiet, "ANTHROPIC_API_KEY": "sk-ant-key"}, "Bearer sk-ant-oat01-login"
    yield login("subscription", goes_to=[(path, bearer)], files=account, environment=quiet)
    yield login("API key", goes_to=[(path, "sk-ant-key")], environment=key)
    yield login("subscription and API key", goes_to=[(path, "sk-ant-key")], files=account, environment=key)
    token = {**quiet, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-login"}
    yield login("CLAUDE_CODE_OAUTH_TOKEN", goes_to=[(path, bearer)], environment=token)
    gateway = {"ANTHROPIC_BASE_URL": "{url}/gateway", "ANTHROPIC_AUTH_TOKEN": "g"}
    settings = {".claude/settings.json": json.dumps({"env": gateway})}
    yield Login(
        "Claude Code", "gateway in the settings", command, [("/gateway/v1/messages", "Bearer g")], "", settings, quiet
    )
    foundry = {**quiet, "CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_API_KEY": "f"}
    yield Login(
        "Claude Code",
        "Foundry",
        command,
        said="Claude Code will not be recorded: ANTHROPIC_FOUNDRY_BASE_URL has to",
        environment=foundry,
    )
    at = {**foundry, "ANTHROPIC_FOUNDRY_BASE_URL": "{url}/foundry"}
    yield Login("Claude Code", "Foundry, address", command, [("/foundry/v1/messages", "f")], environment=at)
    bedrock = {**quiet, "CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a"}
    yield Login(
        "Claude Code",
        "Amazon Bedrock",
        command,
        said="Claude Code will not be recorded: the requests for Amazon Bedrock are signed",
        environment=bedrock | {"AWS_SECRET_ACCESS_KEY": "s"},
    )
    vertex = {**quiet, "CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "p"}
    yield Login(
        "Claude Code",
        "Vertex AI",
        command,
        said="Claude Code will not be recorded: ANTHROPIC_VERTEX_BASE_URL has to",
        environment=vertex,
    )


def _gemini(tools: Path) -> Iterator[Login]:
    command = (str(tools / "gemini"), "-p", "Weather?", "--skip-trust", "-m", "gemini-2.5-flash")
    path = "/google/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    settings = ".gemini/settings.json"
    chosen = {settings: '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'}
    key, ends = {"GEMINI_API_KEY": "g"}, {"google": "{url}/google"}
    yield Login("Gemini CLI", "API key", command, [(path, "g")], "", chosen, key, ends)
    dotenv = {**chosen, ".gemini/.env": "GOOGLE_GEMINI_BASE_URL={url}/gateway\n"}
    yield Login("Gemini CLI", "gateway in .env", command, [(path.replace("google", "gateway"), "g")], "", dotenv, key)
    announced = "Gemini CLI will not be recorded: "
    yield Login(
        "Gemini CLI", "API key, no settings", command, said=f"{announced}its settings choose no login", environment=key
    )
    google = {settings: '{"security": {"auth": {"selectedType": "oauth-personal"}}}'}
    token = {**key, "GOOGLE_GENAI_USE_GCA": "true", "GOOGLE_CLOUD_ACCESS_TOKEN": "ya29.login"}
    assist = {"code-assist": "{url}/assist"}
    path = "/assist/v1internal:streamGenerateContent"
    yield Login("Gemini CLI", "Google login", command, [(path, "Bearer ya29.login")], "", google, token, assist)
    vertex = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "v"}
    path = "/vertex/v1beta1/publishers/google/models/gemini-2.5-flash:streamGenerateContent"
    yield Login(
        "Gemini CLI",
        "Vertex AI, API key",
        command,
        [(path, "v")],
        environment=vertex,
        upstreams={"vertex": "{url}/vertex"},
    )


def _others(tools: Path) -> Iterator[Login]:
    qwen = (str(tools / "qwen"), "-p", "Weather?", "--auth-type", "openai", "-m", "m")
    path, settings = "/openai/v1/chat/completions", ".qwen/settings.json"
    yield Login(
        "Qwen Code",
        "API key",
        qwen,
        [(path, "Bearer q")],
        environment={"OPENAI_API_KEY": "q"},
        upstreams={"openai": "{url}/openai/v1"},
    )
    stored = {"auth": {"selectedType": "openai", "baseUrl": "{url}/own/v1", "apiKey": "s"}}
    own = {settings: json.dumps({"security": stored})}
    yield Login("Qwen Code", "address in the settings", qwen, [(path.replace("openai", "own"), "Bearer s")], files=own)
    oauth = {settings: '{"security": {"auth": {"selectedType": "qwen-oauth"}}}'}
    yield Login(
        "Qwen Code", "Qwen login", qwen[:3], said="Qwen Code will not be recorded: with a Qwen login", files=oauth
    )
    pi = (str(tools / "pi"), "-p", "Weather?", "--provider", "anthropic", "--model", "claude-sonnet-4-5")
    announced, ends = "pi will be recorded in part: only Anthropic, OpenAI", {"pi-anthropic": "{url}/anthropic"}
    key = {"ANTHROPIC_API_KEY": "k"}
    yield Login("pi", "API key", pi, [("/anthropic/v1/messages", "k")], announced, {}, key, ends)
    kimi = (str(tools / "kimi"), "-p", "Weather?")
    model = 'default_model = "a"\n[models.a]\nprovider = "p"\nmodel = "m"\nmax_context_size = 100000\n[providers.p]\n'
    stored = {".kimi-code/config.toml": f'{model}type = "openai"\napi_key = "k"\n'}
    path, ends = "/kimi/v1/chat/completions", {"kimi": "{url}/kimi/v1"}
    yield Login("Kimi Code", "OpenAI's API key", kimi, [(path, "Bearer k")], "", stored, {}, ends)
    own = {".kimi-code/config.toml": f'{model}type = "kimi"\napi_key = "k"\n'}
    announced = "Kimi Code will not be recorded: no variable changes the address"
    yield Login("Kimi Code", "Moonshot's API key", kimi, said=announced, files=own)
    copilot = (str(tools / "copilot"), "-p", "Weather?", "--allow-all-tools")
    announced = "Copilot CLI will not be recorded: with a GitHub login"
    yield Login("Copilot CLI", "GitHub login", copilot, said=announced, environment={"GH_TOKEN": "gho_login"})
    variables = {"COPILOT_PROVIDER_BASE_URL": "{url}/own/v1", "COPILOT_PROVIDER_API_KEY": "k", "COPILOT_MODEL": "gpt-5"}
    yield Login(
        "Copilot CLI", "own provider", copilot, [("/own/v1/chat/completions", "Bearer k")], environment=variables
    )
    droid = (str(tools / "droid"), "exec", "Weather?", "-m", "custom:m")
    announced = "Droid will not be recorded: it reads addresses"
    yield Login("Droid", "own model", droid, said=announced, environment={"FACTORY_API_KEY": "fk-x"})
    cline = (str(tools / "cline"), "-P", "anthropic", "-m", "claude-sonnet-4-5", "What is the weather?")
    yield Login(
        "Cline",
        "API key",
        cline,
        said="Cline will not be recorded: it reads addresses",
        environment=key,
    )
    opencode = (str(tools / "opencode"), "run", "-m", "anthropic/claude-sonnet-4-5", "What is the weather?")
    announced = "opencode will be recorded in part: only Anthropic with an API key"
    ends = {"anthropic": "{url}/anthropic/v1"}
    yield Login(
        "opencode",
        "Anthropic, API key",
        opencode,
        [("/anthropic/v1/messages", "k")],
        announced,
        {},
        {"ANTHROPIC_API_KEY": "k"},
        ends,
    )


def logins(tools: Path) -> Iterator[Login]:
    """Yield each program with each of its logins."""
    for of_program in (_codex, _claude, _gemini, _others):
        yield from of_program(tools / "node_modules" / ".bin")


def _answer(model: Model, asked: list[tuple[str, str]], request: Request) -> Answer:
    """Answer a request, and note where it went, if it is one to a model. The first part of its path is left out."""
    headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
    path = request.path.partition("?")[0]
    if re.search(r"(/responses|/messages|/chat/completions|enerateContent)$", path):
        credential = next((request.headers[name] for name in CREDENTIALS if name in request.headers), "")
        asked.append((path, re.sub(r"eyJ[\w.-]+", "eyJ…", credential)))
    end = "/v1/responses" if path.endswith("/responses") else re.sub(r"^/[^/]+(?=/)", "", path)
    return answer_of(model, Request(end, request.headers, plain_request(headers, request.body)))


def check(login: Login) -> str:
    """Run a program through the proxy. Return where its requests went. Raises AssertionError if they went elsewhere."""
    model, asked = Model(lambda _: DONE), []
    with tempfile.TemporaryDirectory() as directory, serving(partial(_answer, model, asked)) as server:
        home, runs = Path(directory, "home"), Path(directory, "runs")
        for name, text in {"work": "", **login.files}.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text.replace("{url}", server.url))
        variables = {name: value.replace("{url}", server.url) for name, value in login.environment.items()}
        ends = [f"--upstream={name}={url.replace('{url}', server.url)}" for name, url in login.upstreams.items()]
        command = [sys.executable, "-m", "trace_recorder", "proxy", "--directory", runs, *ends, "--", *login.command]
        output, errors = _run(command, home, _environment(home) | variables, waits=bool(login.goes_to))
        calls = [call for path in sorted(runs.glob("*.json")) for call in load(path).llm_interactions]
    first_line = errors.partition("\n")[0]
    assert (login.said in first_line, "be recorded" in first_line) == (True, bool(login.said)), errors[-2000:]
    assert {*asked} == {*login.goes_to}, ({*asked}, output[-500:], errors[-1500:])
    assert len(calls) == len(model.sent), (len(calls), asked)  # a websocket that is refused is no call
    return f"{login.goes_to or 'not recorded, and said so'}"


def _run(command: Sequence[object], home: Path, environment: Mapping[str, str], *, waits: bool) -> tuple[str, str]:
    """Run a command, and return its output. A program that cannot reach its provider is stopped after some time."""
    with subprocess.Popen(
        [*map(str, command)],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=LIMIT_SECONDS if waits else STOPPED_AFTER_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            return process.communicate(timeout=LIMIT_SECONDS)


def _environment(home: Path) -> dict[str, str]:
    """Return an environment without the logins of this machine's user, from which nothing reaches other machines."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    nowhere = "http://127.0.0.1:9"
    places = {"HOME": str(home), "CODEX_HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "PYTHONPATH": str(ROOT)}
    return {**kept, **places, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost"}


def main(tools: Path, names: Sequence[str]) -> int:
    """Check all logins, and print a line for each."""
    wrong = 0
    for login in logins(tools.absolute()):
        if names and login.program not in names:
            continue
        if shutil.which(login.command[0]) is None:
            print(f"- {login.program}: not installed")
            continue
        wrong += not is_same(f"{login.program}, {login.name}", partial(check, login))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
