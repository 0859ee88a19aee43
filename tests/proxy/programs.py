"""Real programs of other languages: their commands, and the answers of a model that depend on each request alone.

The modules `program_*.py` run these programs with and without the proxy. `nox -s programs` installs them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.policy import Action, Call
from tests.processes import ROOT
from tests.provider import Answer, Request, whole
from tests.scripted_model import Model, addresses

VOLATILE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b|\b\d{9,}\b|\d{4}-\d\d-\d\dT[\d:.]+Z?|\d+(?:\.\d+)?\s?m?s\b|/tmp/\S+"
)
"""The texts that differ between two runs of a program: ids, times, durations, temporary directories."""
LIMIT_SECONDS = 400
"""OpenHands first tries several times to fetch its skills, which takes minutes without a network."""
DONE = Action("Done.", "It is sunny in Tokyo.")
QUESTION, SECOND_QUESTION = "What is the weather?", "And in Paris?"


@dataclass(frozen=True)
class Program:
    """A program: its command, the model's answer to each of its requests, and its environment variables."""

    name: str
    package: str
    """The package that has the program, at npm or PyPI."""
    command: Sequence[str]
    says: Callable[[str, dict[str, Any]], Action]
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Files in the program's home directory. `{url}` in a file becomes the provider's address."""
    joined_tools: int = 0
    """How many tools the program's own session file has, which `--join` adds."""
    agents: int = 0
    """How many sub-agents the program names in its requests."""
    inferred_agents: int = 0
    """How many sub-agents the program has that its requests do not name."""
    resumes: Sequence[Sequence[str]] = ()
    """Commands that ask `SECOND_QUESTION` in the newest session. `{session}` becomes the id of a session of Codex."""
    why_not_resumed: str = "not tried"
    """Why the program has no such command."""
    has_own_address: bool = False
    """Whether the program reads its provider's address from its own file alone. Then the proxy runs beside it."""
    is_patient: bool = False
    """Whether the program waits for minutes after failed calls, and asks its user after Ctrl-C."""


def _calls(*calls: Call) -> Callable[[str, dict[str, Any]], Action]:
    """Return answers of a model that calls tools in its first turn, and then ends."""

    def says(_: str, body: dict[str, Any]) -> Action:
        text = json.dumps(body)
        answered = any(mark in text for mark in ('"tool_result"', '"function_call_output"', '"functionResponse"'))
        if answered or '"role": "tool"' in text or not body.get("tools"):
            return DONE
        return Action("I look.", "Let me look.", calls)

    return says


def _claude(_: str, body: dict[str, Any]) -> Action:
    """Return Claude Code: two commands, then a sub-agent, which ends at once."""
    text = json.dumps(body.get("messages", []))
    tools = {tool.get("name") for tool in body.get("tools", [])}
    if "Bash" not in tools or "Weather in Tokyo?" in json.dumps(body["messages"][0]):
        return DONE
    results = text.count('"tool_result"')
    if results == 0:
        return Action("I look.", "Let me look.", (Call("Bash", {"command": "echo sunny", "description": "look"}),))
    if results == 1:
        agent = "Task" if "Task" in tools else "Agent"
        about = {"description": "Look", "prompt": "Weather in Tokyo?", "subagent_type": "general-purpose"}
        return Action("Again.", "And another.", (Call(agent, about),))
    return DONE


def _with_agent(tool: Call, agent: Call) -> Callable[[str, dict[str, Any]], Action]:
    """Return answers of a model that calls a tool and starts a sub-agent, which ends at once."""
    prompt = str(agent.arguments.get("prompt") or agent.arguments["instructions"])

    def says(_: str, body: dict[str, Any]) -> Action:
        text = json.dumps(body.get("messages") or body.get("input"))
        answered = '"function_call_output"' in text or '"role": "tool"' in text
        if answered or prompt in text or not body.get("tools"):
            return DONE
        return Action("I look.", "Let me look.", (tool, agent))

    return says


def _mini(_: str, body: dict[str, Any]) -> Action:
    """Return answers for mini-swe-agent, whose last command says that it is done."""
    if '"role": "tool"' in json.dumps(body):
        return Action("Done.", "Done.", (Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),))
    return Action("I look.", "Let me look.", (Call("bash", {"command": "echo sunny"}),))


