"""The questions that a test may ask a run, and the plugin's output for a failed test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rerun.plugin_runs import Project
from trace_recorder import TrajectoryRecorder
from trace_recorder.figures.assertions import TrajectoryAssertions

MESSAGES = [{"role": "user", "content": "?"}]


def call(name: str, identity: str, **arguments: object) -> dict[str, object]:
    return {"call_id": identity, "name": name, "arguments": arguments}


def answer(content: str | None, *calls: dict[str, object], tokens: int = 10, cost: float | None = 0.5) -> object:
    """Return a response that states its tokens and its cost."""
    usage = {"input_tokens": tokens, "output_tokens": 1} | ({} if cost is None else {"cost": cost})
    return {"content": content, "tool_calls": [*calls], "usage": usage}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a run of two calls, the first of which asks for a tool that succeeds and a tool that fails."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        calls = call("search", "1", query="tea"), call("fetch", "2", url="u")
        recorder.record_llm_interaction(MESSAGES, answer(None, *calls), "openai", "m")
        with recorder.tool_call("search", {"query": "tea"}, call_id="1") as searching:
            searching.result = ["green"]
        with pytest.raises(OSError, match="gone"), recorder.tool_call("fetch", {"url": "u"}, call_id="2"):
            raise OSError("gone")
        recorder.record_llm_interaction(MESSAGES, answer("Tea is green.", tokens=20), "openai", "m")
    return tmp_path / "run.jsonl"


def test_a_run_answers_common_questions(path: Path) -> None:
    """A run has its tools by name and order, arguments, results, tokens, costs, last text and failures."""
    run = TrajectoryAssertions(path)

    assert run.tools_called == ["search", "fetch"]
    assert [tool_call.arguments for tool_call in run.tool_calls("search")] == [{"query": "tea"}]
    assert [result.result for result in run.tool_results("search")] == [["green"]]
    assert (run.total_tokens, run.cost, run.final_text, len(run.steps)) == (32, 1.0, "Tea is green.", 2)
    assert run.errors == ["fetch: OSError: gone"]
    assert run.trajectory.status == "completed"


def test_a_failed_assertion_shows_the_recorded_values(path: Path) -> None:
    """The message has both lists of tools, and every error."""
    run = TrajectoryAssertions(path)

    run.assert_tools_called("search", "fetch")
    with pytest.raises(AssertionError) as tools:
        run.assert_tools_called("fetch")
    with pytest.raises(AssertionError) as errors:
        run.assert_no_errors()

    assert str(tools.value) == (
        "tools called: ['search', 'fetch']\n  expected:     ['fetch'] (the exact list of calls, in this order)"
    )
    assert str(errors.value) == "the run has errors:\n  fetch: OSError: gone"


def test_a_running_run_may_be_asked(tmp_path: Path) -> None:
    """The newest records are visible. Unknown values are None, never 0."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        run = TrajectoryAssertions(tmp_path / "run.jsonl")
        before = run.final_text, run.total_tokens, run.cost, run.errors
        recorder.record_llm_interaction(MESSAGES, answer("one", cost=None), "nobody", "unheard of")
        recorder.record_llm_interaction(MESSAGES, ValueError("refused"), "nobody", "unheard of")
        after = run.final_text, run.total_tokens, run.cost, run.errors
        run.assert_tools_called()

    assert before == (None, 0, 0, [])
    assert after == ("one", 11, None, ["llm_2: ValueError: refused"])


FAILING = """
@pytest.mark.trajectory
def test_one(trajectory):
    run("a", "b", "c", "d", "e")
    trajectory.assert_tools_called("search")
"""


def test_a_failed_test_shows_the_last_steps(project: Project) -> None:
    """The steps are printed as by `trace-recorder show`, with the path of the file."""
    result = project.run(FAILING)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        '>       trajectory.assert_tools_called("search")',
        "E       AssertionError: tools called: [[]'search', 'search', *",
        "E         expected:     [[]'search'[]] (the exact list of calls, in this order)",
        "*-- trajectory --*",
        "this run: */trajectory0/test_one.jsonl",
        "... 2 steps before these",
        "step 3, llm_3, *",
        "    user       c",
        "  answer     hi",
        "step 5, llm_5, *",
        '*tool       search {"query": "hi"}',
        '*result     {"found": [[]"hi"[]]}',
    ])  # fmt: skip


def test_the_fixture_acts_as_a_marker(project: Project) -> None:
    """A test with only the fixture is recorded and replayed. A test without marker and fixture has no section."""
    tests = "def test_one(trajectory):\n    run('a')\n    assert trajectory.steps\n\ndef test_two():\n    assert 0\n"
    for _ in range(2):
        result = project.run(tests)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.no_fnmatch_line("*this run: *")

    assert project.requests == [1, 0]


def test_a_recorded_error_is_raised_in_the_replay(project: Project) -> None:
    """A tool that raised raises again without being run, and is among the errors."""
    tests = """
@pytest.mark.trajectory
def test_one(trajectory):
    with pytest.raises(LookupError):
        run("a")
    assert trajectory.errors == ["search: LookupError: nothing was found"]
"""
    for _ in range(2):
        project.run(tests, answers=("nothing",)).assert_outcomes(passed=1)

    assert (project.requests, project.ran) == ([1, 0], 1)
