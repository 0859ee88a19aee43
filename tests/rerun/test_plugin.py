"""The plugin: whether a marked test is recorded or replayed, in each mode."""

from __future__ import annotations

import os
from xml.etree import ElementTree

import pytest

import pytest_trace_recorder
from tests.rerun.plugin_runs import KEY, Project
from trace_recorder import load
from trace_recorder.rerun.placeholder_keys import missing_keys
from trace_recorder.rerun.record_or_replay import MODES

ONE = """
@pytest.mark.trajectory
def test_one():
    assert run("first") == ["hi"]
"""
TWO = ONE.replace('run("first") == ["hi"]', 'run("first", "second")[0] == "hi"')


def test_a_marked_test_is_recorded_once_and_then_replayed(project: Project) -> None:
    """The second run calls no provider and runs no tool. There is one file, which git does not ignore."""
    project.run(ONE).assert_outcomes(passed=1)
    before = project.journals
    project.run(ONE).assert_outcomes(passed=1)

    assert (project.requests, project.ran) == ([1, 0], 1)
    assert list(before) == ["test_it/test_one.jsonl"]
    assert project.journals == before


CLIENTS = """
import openai

@pytest.fixture
def client():
    yield openai.OpenAI(max_retries=0)
    openai.OpenAI()

@pytest.mark.trajectory
def test_one(client):
    asked = [{"role": "user", "content": "first"}]
    assert client.chat.completions.create(model="m", messages=asked).choices[0].message.content == "hi"
"""
AT_IMPORT = """
at_import = openai.OpenAI(max_retries=0)

def test_without_the_marker():
    with pytest.raises(openai.OpenAIError, match="credentials"):
        openai.OpenAI()

@pytest.mark.xfail(raises=openai.OpenAIError, strict=True)
@pytest.mark.trajectory(mode="new_episodes")
def test_that_may_call():
    openai.OpenAI()
"""


def test_a_replay_needs_no_key(project: Project) -> None:
    """SDKs find a placeholder where a replayed test is set up, called and torn down."""
    project.run(CLIENTS).assert_outcomes(passed=1)
    project.run(CLIENTS, key=None).assert_outcomes(passed=1)

    assert project.requests == [1, 0]


def test_a_client_that_is_created_at_import_needs_no_key_if_nothing_is_sent(project: Project) -> None:
    """With `--trajectory-mode=none`, modules and conftest.py find placeholders while they are imported. Tests that are
    not replayed find none.
    """
    project.run(CLIENTS).assert_outcomes(passed=1)
    project.pytester.makeconftest("import openai\nat_import = openai.OpenAI()")

    project.run(CLIENTS + AT_IMPORT, "--trajectory-mode=none", key=None).assert_outcomes(passed=2, xfailed=1)


@pytest.mark.parametrize(
    ("known", "absent"),
    [
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ("DOUBAO_API_KEY", "ARK_API_KEY"),
        ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
        ("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"),
    ],
)
def test_no_placeholder_stands_before_a_real_key(known: str, absent: str) -> None:
    """SDKs read several variables. A placeholder in one of them would be used in place of the real key in another."""
    assert absent in missing_keys({})
    assert missing_keys({}).keys() - missing_keys({known: "real"}).keys() == {known, absent} & missing_keys({}).keys()


def test_a_real_key_is_not_replaced(project: Project) -> None:
    """The placeholder is for missing keys only, and is gone when the tests have ended."""
    checked = ONE + f"    import os\n    assert os.environ['OPENAI_API_KEY'] == {KEY!r}\n"
    project.run(ONE)
    project.run(checked, "--trajectory-mode=none").assert_outcomes(passed=1)
    project.run(CLIENTS, "--trajectory-mode=none", key=None)

    assert set(missing_keys({}).values()).isdisjoint(os.environ.values())


