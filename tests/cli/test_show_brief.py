"""`show --brief` prints one line for each step, and `--step` takes ranges, for every form of `show`."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from tests.chat_calls import asked, call, said
from tests.cli.invoking import invoke
from tests.counting import calls
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.cli.show_brief import brief_lines
from trace_recorder.figures.conversations.run_agents import run_agents_of
from trace_recorder.reading.steps_and_calls import steps_and_calls


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps: the third is a sub-agent's, the fourth has a tool that fails, the sixth fails."""
    path = tmp_path_factory.mktemp("brief") / "run.json"
    history = []
    with TrajectoryRecorder(path, task="count") as recorder:
        for number in range(1, 6):
            history.append({"role": "user", "content": f"question {number}"})
            tools = [{"id": f"c{number}", "name": "bash", "arguments": {"command": f"ls -la {number}"}}]
            usage = {"input_tokens": 10_000 * number, "output_tokens": 5}
            answer = {"content": f"answer {number}\nof two lines", "tool_calls": tools, "usage": usage}
            with recorder.agent("sub") if number == 3 else nullcontext():
                recorder.record_llm_interaction(history, answer, "openai", "gpt-4o")
                with suppress(OSError), recorder.tool_call("bash", {"command": f"ls -la {number}"}, f"c{number}"):
                    if number == 4:
                        raise OSError("no such file")
        recorder.record_llm_interaction(history, ValueError("refused\x1b[31m"), "openai", "gpt-4o")
    return path


def brief(*arguments: object) -> list[str]:
    """Return the lines of `show --brief`. Calls that are recorded by hand have no durations."""
    return invoke("show", "--brief", *arguments).output.splitlines()


def test_each_step_is_one_line(run: Path) -> None:
    """A line has the number, the agent, the model, the tokens, the tools and the first words."""
    assert brief(run, "--step", "1-") == [
        "step  agent  model    in  out  tools                  answer",
        "1            gpt-4o  10k    5  bash ls -la 1: ok      answer 1 of two lines",
        "2            gpt-4o  20k    5  bash ls -la 2: ok      answer 2 of two lines",
        "3     sub    gpt-4o  30k    5  bash ls -la 3: ok      answer 3 of two lines",
        "4            gpt-4o  40k    5  bash ls -la 4: failed  answer 4 of two lines",
        "5            gpt-4o  50k    5  bash ls -la 5: ok      answer 5 of two lines",
        "6            gpt-4o                                   error: ValueError: refused\\x1b[31m",
    ]


def test_the_header_comes_first_unless_steps_are_chosen(run: Path) -> None:
    whole, chosen = brief(run), brief(run, "--step", "-99")
    assert whole[0] == "run.json"
    assert whole[-len(chosen) :] == chosen


@pytest.mark.parametrize(
    ("steps", "numbers"),
    [("3", [3]), ("2-4", [2, 3, 4]), ("5-", [5, 6]), ("-2", [1, 2]), ("6, 1,2-3", [1, 2, 3, 6]), ("4-99", [4, 5, 6])],
)
def test_ranges_choose_steps_in_every_form(run: Path, steps: str, numbers: list[int]) -> None:
    """Text, `--brief`, `--json` and both have the same steps, in the order of the run."""
    headings = [line for line in invoke("show", run, "--step", steps).output.splitlines() if line.startswith("step ")]
    document = json.loads(invoke("show", run, "--step", steps, "--json").output)
    brief_steps = json.loads(invoke("show", run, "--step", steps, "--json", "--brief").output)

    assert [int(line.split()[1].rstrip(",")) for line in headings] == numbers
    assert [int(line.split()[0]) for line in brief(run, "--step", steps)[1:]] == numbers
    assert [step["step_number"] for step in document["agent_steps"]] == numbers
    assert [step["step_number"] for step in brief_steps] == numbers
    whole = json.loads(invoke("show", run, "--json").output)
    assert document["llm_interactions"] == [whole["llm_interactions"][number - 1] for number in numbers]


def test_raw_requests_of_a_range(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        for number in range(4):
            call(recorder, asked(f"question {number}"), said("yes"))
    raw = json.loads(invoke("show", path, "--raw", "--step", "2-3").output)
    assert [each["request"]["messages"][-1]["content"] for each in raw] == ["question 1", "question 2"]


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ("9", "run.json has no step 9; it has 1-6"),
        ("2,9-12", "run.json has no step 9-12; it has 1-6"),
        ("x", "'x' is not a step or a range, such as 3, 10-16, 10- or -5"),
        ("-", "'-' is not a step or a range"),
        ("3,", "'' is not a step or a range"),
        ("", "'' is not a step or a range"),
        ("5-3", "'5-3' ends before it begins"),
    ],
)
def test_a_range_without_steps_is_a_sentence(run: Path, steps: str, sentence: str) -> None:
    result = invoke("show", run, "--step", steps)
    assert sentence in " ".join(result.output.split()).replace(" │ ", " ")
    assert result.exit_code == (1 if "has no step" in sentence else 2)


def test_brief_lines_fit_the_terminal(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert {len(line) <= 60 for line in brief(run, "--step", "1-")} == {True}


def test_brief_lists_the_steps_with_errors(run: Path) -> None:
    lines = brief(run, "--errors")
    assert [line.split()[0] for line in lines[-2:]] == ["4", "6"]


def test_brief_has_no_raw_form(run: Path) -> None:
    assert invoke("show", run, "--brief", "--turns").exit_code == 2


def test_the_work_is_linear_in_the_steps(run: Path) -> None:
    trajectory = load(run)
    parts = steps_and_calls(trajectory)
    brief_counts = [
        calls(lambda times=times: [*brief_lines(parts * times, run_agents_of(trajectory), None)]) for times in (50, 100)
    ]
    assert brief_counts[1] < 2.1 * brief_counts[0]
