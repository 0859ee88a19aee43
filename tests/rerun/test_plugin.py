"""The plugin: whether a marked test is recorded or replayed, in each mode."""

from __future__ import annotations

import pytest

import pytest_trace_recorder
from tests.rerun.plugin_runs import KEY, Project
from trace_recorder import load
from trace_recorder.rerun.record_or_replay import MODES

ONE = """
@pytest.mark.trajectory
def test_one():
    assert run("first") == ["hi"]
"""
TWO = ONE.replace('run("first") == ["hi"]', 'run("first", "second")[0] == "hi"')


def test_a_marked_test_is_recorded_once_and_replayed_from_then_on(project: Project) -> None:
    """The second run asks no provider and runs no tool; there is one file, and nothing keeps it out of git."""
    project.run(ONE).assert_outcomes(passed=1)
    before = project.journals
    project.run(ONE).assert_outcomes(passed=1)

    assert (project.requests, project.ran) == ([1, 0], 1)
    assert list(before) == ["test_it/test_one.jsonl"]
    assert project.journals == before


def test_a_run_of_its_own_is_on_file_in_a_replay_too(project: Project) -> None:
    """The answers of a replay are recorded as in any run: the fixture shows this run, and not the journal."""
    asking = ONE.replace("test_one()", "test_one(trajectory)") + "    print(trajectory.path, trajectory.tools_called)\n"
    project.run(asking).assert_outcomes(passed=1)

    result = project.run(asking, "-s")

    assert project.requests == [1, 0]
    result.stdout.fnmatch_lines(["*trajectory0/test_one.jsonl [[]'search'[]]"])


def test_a_prompt_that_has_changed_fails_the_test(project: Project) -> None:
    """The failure shows the changed word, names both files, and says how to accept the change."""
    project.run(ONE)

    result = project.run(ONE.replace('"first"', '"first of all"'))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "*messages[[]0[]].content: first{+ of all+}",
        "*-- trajectory --*",
        "*pytest --trajectory-mode=all",
        "this run: */test_one.jsonl, replayed from */trajectories/test_it/test_one.jsonl",
    ])  # fmt: skip
    assert project.requests == [1, 0]


def test_a_mismatch_that_the_agent_hides_fails_the_test(project: Project) -> None:
    """Recorded calls that were not made fail the test too."""
    hiding = """
@pytest.mark.trajectory
def test_one():
    try:
        run("first", QUESTIONS)
    except Exception:
        pass
"""
    project.run(hiding.replace("QUESTIONS", '"second"'))

    for questions, said in (('"other"', "*messages*content*"), ("", "*nobody asked for: llm_2*")):
        result = project.run(hiding.replace("QUESTIONS", questions))
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([said])


