"""`stats --by`: docs/comparing.md shows what is printed, and long lists of groups are cut."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.data.written import Writing, asked, called, said
from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder, load_all
from trace_recorder.cli.stats_by import MAX_SHOWN
from trace_recorder.figures.groups import compare

PAGE = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(\$ trace-recorder .*?)```", PAGE, re.DOTALL)
WIDTH = "110"
TASKS = (
    "add a flag",
    "fix the test",
    "rename a class",
    "sort imports",
    "speed up",
    "type hints",
    "update docs",
    "write a test",
)


def write(path: Path, task: str, model: str, number: int) -> None:
    """Write a run of a model. The larger model costs more, and succeeds more often."""
    is_large = model == "large"
    ask, ls = {"role": "user", "content": task}, called("call_1", "bash", command="ls")
    tokens = 2000 + 700 * number + 150 * is_large
    cost = round(tokens * (0.00001 if is_large else 0.000002), 6)
    usage = {"prompt_tokens": tokens, "completion_tokens": 40 + 5 * number, "cost": cost}
    writing = Writing(path, task=task, provider="openai", model=model, metadata={"prompt": f"v{number % 2 + 1}"})
    writing.request(1, asked(ask, model=model))
    writing.response(1, body=said(None, ls, usage=usage, model=model))
    result = {"role": "tool", "tool_call_id": "call_1", "content": "a.py"}
    writing.request(2, asked(ask, {"role": "assistant", "content": None, "tool_calls": [ls]}, result, model=model))
    writing.response(2, body=said("Done.", usage=usage, model=model))
    success = number % (8 if is_large else 2) != 1
    writing.add("finalize", status="completed", success=success, final_result="Done.", execution_time=8.0 + number)
    writing.journal.close()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the runs of the page, and set a terminal's width."""
    directory = tmp_path / "runs"
    directory.mkdir()
    for number, task in enumerate(TASKS):
        for model in ("large", "small"):
            write(directory / f"{model}{number}.jsonl", task, model, number)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield directory
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block).partition("\n")[0])
def test_a_command_prints_what_the_page_shows(runs: Path, block: str) -> None:
    """Each command prints the whole output of its block on the page."""
    command, _, shown = block.partition("\n")
    _, _, *arguments = shlex.split(command)

    assert invoke(*arguments).output == shown


def test_the_page_s_python_prints_what_the_page_says(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example in Python runs, and prints the line in its comment."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})

    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", code, re.MULTILINE)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Return a directory with more tasks than are printed. Some runs are replays, or are not judged."""
    for number in range(MAX_SHOWN + 3):
        with TrajectoryRecorder(tmp_path / f"{number}.json", task=f"task {number:02}\n\x1b[31m") as recorder:
            recorder.annotate("number", number)
    recorded(tmp_path / "replay.json", metadata={"replay_of": {"trajectory_id": "t", "file": "a.json"}})
    return tmp_path


def test_long_lists_of_groups_are_cut(many: Path) -> None:
    """The first groups are printed with the number of the others, on lines of their own; JSON has all."""
    lines = invoke("stats", many, "--by", "task").stdout.splitlines()
    crossed = invoke("stats", many, "--by", "status", "--by", "task").stdout
    facts = json.loads(invoke("stats", many, "--by", "task", "--json").stdout)

    assert lines[0] == f"{MAX_SHOWN + 3} runs by task"
    assert "left out: 1 replay" in lines
    assert sum(line.startswith(("task 0", "task 1")) for line in lines) == 2 * MAX_SHOWN - 1
    assert lines[-1] == "task: 3 more groups are in --json"
    assert crossed.splitlines()[-1] == lines[-1]
    assert "\x1b" not in crossed
    assert "none judged" in lines[6]
    assert [len(facts["groups"]), len(facts["differences"]), facts["unreadable"]] == [MAX_SHOWN + 3, MAX_SHOWN + 2, 0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "modl"], "runs cannot be grouped by 'modl'"),
        (["--by", "model", "--by", "model"], "one grouping, or by two different ones"),
        (["--against", "x"], "it needs --by"),
    ],
)
def test_wrong_options_are_misuse(tmp_path: Path, words: list[str], message: str) -> None:
    """A grouping that does not exist is refused before a run is read, with exit code 2."""
    result = invoke("stats", recorded(tmp_path / "a.json"), *words)

    assert (result.exit_code, message in " ".join(result.stderr.split())) == (2, True)


def test_an_unknown_reference_names_the_groups(runs: Path) -> None:
    """The sentence lists the groups that there are."""
    result = invoke("stats", runs, "--by", "model", "--against", "huge")

    assert result.exit_code == 1
    assert result.stderr.endswith(
        "no run has the model 'huge' to compare with; the groups are 'openai/large', 'openai/small'\n"
    )


def test_the_command_has_the_numbers_of_python(runs: Path) -> None:
    """`--json` is `to_json` of the comparison in Python."""
    facts = json.loads(invoke("stats", runs, "--by", "meta:prompt", "--by", "model", "--json").stdout)

    assert facts == compare(load_all(runs), by=["meta:prompt", "model"]).to_json() | {"unreadable": 0}
