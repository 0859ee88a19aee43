"""Real programs of other languages, with and without the proxy, against a provider with the answers of this file.

    python -m tests.proxy.programs DIRECTORY [NAME…]        # `nox -s programs` makes the directory

The directory has node_modules, and an environment for each program in Python, such as `aider/bin/aider`.

Each program must have the same exit code and output as without the proxy. Each request and each answer must be recorded
byte for byte. The runs, calls and sub-agents are counted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from examples.demo.policy import Action, Call
from tests.processes import ROOT
from tests.provider import Answer, Request, serving, whole
from tests.scripted_model import Model, Sent, addresses
from trace_recorder import load
from trace_recorder.values.trajectory import Trajectory

VOLATILE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b|\b\d{9,}\b|\d{4}-\d\d-\d\dT[\d:.]+Z?|\d+(?:\.\d+)?\s?m?s\b|/tmp/\S+"
)
"""The texts that differ between two runs of a program: ids, times, durations, temporary directories."""
LIMIT_SECONDS = 400
"""OpenHands first tries several times to fetch its skills, which takes minutes without a network."""
DONE = Action("Done.", "It is sunny in Tokyo.")


@dataclass(frozen=True)
class Program:
    """A program: its command, the model's answer to each of its requests, and its environment variables."""

    name: str
    command: Sequence[str]
    says: Callable[[str, dict[str, Any]], Action]
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Files in the program's home directory. `{url}` in a file becomes the provider's address."""
    joined_tools: int = 0
    """How many tools the program's own session file has, which `--join` adds."""
    agents: int = 0
    """How many sub-agents the program names in its requests."""
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
    codex = ("exec", "--skip-git-repo-check", "-m", "gpt-5", "What is the weather?")
    opencode = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(
            {
                "model": "openai/gpt-4o",
                "small_model": "openai/gpt-4o",
                "provider": {"openai": {"options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "k"}}},
            }
        )
    }
    yield Program("curl", ("sh", "-c", CURL), weather)
    yield Program("openai, Node", ("node", "openai.mjs"), weather)
    yield Program("anthropic, Node", ("node", "anthropic.mjs"), weather)
    yield Program(
        "Claude Code",
        (paths["claude"], "-p", "What is the weather?", "--allowedTools", "Bash", "Agent", "Task"),
        _claude,
        quiet,
        joined_tools=2,
        agents=1,
    )
    yield Program(
        "Codex",
        (paths["codex"], *codex),
        _calls(Call("exec_command", {"cmd": "echo sunny"})),
        files={"auth.json": '{"OPENAI_API_KEY": "k"}', "config.toml": 'openai_base_url = "{url}/v1"'},
        joined_tools=1,
    )
    yield Program(
        "Gemini CLI",
        (paths["gemini"], "-p", "What is the weather?", "--yolo", "--skip-trust", "-m", "gemini-2.5-flash"),
        _calls(Call("run_shell_command", {"command": "echo sunny"})),
        files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
        joined_tools=1,
    )
    yield Program(
        "Qwen Code",
        (paths["qwen"], "-p", "What is the weather?", "--yolo", "--auth-type", "openai", "-m", "m"),
        _calls(Call("run_shell_command", {"command": "echo sunny", "is_background": False})),
        joined_tools=1,
    )
    yield Program(
        "opencode",
        (paths["opencode"], "run", "What is the weather?"),
        _with_agent(
            Call("bash", look),
            Call("task", {"description": "Look", "prompt": "Weather in Tokyo?", "subagent_type": "general"}),
        ),
        opencode,
        joined_tools=2,
        agents=1,
    )
    yield Program(
        "Copilot CLI",
        (paths["copilot"], "-p", "What is the weather?", "--allow-all-tools"),
        _with_agent(
            Call("bash", look),
            Call(
                "task",
                {
                    "description": "Look",
                    "prompt": "Weather in Tokyo?",
                    "agent_type": "general-purpose",
                    "name": "looker",
                    "mode": "sync",
                },
            ),
        ),
        {
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": "gpt-5",
        },
        joined_tools=2,
        agents=1,
    )
    own = {"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "k", "models": [{"id": "m"}]}
    yield Program(
        "pi",
        (paths["pi"], "-p", "What is the weather?", "--provider", "own", "--model", "m"),
        _calls(Call("bash", {"command": "echo sunny"})),
        files={".pi/agent/models.json": json.dumps({"providers": {"own": own}})},
        joined_tools=1,
    )
    yield Program(
        "Kimi Code",
        (paths["kimi"], "-p", "What is the weather?"),
        _calls(Call("Bash", {"command": "echo sunny"})),
        files={
            ".kimi-code/config.toml": 'default_model = "loc"\nproviders.loc = {type = "openai", api_key = "k"}\n'
            'models.loc = {provider = "loc", model = "m", max_context_size = 100000}\n'
        },
        joined_tools=1,
    )

    yield from _python_programs(tools)
    yield Program(
        "goose",
        (str(_goose(tools)), "run", "-t", "What is the weather?"),
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
    )


def _goose(tools: Path) -> Path:
    """Return the program goose, whose package has the name of the system in its own."""
    packages = tools / "node_modules" / "@aaif"
    return next(packages.glob("goose-binary-*/bin/goose"), packages / "goose")


def _python_programs(tools: Path) -> Iterator[Program]:
    """Yield the programs with an environment of their own."""
    aider = "--yes-always --no-git --no-check-update --no-show-model-warnings --no-show-release-notes --no-analytics"
    yield Program(
        "aider",
        (str(tools / "aider" / "bin" / "aider"), "--model", "openai/gpt-4o", *aider.split(), "-m", "Weather?"),
        lambda *_: DONE,
    )
    yield Program(
        "mini-swe-agent",
        (
            *(str(tools / "mini-swe-agent" / "bin" / "mini"), "-y", "--exit-immediately", "-m", "openai/gpt-4o"),
            *("-t", "What is the weather?", "-o", "mini.traj.json"),
        ),
        _mini,
        {"MSWEA_CONFIGURED": "true"},
        is_patient=True,
    )
    yield Program(
        "OpenHands",
        (
            *(str(tools / "openhands" / "bin" / "openhands"), "--headless", "--override-with-envs"),
            *("-t", "What is the weather?"),
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


def _run(program: Program, place: Path, prefix: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], list[Sent]]:
    """Run a program. Return its end, and its exchanges with the model."""
    home, model = Path(tempfile.mkdtemp(dir=place)), model_of(program)
    with serving(partial(answer_of, model)) as server:
        words, environment = environment_of(program, server.url, home)
        process = subprocess.run(
            [*prefix, *words],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    return process, model.sent


def compare(program: Program, place: Path) -> str:
    """Run a program with and without the proxy. Return the compared values. Raises AssertionError if they differ."""
    plain, without = _run(program, place, ())
    runs = Path(tempfile.mkdtemp(dir=place))
    join = ["--join"] if program.joined_tools else []
    prefix = (sys.executable, "-m", "trace_recorder", "proxy", "--quiet", *join, "--directory", str(runs), "--")
    recorded, exchanges = _run(program, place, prefix)
    assert exchanges, f"{program.name} asked no model: {plain.stderr[-500:]} {recorded.stderr[-500:]}"
    assert recorded.returncode == plain.returncode, (recorded.returncode, plain.returncode, recorded.stderr[-500:])
    assert VOLATILE.sub("*", recorded.stdout) == VOLATILE.sub("*", plain.stdout), (recorded.stdout, plain.stdout)
    trajectories = [load(path) for path in sorted(runs.glob("*.json"))]
    calls = [call for trajectory in trajectories for call in trajectory.llm_interactions]
    assert sorted(map(_key, _on_file(calls))) == sorted(_key((sent.body, sent.answer)) for sent in exchanges)
    for trajectory in trajectories if join else ():
        _check_joined(trajectory, program.joined_tools)
    agents = {call.agent_id for call in calls} - {None}
    assert len(agents) == program.agents, agents
    versions = (
        f"{len(trajectories)} run, {len(calls)} calls ({len(without)} without the proxy), {len(agents)} sub-agents"
    )
    return f"{versions}, exit code {recorded.returncode}"


def _check_joined(run: Trajectory, tools: int) -> None:
    """Check that a run has the time of each tool from the session file, and that nothing there disagrees."""
    assert run.gaps == (), run.gaps
    results = [result for step in run.agent_steps for result in step.tool_results]
    assert [result.duration_seconds is not None for result in results] == [True] * tools, results
    assert run.annotations["joined_from"]["tools"] == tools


def _on_file(calls: Sequence[Any]) -> Iterator[tuple[Any, bytes]]:
    for call in calls:
        answer = call.raw_stream or json.dumps(call.raw_response)
        yield call.raw_request, answer.encode()


def _key(pair: tuple[Any, bytes]) -> tuple[str, str]:
    body, answer = pair
    return json.dumps(body, sort_keys=True), answer.decode()


def is_same(name: str, compared: Callable[[], str]) -> bool:
    """Compare two values, print a line with the result, and return whether they are equal."""
    try:
        print(f"- {name}: {compared()}", flush=True)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"- {name}: DIFFERS: {str(error)[:3000]}", flush=True)
        return False
    return True


def main(tools: Path, names: Sequence[str]) -> int:
    """Compare all programs, or those with these names, and print a line for each."""
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for program in programs(tools.absolute(), place):
            if names and program.name not in names:
                continue
            if shutil.which(program.command[0]) is None:
                print(f"- {program.name}: not installed")
                continue
            failed += not is_same(program.name, partial(compare, program, place))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