NODE_OPENAI = """
import OpenAI from "openai"
const client = new OpenAI()
const messages = [{role: "user", content: "Weather?"}]
const tools = [{type: "function", function: {name: "get_weather", parameters: {type: "object"}}}]
const first = await client.chat.completions.create({model: "m", messages, tools})
const message = first.choices[0].message
messages.push(message, ...message.tool_calls.map(call => ({role: "tool", tool_call_id: call.id, content: "sunny"})))
for await (const chunk of await client.chat.completions.create({model: "m", messages, tools, stream: true}))
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "")
"""
NODE_ANTHROPIC = """
import Anthropic from "@anthropic-ai/sdk"
const client = new Anthropic()
const tools = [{name: "get_weather", input_schema: {type: "object"}}]
const messages = [{role: "user", content: "Weather?"}]
const first = await client.messages.create({model: "m", max_tokens: 100, messages, tools})
const results = first.content.filter(part => part.type == "tool_use").map(
  part => ({type: "tool_result", tool_use_id: part.id, content: "sunny"}))
messages.push({role: "assistant", content: first.content}, {role: "user", content: results})
const stream = client.messages.stream({model: "m", max_tokens: 100, messages, tools})
stream.on("text", text => process.stdout.write(text))
await stream.finalMessage()
"""
CURL = """exec curl -sS "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \
-H "Content-Type: application/json" -d '{"model":"m","messages":[{"role":"user","content":"Weather?"}]}'"""