def test_without_a_journal_none_says_what_to_do(project: Project) -> None:
    """Nothing is sent, nothing is run; with a journal it replays."""
    result = project.run(ONE, "--trajectory-mode=none")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no journal */test_one.jsonl. Record it with mode 'once' (pytest --traj*"])

    project.run(ONE)
    project.run(ONE, "--trajectory-mode=none").assert_outcomes(passed=1)

    assert project.requests == [0, 1, 0]


def test_new_episodes_are_added(project: Project) -> None:
    """Recorded calls are replayed; a new call and a new tool are made, and added to the journal."""
    project.run(ONE)
    added = project.run(TWO, "--trajectory-mode=new_episodes", answers=("new",))
    replayed = project.run(TWO, "--trajectory-mode=none")

    for result in (added, replayed):
        result.assert_outcomes(passed=1)
    assert (project.requests, project.ran) == ([1, 1, 0], 2)
    run = load(project.pytester.path / "trajectories" / "test_it" / "test_one.jsonl")
    assert [call.response.content for call in run.llm_interactions] == ["hi", "new"]


def test_a_journal_stays_as_it_is_where_nothing_is_new(project: Project) -> None:
    """The journal is also unchanged if the test failed."""
    project.run(ONE)
    before = project.journals

    project.run(ONE, "--trajectory-mode=new_episodes").assert_outcomes(passed=1)
    project.run(TWO + "    assert 0\n", "--trajectory-mode=new_episodes").assert_outcomes(failed=1)
    project.run(TWO + "    assert 0\n", "--trajectory-mode=all").assert_outcomes(failed=1)

    assert project.requests == [1, 0, 1, 2]
    assert project.journals == before


def test_all_records_anew(project: Project) -> None:
    """The provider is called again, and the journal is that of the new run."""
    project.run(ONE)
    project.run(ONE.replace('"hi"', '"ho"'), "--trajectory-mode=all", answers=("ho",)).assert_outcomes(passed=1)
    project.run(ONE.replace('"hi"', '"ho"')).assert_outcomes(passed=1)

    assert project.requests == [1, 1, 0]
    assert list(project.journals) == ["test_it/test_one.jsonl"]


def test_a_test_that_fails_leaves_no_journal(project: Project) -> None:
    """A test that skips in the middle leaves no journal either."""
    project.run(ONE + "    assert 0\n").assert_outcomes(failed=1)
    project.run(ONE + "    pytest.skip('no')\n").assert_outcomes(skipped=1)

    assert project.journals == {}


def test_the_option_is_for_markers_that_name_no_mode(project: Project) -> None:
    """A marker's own mode is used unchanged."""
    named = ONE.replace("trajectory", 'trajectory(mode="all")')
    project.run(named)
    project.run(named, "--trajectory-mode=none").assert_outcomes(passed=1)

    assert project.requests == [1, 1]


def test_the_modes_of_the_option_are_those_that_there_are() -> None:
    """The plugin repeats their names, so as to import nothing for them."""
    assert pytest_trace_recorder.MODES == MODES


def test_what_may_differ_is_named_by_the_marker(project: Project) -> None:
    """`ignore` as in replay(); `tools="live"` runs tools in a replay."""
    marked = ONE.replace("trajectory", 'trajectory(ignore=["temperature"], tools="live")')
    project.run(marked)
    project.run(marked.replace('run("first")', 'run("first", temperature=0)')).assert_outcomes(passed=1)

    assert (project.requests, project.ran) == ([1, 0], 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bad=1", "*arguments that it does not take*trajectory(name=None*"),
        ('"a", "b"', "*arguments that it does not take*"),
        ('ignore="temperature"', "*ignore is a list of paths*"),
        ('mode="twice"', "*mode is 'twice', and must be one of 'once', 'none'*"),
        ('tools="no"', "*tools is 'no'*"),
    ],
)
def test_a_marker_that_cannot_be_read_says_why(project: Project, arguments: str, message: str) -> None:
    """The test of such a marker is an error, before anything is sent."""
    result = project.run(ONE.replace("trajectory", f"trajectory({arguments})"))

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    assert project.requests == [0]


def test_secrets_are_masked(project: Project) -> None:
    """The provider's key, and one in a prompt; the prompt is found again."""
    secret = ONE.replace('"first"', f'"the key is {KEY}"')
    project.run(secret)
    project.run(secret).assert_outcomes(passed=1)

    assert project.requests == [1, 0]
    assert [name for name, data in project.journals.items() if KEY.encode() in data] == []


def test_a_test_without_calls_is_warned_of(project: Project) -> None:
    """A test whose calls do not use httpx, or that has no calls, would never be replayed."""
    result = project.run("@pytest.mark.trajectory\ndef test_one():\n    pass\n", "-Wdefault")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*has the trajectory marker, but made no LLM call that was seen"])
    assert project.journals == {}


def test_where_recording_is_disabled_a_marked_test_says_so(project: Project) -> None:
    """A marker has no effect then."""
    project.monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    result = project.run(ONE)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["TRACE_RECORDER_DISABLED is set*"])


def test_an_agent_that_records_itself_goes_on_to_do_so(project: Project) -> None:
    """The agent's own recorder has the call, while recording and in the replay. The test's journal has it too."""
    own = """
import openai
from trace_recorder import TrajectoryRecorder, load

@pytest.mark.trajectory
def test_one(tmp_path, trajectory):
    with TrajectoryRecorder(tmp_path / "own.json") as recorder, openai.OpenAI(max_retries=0) as client:
        recorder.wrap(client).chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
    texts = [one.response.content for one in load(tmp_path / "own.json").llm_interactions]
    assert (texts, trajectory.final_text) == (["hi"], "hi")
"""
    project.run(own).assert_outcomes(passed=1)
    project.run(own).assert_outcomes(passed=1)

    assert project.requests == [1, 0]