def test_a_replayed_test_records_a_run_of_its_own(project: Project) -> None:
    """The replayed answers are recorded as in any run. The fixture has this run, and not the journal."""
    asking = ONE.replace("test_one()", "test_one(trajectory)") + "    print(trajectory.path, trajectory.tools_called)\n"
    project.run(asking).assert_outcomes(passed=1)

    result = project.run(asking, "-s")

    assert project.requests == [1, 0]
    result.stdout.fnmatch_lines(["*trajectory0/test_one.jsonl [[]'search'[]]"])


def test_a_changed_prompt_fails_the_test(project: Project) -> None:
    """The failure names both files. The summary shows the changed word, once, and says how to accept the change."""
    project.run(ONE)

    result = project.run(ONE.replace('"first"', '"first of all"'))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "*-- trajectory --*",
        "this run: */test_one.jsonl, replayed from */trajectories/test_it/test_one.jsonl",
        "*= replays that differ from their journals =*",
        "test_it.py::test_one: test_one.jsonl has no answer to this request *",
        "  ~ messages[[]0[]].content: first{+ of all+}",
        "*pytest --trajectory-mode=all test_it.py::test_one",
    ])  # fmt: skip
    assert (str(result.stdout).count("{+ of all+}"), project.requests) == (1, [1, 0])


CHANGED = """
@pytest.mark.parametrize("question", ["a b", "c"])
@pytest.mark.trajectory(MARKER)
def test_one(question):
    run(question, *QUESTIONS)

@pytest.mark.trajectory
def test_other():
    run("d")
"""


def test_each_difference_is_in_the_summary_once(project: Project) -> None:
    """The summary has each test with its difference, and a command that records exactly this test again."""
    source = CHANGED.replace("MARKER", "")
    project.run(source.replace("QUESTIONS", '["x"]')).assert_outcomes(passed=3)

    result = project.run(source.replace("QUESTIONS", '["y"]'), "--junitxml=report.xml")
    again = "--trajectory-mode=all", "test_it.py::test_one[a b]"
    project.run(source.replace("QUESTIONS", '["y"]'), *again).assert_outcomes(passed=1)

    result.assert_outcomes(failed=2, passed=1)
    printed = str(result.stdout)
    assert printed.count("~ messages[0].content: [-x-]{+y+}") == 2
    assert printed.count("pytest --trajectory-mode=all 'test_it.py::test_one[a b]'\n") == 1
    assert printed.count("pytest --trajectory-mode=all 'test_it.py::test_one[c]'\n") == 1
    report = ElementTree.parse(project.pytester.path / "report.xml")
    properties = [element.get("value", "") for element in report.iter("property")]
    assert ["[-x-]{+y+}" in value for value in properties] == [True, True]


def test_a_call_that_is_no_longer_made_is_in_the_summary(project: Project) -> None:
    """The summary names the calls. A marker that has a mode must be changed to record the test again."""
    source = CHANGED.replace("MARKER", 'mode="once"')
    project.run(source.replace("QUESTIONS", '["x"]'))

    result = project.run(source.replace("QUESTIONS", "[]"))

    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines([
        "test_it.py::test_one[[]a b]: *llm_2*",
        'If the change is intended, * mode="all" in the marker in place of mode="once"',
    ])  # fmt: skip


def test_a_hidden_mismatch_fails_the_test(project: Project) -> None:
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


