"""The examples, run as a user runs them, against a local provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.examples.answers import CALL
from tests.provider import CHAT, plain, serving
from trace_recorder import load

ROOT = Path(__file__).parents[2]


def run(directory: Path, example: str, *arguments: str, **environment: str) -> str:
    """Run an example in a directory, and return its output."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_wrap_a_client_is_recorded(tmp_path: Path) -> None:
    """The loop's two calls, a tool with its result, and the final answer are recorded."""
    with serving(plain(CALL), plain(CHAT)) as server:
        url = f"{server.url}/v1"
        printed = run(tmp_path, "wrap_a_client.py", "Multiply", "17 and 23.", OPENAI_BASE_URL=url, OPENAI_API_KEY="k")

    trajectory = load(printed.strip())
    first, second = trajectory.agent_steps
    assert (trajectory.task, trajectory.status, trajectory.success) == ("Multiply 17 and 23.", "completed", True)
    assert [(call.name, call.arguments) for call in first.tool_calls] == [("multiply", {"a": 17, "b": 23})]
    assert [(result.call_id, result.result) for result in first.tool_results] == [("call_1", "391")]
    assert (second.state, trajectory.final_result) == ("completed", "hi")


def test_steps_and_tools_is_recorded(tmp_path: Path) -> None:
    """Two steps of an agent, the tool's object and the result for the model are recorded."""
    with serving(plain(CALL), plain(CHAT)) as server:
        url = f"{server.url}/v1"
        printed = run(tmp_path, "steps_and_tools.py", OPENAI_BASE_URL=url, OPENAI_API_KEY="k")

    trajectory = load(printed.strip())
    first, second = trajectory.agent_steps
    assert [(step.step_number, step.state, step.agent) for step in (first, second)] == [
        (1, "calling_tool", "calculator"),
        (2, "completed", "calculator"),
    ]
    assert [(result.call_id, result.result, result.sent) for result in first.tool_results] == [
        ("call_1", {"product": 391}, "It is 391.")
    ]
    assert (second.reflection, trajectory.final_result) == ("nothing is left to compute", "hi")


def test_attach_and_read_back_is_recorded(tmp_path: Path) -> None:
    """The calls that the loop records by hand are in the document, and are read back."""
    path = run(tmp_path, "attach_to_a_loop.py").strip()
    document = json.loads(Path(path).read_text(encoding="utf-8"))

    assert run(tmp_path, "read_the_files.py", path).splitlines()[1:] == [
        "  2 LLM calls, ? tokens out",
        "  tools: {'count_files': 1}",
        "  llm_1 my-model: 1 messages in, said 'I count them.'",
        "  llm_2 my-model: 3 messages in, said 'There are 3 files.'",
    ]
    assert [step["state"] for step in document["agent_steps"]] == ["calling_tool", "completed"]


def test_examples_are_short() -> None:
    """Each example has at most 40 lines."""
    lengths = {file.name: len(file.read_text().splitlines()) for file in (ROOT / "examples").glob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 40} == {}
