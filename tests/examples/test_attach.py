"""The page docs/attach.md: every block of code runs unchanged, and leaves the files that the page names."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.examples.attach_page import PAGE, blocks
from tests.examples.environment import environment
from tests.journals import records_of
from tests.processes import OPENAI_RECORDS, in_forks
from tests.provider import CHAT, plain, serving
from trace_recorder import load

[AGENT] = re.findall(r"```python\n(.*?)```", PAGE.partition("\n## ")[0], re.DOTALL)
CALLING = f"import openai\n{AGENT}run_my_agent(openai.OpenAI())\n"
BEFORE = {
    "Trae Agent": "config = None\n",
    "Trae Agent (2)": "config = None\n",
}
"""Maps the heading of a block to the code that the block needs in addition to an agent."""
CALLS = {
    "Wrap a client": {"fix the failing test": 1},
    "Follow the context": {"first": 1, "second": 1},
    "Follow the context (2)": {"what is tea?": 0},
    "Steps, tools and sub-agents": {"What is 17 * 23?": 1},
    "Record calls by hand": {"How many files are here?": 1},
    "Give a framework an HTTP client": {None: 1},
    "Instrument the process": {"fix the failing test": 1},
    "Threads and executors": {"another run, at the same time": 0, "three calls at once": 3},
    "Processes": {"the parent": 0, "another": 0, "the child": 0},
    "Trae Agent": {"fix the failing test": 3},
    "Trae Agent (2)": {"fix the failing test": 3},
}
"""The tasks of a block's runs, and how many calls each has."""


def test_every_block_is_run() -> None:
    """The tests know every Python block of the page, and the page has one block of commands."""
    assert (blocks("python").keys(), list(blocks("sh"))) == (CALLS.keys(), ["Run it from outside"])


@dataclass(frozen=True)
class Done:
    """A block that has run: its process, and its directory."""

    process: subprocess.CompletedProcess[str]
    place: Path

    def runs(self) -> dict[str | None, Path]:
        """Return the files of the block's runs by their task."""
        paths = [*self.place.glob("trajectories/*.json")]
        by_task = {load(path).task: path for path in paths}
        assert len(by_task) == len(paths)
        return by_task


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """Run each block in a process and a directory of its own."""
    places = {heading: tmp_path_factory.mktemp("block") for heading in CALLS}
    code = blocks("python")
    programs = {name: (BEFORE.get(name, AGENT) + code[name], place) for name, place in places.items()}
    with serving(plain(CHAT)) as server:
        surroundings = environment(server.url, tmp_path_factory.mktemp("commands"))
        ended = in_forks(programs, OPENAI_RECORDS, surroundings)
    return {heading: Done(ended[heading], place) for heading, place in places.items()}


@pytest.mark.parametrize("heading", CALLS)
def test_a_block_records_its_calls(heading: str, done: dict[str, Done]) -> None:
    """Each block runs without output on stderr, and its calls are recorded."""
    block = done[heading]

    assert (block.process.returncode, block.process.stderr) == (0, "")
    assert {task: len(load(path).llm_interactions) for task, path in block.runs().items()} == CALLS[heading]


def test_a_marked_loop_is_recorded_as_the_page_says(done: dict[str, Done]) -> None:
    """The step, its agent, its tool and its reflection are recorded."""
    [path] = done["Steps, tools and sub-agents"].runs().values()
    run = load(path)
    [step] = run.agent_steps
    assert (step.agent, step.reflection, [result.result for result in step.tool_results]) == (
        *("calculator", "nothing is left to compute"),
        [{"product": 391}],
    )
    assert (run.success, run.final_result) == (True, {"product": 391})


def test_the_child_names_its_parent(done: dict[str, Done]) -> None:
    """The child run of the page's example names its parent run."""
    runs = done["Processes"].runs()
    child = records_of(runs["the child"])[0].data["parent"]
    assert child == load(runs["the parent"]).trajectory_id


def test_the_commands_record_an_agent(tmp_path: Path) -> None:
    """Each command of the page records an agent in the stated directory."""
    (tmp_path / "agent.py").write_text(CALLING)
    with serving(plain(CHAT)) as server:
        done = subprocess.run(
            ["sh", "-e", "-c", blocks("sh")["Run it from outside"]],
            cwd=tmp_path,
            env=environment(server.url, tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )

    files = [path for directory in ("trajectories", "runs") for path in sorted((tmp_path / directory).glob("*.json"))]
    said = [line.rpartition(": ")[0] for line in done.stderr.splitlines()]
    assert (done.returncode, said) == (0, ["trace-recorder: recorded 1 run, 1 LLM call"] * 3)
    assert [load(path).task for path in files] == [
        *("python agent.py --its-own arguments", "fix the failing test", "python -m agent")
    ]
    assert files[1].name == "one.json"
