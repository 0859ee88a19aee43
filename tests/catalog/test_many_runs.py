"""Many runs: the index, the commands and `where=` give the same as a plain loop. `nox -s many_runs` has 2,000."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks import varied_runs
from benchmarks.varied_runs import RARE_WORD, make_variants
from tests.catalog.many_runs import settle
from tests.cli.invoking import invoke
from trace_recorder import Trajectory, load_all, open_index
from trace_recorder.figures.stats import Stats
from trace_recorder.values.messages import Payload

RUNS = int(os.environ.get("TRACE_RECORDER_MANY_RUNS", "200"))
ORIGINALS = 20
QUERIES: dict[str, Callable[[Trajectory, str], bool]] = {
    RARE_WORD: lambda _, text: RARE_WORD in text,
    '"exit code 17"': lambda _, text: "exit code 17" in text,
    "is:failed tool:bash>1": lambda run, _: (
        (run.status == "failed" or run.success is False)
        and sum(call.name == "bash" for step in run.agent_steps for call in step.tool_calls) > 1
    ),
    "-model:claude tokens>1500": lambda run, _: (
        not any("claude" in str(call.model) for call in run.llm_interactions)
        and run.metrics["total_input_tokens"] + run.metrics["output_tokens"] > 1500
    ),
    "reward:solved>0.5 since:2000-01-01": lambda run, _: any(reward.value > 0.5 for reward in run.rewards),
    "meta:seed=3 status:completed": lambda run, _: run.metadata["seed"] == 3 and run.status == "completed",
}


@dataclass
class Loop:
    """The answers of a plain loop, to which runs are added one at a time."""

    paths: dict[str, list[Path | None]] = field(default_factory=lambda: {query: [] for query in QUERIES})
    tasks: dict[str, str | None] = field(default_factory=dict)
    stats: Stats = field(default_factory=Stats)

    def add(self, run: Trajectory) -> None:
        """Add a run."""
        results = [str(result.result) for step in run.agent_steps for result in step.tool_results]
        sent = [str(message.content) for call in run.llm_interactions for message in call.input_messages]
        for query, is_match in QUERIES.items():
            if is_match(run, "\n".join(results + sent)):
                self.paths[query].append(run.path)
        self.tasks[str(run.path)] = run.task
        self.stats.add(run)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write variants of a few recorded runs to two directories, with an index."""
    place = tmp_path_factory.mktemp("many")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(varied_runs, "RUNS_PER_DIRECTORY", RUNS // 2)
        for number in range(ORIGINALS):
            make_variants(place, RUNS, ORIGINALS, number)
    settle(place)
    assert open_index(place).update().runs == RUNS
    return place


@pytest.fixture(scope="module")
def loop(directory: Path) -> Loop:
    """Return the answers of the loop."""
    loop = Loop()
    for run in load_all(directory):
        loop.add(run)
    return loop


def test_find_gives_the_same_as_the_loop(directory: Path, loop: Loop) -> None:
    """With an index, each kind of term finds the same runs as the loop, and `where=` loads them."""
    for query, expected in loop.paths.items():
        result = invoke("find", "--paths", "--", query, directory)
        assert sorted(map(Path, result.stdout.split())) == sorted(path for path in expected if path), query
        assert 0 < len(expected) < RUNS, query
    assert [run.path for run in load_all(directory, where=RARE_WORD)] == loop.paths[RARE_WORD]


def test_commands_give_the_same_as_the_loop(directory: Path, loop: Loop) -> None:
    """`list` has each run, `stats` the figures of the loop, and `grep` the files of the loop."""
    listed = json.loads(invoke("list", directory, "--json").stdout)
    counted = json.loads(invoke("stats", directory, "--json").stdout)
    named = invoke("grep", "-i", "-l", f"{RARE_WORD.upper()}$", directory).stdout.split()

    assert listed["others"] == []
    assert {row["path"]: row["task"] for row in listed["trajectories"]} == loop.tasks
    assert counted.pop("unreadable") == 0
    assert counted == about_equal(json.loads(json.dumps(loop.stats.to_json())))
    assert [*map(Path, named)] == loop.paths[RARE_WORD]


def about_equal(value: Payload) -> Any:
    """Return a value that equals JSON with nearly the same sums, whose order depends on the processes.

    A mean is rounded to microseconds, so it may differ by one microsecond.
    """
    if isinstance(value, dict):
        return {name: about_equal(part) for name, part in value.items()}
    if isinstance(value, list):
        return [about_equal(part) for part in value]
    return pytest.approx(value, abs=1.5e-6) if isinstance(value, float) else value


def test_only_changed_runs_are_read_for_an_answer(directory: Path, loop: Loop) -> None:
    """An answer reads the runs that changed since the last update, and no run right after an update."""
    path = loop.paths[RARE_WORD][0]
    assert path is not None
    path.write_bytes(path.read_bytes())

    result = invoke("find", RARE_WORD, directory, "--paths")
    settle(path.parent)
    update = open_index(directory).update()

    assert sorted(map(Path, result.stdout.split())) == sorted(path for path in loop.paths[RARE_WORD] if path)
    assert f"read 1 run of {RUNS}: " in result.stderr
    assert (update.runs, update.read) == (RUNS, RUNS // 2)
