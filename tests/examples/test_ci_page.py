"""The page docs/ci.md: its commands run in its order, `check` prints what the page shows, and its files are valid."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.invoking import invoke
from tests.examples.environment import ONLY_OUR_PLUGIN, environment
from tests.processes import ROOT
from tests.provider import Answer, Request, serving
from trace_recorder.figures.gate import rules_file
from trace_recorder.figures.gate.rules_file import read_rules

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
PYTEST, REPLAY, RECORD, CHECK = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
[SHOWN] = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
[RULES] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
[WORKFLOW] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
AGENT = """
import os, httpx

def run():
    messages = [{"role": "system", "content": os.environ.get("SYSTEM", "Answer briefly.")}]
    messages.append({"role": "user", "content": "Which colour has sencha?"})
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    while True:
        answer = httpx.post(url, json={"model": "m", "messages": messages}).json()["choices"][0]["message"]
        if not answer["tool_calls"]:
            return answer["content"]
        messages.append(answer)
        for call in answer["tool_calls"]:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "Sencha is a green tea."})

if __name__ == "__main__":
    print(run())
"""
TEST = """
import pytest
from agent import run

@pytest.mark.trajectory
def test_tea():
    assert run() == "It is green."
"""


def answer_to(request: Request) -> Answer:
    """Search once, or twice if the answer is to be long, and then answer."""
    messages = json.loads(request.body)["messages"]
    results = [message for message in messages if message["role"] == "tool"]
    message: dict[str, Any] = {"role": "assistant", "content": "It is green.", "tool_calls": []}
    if len(results) < 1 + ("length" in messages[0]["content"]):
        function = {"name": "search", "arguments": '{"query": "sencha"}'}
        calls = [{"id": f"call_{len(results)}", "type": "function", "function": function}]
        message |= {"content": None, "tool_calls": calls}
    usage = {"prompt_tokens": 25, "completion_tokens": 5, "total_tokens": 30}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return Answer([json.dumps(body).encode()])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A directory with the agent of the page's reader, a test of it, and an environment with a provider."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "test_agent.py").write_text(TEST)
    with serving(answer_to) as server:
        yield tmp_path, environment(server.url, tmp_path) | ONLY_OUR_PLUGIN


def run(place: tuple[Path, dict[str, str]], commands: str, **variables: str) -> tuple[int, str]:
    """Run commands until one fails. Return the last exit code, and what `trace-recorder` printed.

    `trace-recorder` runs in this process, and starts programs. Other commands are run by a shell.
    """
    path, surroundings = place
    code, printed = 0, ""
    for line in commands.splitlines():
        words = shlex.split(line)
        if code == 0 and words[0] == "trace-recorder":
            with chdir(path):
                done = invoke(*words[1:], environment=surroundings | variables)
            code, printed = done.exit_code, printed + done.output
        elif code == 0:
            code = subprocess.run(["sh", "-c", line], cwd=path, env=surroundings | variables, check=False).returncode
    return code, printed


def test_the_commands_run_in_the_order_of_the_page(place: tuple[Path, dict[str, str]]) -> None:
    """The golden run is recorded, live runs agree with it, and a changed agent differs, as the page shows. Replays need
    no provider.
    """
    path, surroundings = place
    recorded, gate = run(place, RECORD), run(place, CHECK)
    (path / "changed").mkdir()
    changing = "trace-recorder run -q --trajectory-file changed/tea.json -- python agent.py"
    changed = run(place, changing, SYSTEM="Answer at length.")
    command, shown = SHOWN.removeprefix("$ ").split("\n", 1)
    compared = run(place, command)
    first_test = run(place, "pytest -q")
    surroundings["OPENAI_BASE_URL"] = surroundings["OPENAI_BASE_URL"].replace("127.0.0.1", "nowhere.invalid")
    replayed = [run(place, block)[0] for block in (PYTEST, REPLAY)]

    assert (recorded[0], "search" in recorded[1], changed[0]) == (0, True, 0), recorded[1]
    assert (gate[0], gate[1].splitlines()[-1]) == (0, "1 of 1 task ok"), gate[1]
    assert ((path / "report.xml").exists(), (path / "summary.md").exists()) == (True, True)
    assert (compared[0], f"{compared[1]}[exit code 1]\n") == (1, shown)
    assert (first_test[0], replayed) == (0, [0, 0])


def keys_on_the_page() -> set[str]:
    """Return the keys in the first column of the table of rules."""
    section = PAGE.partition("## Rules")[2].partition("\n## ")[0]
    keys = set()
    for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        names = re.findall(r"`([\w.]+)`", cell)
        keys |= {name if not name.startswith(".") else names[0].partition(".")[0] + name for name in names}
    return keys


def test_the_rules_of_the_page_are_valid(tmp_path: Path) -> None:
    """The example has no mistake, and the table has every key."""
    (tmp_path / "check.toml").write_text(RULES)
    tables = {f"{table}.{key}" for table, (_, readers) in rules_file.TABLES.items() for key in readers}
    top = rules_file.TOP_KEYS.keys() - rules_file.TABLES.keys()

    assert read_rules(tmp_path / "check.toml").passing.runs == 3
    assert keys_on_the_page() == tables | top


def test_the_workflow_uses_the_action_as_it_is() -> None:
    """The workflow gives the action its inputs, and runs commands of the page."""
    workflow = yaml.safe_load(WORKFLOW)
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    [action] = [step for step in steps if step.get("uses", "").startswith("OWNER/")]
    commands = [step["run"] for step in steps if "run" in step]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.partition("## On GitHub")[2], re.MULTILINE)

    assert action["with"].keys() <= inputs.keys()
    assert {name for row in rows for name in re.findall(r"\w+", row)} == inputs.keys()
    assert commands[1] == PYTEST.strip()
    assert CHECK.partition("\n")[0] in commands[3]
    assert [command.split()[0] for command in commands] == ["pip", "pytest", "pip", "for", "gh"]