def test_mode_none_without_a_journal_says_what_to_do(project: Project) -> None:
    """No request is sent, and no tool is run. With a journal the mode replays."""
    result = project.run(ONE, "--trajectory-mode=none")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no journal */test_one.jsonl. Record it with mode 'once' (pytest --traj*"])

    project.run(ONE)
    project.run(ONE, "--trajectory-mode=none").assert_outcomes(passed=1)

    assert project.requests == [0, 1, 0]


def test_mode_new_episodes_adds_new_calls(project: Project) -> None:
    """Recorded calls are replayed. A new call and a new tool are made, and added to the journal."""
    project.run(ONE)
    added = project.run(TWO, "--trajectory-mode=new_episodes", answers=("new",))
    replayed = project.run(TWO, "--trajectory-mode=none")

    for result in (added, replayed):
        result.assert_outcomes(passed=1)
    assert (project.requests, project.ran) == ([1, 1, 0], 2)
    run = load(project.pytester.path / "trajectories" / "test_it" / "test_one.jsonl")
    assert [call.response.content for call in run.llm_interactions] == ["hi", "new"]


def test_a_journal_without_new_calls_is_unchanged(project: Project) -> None:
    """The journal is also unchanged if the test failed."""
    project.run(ONE)
    before = project.journals

    project.run(ONE, "--trajectory-mode=new_episodes").assert_outcomes(passed=1)
    project.run(TWO + "    assert 0\n", "--trajectory-mode=new_episodes").assert_outcomes(failed=1)
    project.run(TWO + "    assert 0\n", "--trajectory-mode=all").assert_outcomes(failed=1)

    assert project.requests == [1, 0, 1, 2]
    assert project.journals == before


def test_mode_all_records_again(project: Project) -> None:
    """The provider is called again, and the journal is that of the new run."""
    project.run(ONE)
    project.run(ONE.replace('"hi"', '"ho"'), "--trajectory-mode=all", answers=("ho",)).assert_outcomes(passed=1)
    project.run(ONE.replace('"hi"', '"ho"')).assert_outcomes(passed=1)

    assert project.requests == [1, 1, 0]
    assert list(project.journals) == ["test_it/test_one.jsonl"]


def test_a_failed_test_leaves_no_journal(project: Project) -> None:
    """A test that skips itself in the middle leaves no journal either."""
    project.run(ONE + "    assert 0\n").assert_outcomes(failed=1)
    project.run(ONE + "    pytest.skip('no')\n").assert_outcomes(skipped=1)

    assert project.journals == {}


def test_a_marker_s_mode_overrides_the_option(project: Project) -> None:
    """The option sets the mode only for markers that name no mode."""
    named = ONE.replace("trajectory", 'trajectory(mode="all")')
    project.run(named)
    project.run(named, "--trajectory-mode=none").assert_outcomes(passed=1)

    assert project.requests == [1, 1]


def test_the_option_has_every_mode() -> None:
    """The plugin repeats the names of the modes, so that it need not import the package for them."""
    assert pytest_trace_recorder.MODES == MODES


def test_a_marker_s_arguments_are_those_of_replay(project: Project) -> None:
    """`ignore` acts as in replay(). `tools="live"` runs tools in a replay."""
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
def test_an_invalid_marker_is_an_error(project: Project, arguments: str, message: str) -> None:
    """The test with such a marker is an error, before any request is sent."""
    result = project.run(ONE.replace("trajectory", f"trajectory({arguments})"))

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    assert project.requests == [0]


def test_secrets_are_masked_in_journals(project: Project) -> None:
    """The provider's key and a secret in a prompt are masked. The prompt is still matched in the replay."""
    secret = ONE.replace('"first"', f'"the key is {KEY}"')
    project.run(secret)
    project.run(secret).assert_outcomes(passed=1)

    assert project.requests == [1, 0]
    assert [name for name, data in project.journals.items() if KEY.encode() in data] == []


def test_a_test_without_recorded_calls_gets_a_warning(project: Project) -> None:
    """A test whose calls do not use httpx, or that makes no call, would never be replayed."""
    result = project.run("@pytest.mark.trajectory\ndef test_one():\n    pass\n", "-Wdefault")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*has the trajectory marker, but made no LLM call that was seen"])
    assert project.journals == {}


def test_a_marked_test_warns_if_recording_is_disabled(project: Project) -> None:
    """If recording is disabled, a marker has no effect."""
    project.monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    result = project.run(ONE)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["TRACE_RECORDER_DISABLED is set*"])


def test_an_agent_s_own_recorder_still_records(project: Project) -> None:
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
