"""The page docs/pytest.md: every block of code is run twice, the second time without requests to a provider."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.environment import ONLY_OUR_PLUGIN, environment
from tests.processes import ROOT
from tests.provider import Answer, serving

PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[COMMANDS] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
AGENT = """
import json, os, sys
sys.modules["httpx._main"] = None  # httpx's own command line takes half of the time that its import takes
import httpx
from trace_recorder import tool

@tool
def search(query):
    return "Sencha is a green tea."

def run_my_agent(question):
    messages = [{"role": "user", "content": question}]
    with httpx.Client(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        def ask():
            answer = client.post("/chat/completions", json={"model": "m", "messages": messages}).raise_for_status()
            return answer.json()["choices"][0]["message"]
        asked = ask()
        call = asked["tool_calls"][0]
        found = search(**json.loads(call["function"]["arguments"]))
        messages += [asked, {"role": "tool", "tool_call_id": call["id"], "content": found}]
        return ask()["content"]
"""
"""The module `my_agent` of the page's reader: an agent that searches once and then answers."""
CALL = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": "sencha"}'}}


def completion(**message: object) -> Answer:
    """Return a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return Answer([json.dumps(body).encode()])


ANSWERS = (completion(tool_calls=[CALL]), completion(content="It is green."))


def run(command: list[str], place: Path, surroundings: dict[str, str], answers: tuple[Answer, ...]) -> tuple[int, str]:
    """Run a command with a provider, and return the number of requests and the output. The command must succeed."""
    with serving(*answers) as server:
        surroundings = surroundings | ONLY_OUR_PLUGIN | {"OPENAI_BASE_URL": f"{server.url}/v1"}
        done = subprocess.run(command, cwd=place, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return len(server.requests), done.stdout


def test_the_blocks_are_recorded_and_replayed(tmp_path: Path) -> None:
    """The tests of all blocks pass twice, with requests only the first time. Each journal is at its documented path."""
    (tmp_path / "my_agent.py").write_text(AGENT)
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"test_{number}.py").write_text(block)
    tests = re.findall(r"def (test_\w+)", "".join(BLOCKS))
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", "."]
    surroundings = environment("", tmp_path)

    first, _ = run(pytest_, tmp_path, surroundings, ANSWERS * len(tests))
    second, _ = run(pytest_, tmp_path, surroundings, ANSWERS)

    assert (first, second) == (2 * len(tests), 0)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.jsonl")} == {
        "trajectories/test_0/test_sencha.jsonl",
        "trajectories/test_1/test_regression.jsonl",
        "trajectories/test_2/test_searches_once.jsonl",
        "trajectories/test_3/sencha.jsonl",  # the test `test_named` names it
        "runs/oolong.jsonl",
    }


def test_the_commands_record_once(tmp_path: Path) -> None:
    """The first command records, and the others send no request."""
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "test_sencha.py").write_text(BLOCKS[0])

    requests, said = run(["sh", "-e", "-c", COMMANDS], tmp_path, environment("", tmp_path), ANSWERS)

    assert (requests, said.count("1 passed")) == (2, 3)


def test_the_page_lists_the_fixture_s_names() -> None:
    """The table has every public name of the class, and no other name."""
    from trace_recorder.figures.assertions import TrajectoryAssertions

    section = PAGE.partition("## Ask what the agent did")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    said = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}

    assert said == {name for name in dir(TrajectoryAssertions) if not name.startswith("_")} | {"path"}
