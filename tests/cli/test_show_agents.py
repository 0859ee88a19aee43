"""The output of `show` for runs with several agents, conversations and models, and for unknown times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.cli.showing import label, shown
from tests.data.written import Writing, asked, called, said
from tests.figures.conversations.instructed_responses import SAME, responses
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload

RULES = {"role": "system", "content": "You are a researcher."}


def user(content: str) -> Payload:
    return {"role": "user", "content": content}


def assistant(content: str) -> Payload:
    return {"role": "assistant", "content": content}


def whose(number: int, name: str = "researcher") -> Payload:
    """Return the members of a call that name the agent which made it."""
    return {"agent": name, "agent_id": f"agent_{number}", "parent_agent_id": "agent_0"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_each_call_is_compared_with_the_earlier_call_of_its_agent(path: Path) -> None:
    """Two agents take turns with nearly equal prompts. No call is compared with a call of the other agent."""
    writing = Writing(path)
    east, west = [RULES, user("Look in the east.")], [RULES, user("Look in the west.")]
    writing.request(1, asked(*east), **whose(1))
    writing.response(1, body=said("A minster."))
    writing.request(2, asked(*west), **whose(2))
    writing.response(2, body=said("A river."))
    writing.request(3, asked(*east, assistant("A minster."), user("And?")), **whose(1))
    writing.response(3, body=said("A bridge."))
    writing.request(4, asked(*west, assistant("A river."), user("And?")), **whose(2))
    writing.response(4, body=said("A mill."))
    writing.journal.close()

    output = shown(path)
    assert label(output, "prompt") == [
        "2 messages",
        "2 messages",
        "4 messages: 2 as in llm_1, its answer, 1 new",
        "4 messages: 2 as in llm_2, its answer, 1 new",
    ]
    assert [line.split(", ")[3] for line in output.splitlines() if line.startswith("step")] == [
        "agent researcher (agent_1)",
        "agent researcher (agent_2)",
        "agent researcher (agent_1)",
        "agent researcher (agent_2)",
    ]


def test_a_side_call_is_not_part_of_the_conversation(path: Path) -> None:
    """A call for a title of the same question is shown whole. The next call is compared with the call before
    the title.
    """
    writing = Writing(path)
    first = [RULES, user("Is it cold?")]
    writing.request(1, asked(*first))
    writing.response(1, body=said("Yes."))
    writing.request(2, asked({"role": "system", "content": "Write a title."}, user("Is it cold?")))
    writing.response(2, body=said("The cold"))
    writing.request(3, asked(*first, assistant("Yes."), user("Where?")))
    writing.response(3, body=said("In Ulm."))
    writing.journal.close()

    assert label(shown(path), "prompt") == [
        "2 messages",
        "2 messages",
        "4 messages: 2 as in llm_1, its answer, 1 new",
    ]


def test_an_agent_with_a_unique_name_is_shown_without_its_id(path: Path) -> None:
    """Its name distinguishes it from others."""
    writing = Writing(path)
    for number, name in enumerate(("planner", "researcher"), start=1):
        writing.request(number, asked(RULES), **whose(number, name))
        writing.response(number, body=said("Yes."))
    writing.journal.close()

    headings = [line for line in shown(path).splitlines() if line.startswith("step")]
    assert [line.split(", ")[3] for line in headings] == ["agent planner", "agent researcher"]


def test_a_conversation_is_continued_after_many_other_calls(path: Path) -> None:
    """A call continues its conversation, however many calls of other agents were made in between."""
    writing = Writing(path)
    writing.request(1, asked(RULES, user("Look.")), **whose(1))
    writing.response(1, body=said("Yes."))
    for number in range(2, 14):
        writing.request(number, asked(RULES, user(f"Look at {number}.")), **whose(number))
        writing.response(number, body=said("No."))
    writing.request(14, asked(RULES, user("Look."), assistant("Yes."), user("Where?")), **whose(1))
    writing.response(14, body=said("Here."))
    writing.journal.close()

    assert label(shown(path), "prompt")[-1] == "4 messages: 2 as in llm_1, its answer, 1 new"


def test_a_referenced_history_is_not_shown_as_removed(path: Path) -> None:
    """If a request refers to an earlier response, `show` names it instead of saying that its messages were left out."""
    responses(path.with_suffix(".json"), SAME)

    assert label(shown(path), "prompt") == [
        "3 messages",
        "2 messages continuing llm_1: 1 as in llm_1, 1 result shown above",
        "2 messages continuing llm_2: 1 as in llm_2, 1 new",
    ]


def test_all_models_of_a_run_are_named(path: Path) -> None:
    """`show` prints how often each model of a run was called, the first model first."""
    writing = Writing(path, provider="openai", model="gpt-4o")
    for number, model in enumerate(("gpt-4o", "gpt-4o-mini", "gpt-4o"), start=1):
        writing.request(number, asked(user("Look.")) | {"model": model})
        writing.response(number, body=said("Yes."))
    writing.journal.close()

    head = shown(path).split("\n\n")[0]
    assert label(head, "model") == ["openai, gpt-4o (2 calls)", "openai, gpt-4o-mini (1 call)"]


def test_the_only_model_of_a_run_is_taken_from_its_calls(path: Path) -> None:
    """If the run states no model, `show` prints the model of its calls."""
    writing = Writing(path)
    writing.request(1, asked(user("Look.")))
    writing.response(1, body=said("Yes."))
    writing.journal.close()

    assert label(shown(path).split("\n\n")[0], "model") == ["openai, gpt-4o"]


def test_an_unknown_duration_is_not_zero(tmp_path: Path) -> None:
    """Calls that an agent records by hand have no duration: no figure and no column shows 0 ms."""
    path = tmp_path / "run.json"
    nought = re.compile(r"\b0 ms")  # the run itself may have taken 20
    with TrajectoryRecorder(path) as recorder:
        recorder.record_llm_interaction([user("Look.")], {"content": "Yes."}, "x", "m")

    told = invoke("stats", path).stdout.splitlines()
    time = next(line for line in told if line.startswith("time"))
    assert not nought.search("\n".join(line for line in told if not line.startswith("time")))
    assert [part.split()[0] for part in time.removeprefix("time    ").split(", ")] == ["total", "not"]
    assert time.endswith(", not stated by 1 call")
    assert not nought.search(invoke("show", path).stdout)


def test_the_mean_covers_calls_with_a_duration(path: Path) -> None:
    """The mean covers the calls that have a duration. The number of other calls is printed."""
    writing = Writing(path, model="m")
    writing.request(1, asked(user("Look."), tools=[]))
    writing.response(1, body=said(None, called("c", "bash")))
    writing.request(2, asked(user("Look again.")))
    writing.journal.close()

    told = invoke("stats", path).stdout.splitlines()
    assert next(line for line in told if line.startswith("time")).endswith(", not stated by 1 call")
    assert " 1.50 s " in next(line for line in told if line.startswith("openai/gpt-4o"))