def programs(tools: Path, place: Path) -> Iterator[Program]:
    """Yield the programs that are installed."""
    weather = _calls(Call("get_weather", {"city": "Tokyo"}))
    (place / "openai.mjs").write_text(NODE_OPENAI)
    (place / "anthropic.mjs").write_text(NODE_ANTHROPIC)
    (place / "node_modules").symlink_to(tools / "node_modules")
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    paths = {
        name: str(tools / "node_modules" / ".bin" / name)
        for name in ("claude", "codex", "copilot", "gemini", "kimi", "opencode", "pi", "qwen")
    }
    look = {"command": "echo sunny", "description": "look"}
    task = {"description": "Look", "prompt": "Weather in Tokyo?"}
    agent = {**task, "subagent_type": "general-purpose"}
    claude = ("--allowedTools", "Bash", "Agent", "Task")
    codex = (paths["codex"], "exec", "--skip-git-repo-check", "-m", "gpt-5")
    gemini = ("--yolo", "--skip-trust", "-m", "gemini-2.5-flash")
    qwen = ("--yolo", "--auth-type", "openai", "-m", "m")
    pi = ("--provider", "own", "--model", "m")
    opencode = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(
            {
                "model": "openai/gpt-4o",
                "small_model": "openai/gpt-4o",
                "provider": {"openai": {"options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "k"}}},
            }
        )
    }
    yield Program("curl", "", ("sh", "-c", CURL), weather)
    yield Program("openai, Node", "openai", ("node", "openai.mjs"), weather)
    yield Program("anthropic, Node", "@anthropic-ai/sdk", ("node", "anthropic.mjs"), weather)
    yield Program(
        "Claude Code",
        "@anthropic-ai/claude-code",
        (paths["claude"], "-p", QUESTION, *claude),
        _claude,
        quiet,
        joined_tools=2,
        agents=1,
        resumes=[(paths["claude"], "-c", "-p", SECOND_QUESTION, *claude)],
    )
    yield Program(
        "Codex",
        "@openai/codex",
        (*codex, QUESTION),
        _calls(Call("exec_command", {"cmd": "echo sunny"})),
        files={"auth.json": '{"OPENAI_API_KEY": "k"}', "config.toml": 'openai_base_url = "{url}/v1"'},
        joined_tools=1,
        resumes=[(*codex, "resume", session, SECOND_QUESTION) for session in ("--last", "{session}")],
    )
    yield Program(
        "Gemini CLI",
        "@google/gemini-cli",
        (paths["gemini"], "-p", QUESTION, *gemini),
        _calls(Call("run_shell_command", {"command": "echo sunny"})),
        files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
        joined_tools=1,
        resumes=[(paths["gemini"], "-r", "latest", "-p", SECOND_QUESTION, *gemini)],
    )
    yield Program(
        "Qwen Code",
        "@qwen-code/qwen-code",
        (paths["qwen"], "-p", QUESTION, *qwen),
        _with_agent(
            Call("run_shell_command", {"command": "echo sunny", "is_background": False}),
            Call("agent", agent | {"run_in_background": False}),
        ),
        joined_tools=2,
        inferred_agents=1,
        resumes=[(paths["qwen"], "-c", "-p", SECOND_QUESTION, *qwen)],
    )
    yield Program(
        "opencode",
        "opencode-ai",
        (paths["opencode"], "run", QUESTION),
        _with_agent(Call("bash", look), Call("task", agent | {"subagent_type": "general"})),
        opencode,
        joined_tools=2,
        agents=1,
        resumes=[(paths["opencode"], "run", "-c", SECOND_QUESTION)],
    )
    yield Program(
        "Copilot CLI",
        "@github/copilot",
        (paths["copilot"], "-p", QUESTION, "--allow-all-tools"),
        _with_agent(
            Call("bash", look),
            Call("task", task | {"agent_type": "general-purpose", "name": "looker", "mode": "sync"}),
        ),
        {
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": "gpt-5",
        },
        joined_tools=2,
        agents=1,
        resumes=[(paths["copilot"], "--continue", "-p", SECOND_QUESTION, "--allow-all-tools")],
    )
    own = {"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "k", "models": [{"id": "m"}]}
    yield Program(
        "pi",
        "@earendil-works/pi-coding-agent",
        (paths["pi"], "-p", QUESTION, *pi),
        _calls(Call("bash", {"command": "echo sunny"})),
        files={".pi/agent/models.json": json.dumps({"providers": {"own": own}})},
        joined_tools=1,
        resumes=[(paths["pi"], "-c", "-p", SECOND_QUESTION, *pi)],
    )
    yield Program(
        "Kimi Code",
        "@moonshot-ai/kimi-code",
        (paths["kimi"], "-p", QUESTION),
        _with_agent(Call("Bash", {"command": "echo sunny"}), Call("Agent", task)),
        files={
            ".kimi-code/config.toml": 'default_model = "loc"\nproviders.loc = {type = "openai", api_key = "k"}\n'
            'models.loc = {provider = "loc", model = "m", max_context_size = 100000}\n'
        },
        joined_tools=2,
        inferred_agents=1,
        resumes=[(paths["kimi"], "-c", "-p", SECOND_QUESTION)],
    )

    yield from _python_programs(tools)
    goose = _goose(tools)
    yield Program(
        "goose",
        f"@aaif/{goose.parts[-3]}",
        (str(goose), "run", "-t", QUESTION),
        _with_agent(
            Call("shell", {"command": "echo sunny"}),
            Call("delegate", {"instructions": "Weather in Tokyo?"}),
        ),
        {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "gpt-4o",
            "GOOSE_DISABLE_KEYRING": "1",
            "OPENAI_HOST": "{url}/",
        },
        joined_tools=2,
        inferred_agents=1,
        resumes=[(str(goose), "run", "-r", "-t", SECOND_QUESTION)],
    )
    yield from _own_addresses(tools)


def _own_addresses(tools: Path) -> Iterator[Program]:
    """Yield the programs that read addresses from their own files alone."""
    directory = tools / "node_modules" / ".bin"
    model = {"model": "m", "displayName": "m", "baseUrl": "{url}/v1", "apiKey": "k", "maxOutputTokens": 1000}
    model |= {"provider": "generic-chat-completion-api"}
    look = {"command": "echo sunny", "summary": "look", "riskLevel": "low", "riskLevelReason": "It reads nothing."}
    yield Program(
        "Droid",
        "droid",
        (str(directory / "droid"), "exec", "--auto", "high", "-m", "custom:m", QUESTION),
        _calls(Call("Execute", look)),
        {"FACTORY_API_KEY": "fk-x"},
        files={".factory/settings.json": json.dumps({"customModels": [model]})},
        joined_tools=1,
        why_not_resumed="`droid exec -s` exits with 1, without the proxy too",
        has_own_address=True,
    )
    settings = {"provider": "openai-native", "apiKey": "k", "model": "m", "baseUrl": "{url}/v1"}
    login = {"settings": settings, "updatedAt": "2026-12-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": "openai-native", "providers": {"openai-native": login}}
    yield Program(
        "Cline",
        "cline",
        (str(directory / "cline"), QUESTION),
        _calls(Call("run_commands", {"commands": ["echo sunny"]})),
        files={".cline/data/settings/providers.json": json.dumps(providers)},
        joined_tools=1,
        why_not_resumed="it resumes sessions only in a terminal",
        has_own_address=True,
    )


def _goose(tools: Path) -> Path:
    """Return the program goose, whose package has the name of the system in its own."""
    packages = tools / "node_modules" / "@aaif"
    return next(packages.glob("goose-binary-*/bin/goose"), packages / "goose-binary" / "bin" / "goose")


def _python_programs(tools: Path) -> Iterator[Program]:
    """Yield the programs with an environment of their own."""
    aider = "--yes-always --no-git --no-check-update --no-show-model-warnings --no-show-release-notes --no-analytics"
    yield Program(
        "aider",
        "aider-chat",
        (str(tools / "aider" / "bin" / "aider"), "--model", "openai/gpt-4o", *aider.split(), "-m", "Weather?"),
        lambda *_: DONE,
    )
    yield Program(
        "mini-swe-agent",
        "mini-swe-agent",
        (
            *(str(tools / "mini-swe-agent" / "bin" / "mini"), "-y", "--exit-immediately", "-m", "openai/gpt-4o"),
            *("-t", QUESTION, "-o", "mini.traj.json"),
        ),
        _mini,
        {"MSWEA_CONFIGURED": "true"},
        is_patient=True,
    )
    yield Program(
        "OpenHands",
        "openhands",
        (
            *(str(tools / "openhands" / "bin" / "openhands"), "--headless", "--override-with-envs"),
            *("-t", QUESTION),
        ),
        _calls(Call("terminal", {"command": "echo sunny", "security_risk": "LOW", "summary": "look"})),
        {
            "LLM_API_KEY": "k",
            "LLM_BASE_URL": "{url}/v1",
            "LLM_MODEL": "openai/gpt-4o",
            "LOG_LEVEL": "CRITICAL",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
        joined_tools=1,
        is_patient=True,
    )


def model_of(program: Program) -> Model:
    """Return the model of a program: each answer depends on the request alone."""
    return Model(lambda turn: program.says(turn.path, turn.body))


def answer_of(model: Model, request: Request) -> Answer:
    """Return the answer to a request of a program, which may also count tokens or ask for a websocket."""
    if "upgrade" in request.headers:
        return whole(b"{}", 426)
    if request.path.partition("?")[0].endswith("count_tokens"):
        return whole(b'{"input_tokens": 10}')
    if "/v1internal:" in request.path:
        return _code_assist_answer(model, request)
    return model(request)


def _code_assist_answer(model: Model, request: Request) -> Answer:
    """Return the answer of Code Assist: Gemini's in an envelope, or the project and the tier of the user."""
    method = request.path.partition("?")[0].rpartition(":")[2]
    if not method.endswith("enerateContent"):
        return whole(b'{"currentTier": {"id": "standard-tier"}, "cloudaicompanionProject": "p"}')
    body = json.loads(request.body)
    path = f"/v1beta/models/{body['model']}:{method}"
    answer = model(Request(path, request.headers, json.dumps(body["request"]).encode()))
    [data] = answer.chunks
    assert isinstance(data, bytes)
    if method == "generateContent":
        return whole(b'{"response":%b,"traceId":"t"}' % data)
    wrapped = re.sub(rb"^data: (.*?)(\r?)$", rb'data: {"response":\1,"traceId":"t"}\2', data, flags=re.MULTILINE)
    return whole(wrapped, media="text/event-stream")


def environment_of(program: Program, url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a program whose provider is at `url`. It gets a home directory."""
    own = {name: value.replace("{url}", url) for name, value in program.environment.items()}
    environment = {**os.environ, **addresses(url), **own, "HOME": str(home)}
    for name, text in program.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text.replace("{url}", url))
    environment |= {"PYTHONPATH": str(ROOT), "CODEX_HOME": str(home), "XDG_DATA_HOME": str(home), "NO_COLOR": "1"}
    return [*program.command], environment


def run(  # noqa: PLR0913 - a program, its provider and its place
    program: Program,
    url: str,
    place: Path,
    home: Path,
    *,
    prefix: Sequence[str] = (),
    command: Sequence[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program, or another `command` of it, whose provider is at `url`. Return how it ended."""
    words, environment = environment_of(program, url, home)
    return subprocess.run(
        [*prefix, *(command or words)],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def by_proxy(runs: Path, *options: str) -> tuple[str, ...]:
    """Return the words before a command that record it by the proxy."""
    return (sys.executable, "-m", "trace_recorder", "proxy", "--quiet", *options, "--directory", str(runs), "--")


def is_same(name: str, compared: Callable[[], str]) -> bool:
    """Compare two values, print a line with the result, and return whether they are equal."""
    try:
        print(f"- {name}: {compared()}", flush=True)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"- {name}: DIFFERS: {str(error)[:3000]}", flush=True)
        return False
    return True
