"""Branches: the messages of one row of training data, and which of them are new."""

from __future__ import annotations

from collections.abc import Mapping

from tests.formats.made import assistant, call, gave, run, use
from trace_recorder import Trajectory
from trace_recorder.formats.training.branches import branches
from trace_recorder.reading.relations.prompt_relations import turns_of

LS = use("c1", command="ls")


def told(trajectory: Trajectory) -> list[list[str]]:
    """Return for each branch its roles and contents, with a star for messages that are trained on."""
    return [
        [f"{line.message.role[0]}:{line.message.content}{'*' * line.new}" for line in branch.lines()]
        for branch in branches(trajectory, turns_of(trajectory))
    ]


def test_the_last_call_covers_every_turn() -> None:
    """If each call extends the call before it, there is one branch, and all answers of the model are new in it."""
    second = ["q", assistant(None, LS), gave("c1", "a")]

    assert told(run(call(["q"], None, LS), call(second, "done"))) == [["u:q", "a:None*", "t:a", "a:done*"]]


def test_a_rewritten_history_is_a_second_branch() -> None:
    """If the agent changed the model's text, the changed text is context, and is not trained on."""
    made = run(call(["q"], "long answer"), call(["q", assistant("short"), "more?"], "no"))

    assert told(made) == [["u:q", "a:long answer*"], ["u:q", "a:short", "u:more?", "a:no*"]]


def test_the_common_part_of_a_fork_is_trained_on_once() -> None:
    """A turn that two calls continue is new only in the first branch."""
    first = ["q", assistant("a")]
    made = run(call(["q"], "a"), call([*first, "x?"], "x"), call([*first, "y?"], "y"))

    assert told(made) == [["u:q", "a:a*", "u:x?", "a:x*"], ["u:q", "a:a", "u:y?", "a:y*"]]


def test_an_incomplete_answer_is_at_most_context() -> None:
    """If the agent continued from an incomplete stream, the stream is context in the row. Alone it makes no row."""
    cut = call(["q"], "half an", complete=False, ended_by="the caller closed it")

    assert told(run(cut, call(["q", assistant("half an"), "go on"], "answer"))) == [
        ["u:q", "a:half an", "u:go on", "a:answer*"]
    ]
    assert told(run(cut)) == []


def test_a_failed_call_does_not_change_the_branch() -> None:
    """A call that only a failed call continues is still the last one of its branch."""
    failed = call(["q", assistant("a"), "more?"], response={}, error={"type": "rate_limit", "message": "later"})
    failed["response"] = {}

    assert told(run(call(["q"], "a"), failed)) == [["u:q", "a:a*"]]


def test_thoughts_that_were_not_sent_back_are_in_the_branch() -> None:
    """If an agent does not send the model's thoughts back, the branch has them from the recorded answer."""
    made = run(call(["q"], "a", response={"reasoning": "because"}), call(["q", assistant("a"), "more?"], "no"))

    [branch] = branches(made, turns_of(made))
    assert [line.message.reasoning for line in branch.lines()] == [None, "because", None, None]


def test_a_branch_has_each_tool_once() -> None:
    """A branch has each offered tool once by name, with its last declaration."""
    old, new = ({"type": "function", "function": {"name": "bash", "description": text}} for text in ("old", "new"))
    first = call(["q"], "a", tools_available=["bash"], request={"tools": [old]})
    second = call(["q", assistant("a"), "?"], "b", tools_available=["bash"], request={"tools": [new]})

    made = run(first, second)
    [branch] = branches(made, turns_of(made))
    assert [tool.description for tool in branch.tools()] == ["new"]


def test_every_run_has_its_branches(trajectories: Mapping[str, Trajectory]) -> None:
    """Each run has the expected number of new turns in each branch."""
    assert {
        name: [len(branch.new) for branch in branches(run, turns_of(run))] for name, run in trajectories.items()
    } == {
        "tools": [4],
        "thinking": [2],
        "gemini": [2],
        "local": [2],
        "responses": [2],
        "streamed": [1],
        "images": [2],
        "failed": [],
        "code_agent": [2],
        "react": [2],
        "compacted": [2, 2],
        "own_steps": [2],
        "steps_alone": [1],
        "sub_agents": [2, 2],
        "twins": [2, 2],
        "sampled": [2],
        "by_hand": [1, 1],
        "captured": [2],
        "damaged": [1],
        "interrupted": [1],
        "empty": [],
        "document_only": [4],
        "in_flight": [],
        "poisoned": [],
    }
