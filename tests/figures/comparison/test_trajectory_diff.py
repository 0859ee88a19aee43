"""The first difference of two runs, and the cost of each run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import trace_recorder
from tests.data.written import ID, Writing, asked, called, said
from tests.journals import folded
from trace_recorder import Trajectory, TrajectoryRecorder
from trace_recorder.figures.comparison.comparable_steps import ComparableSteps
from trace_recorder.figures.comparison.trajectory_diff import TrajectoryDiff, diff

Payload = Any
ASK = {"role": "system", "content": "be brief"}


@dataclass(frozen=True)
class Call:
    """A chat call: its messages and its answer. `more` are members of the request, and `usage` belongs to the
    response.
    """

    messages: list[Payload]
    content: str | None
    uses: tuple[Payload, ...] = ()
    usage: Payload = None
    more: dict[str, Payload] = field(default_factory=dict)


def run(*calls: Call) -> Trajectory:
    """Return a run of these calls, as it is read from a journal."""
    with TemporaryDirectory() as directory:
        writing = Writing(Path(directory, "run.jsonl"), task="try")
        for number, one in enumerate(calls, start=1):
            messages = [user(message) if isinstance(message, str) else message for message in one.messages]
            writing.request(number, asked(*messages, **one.more))
            writing.response(number, body=said(one.content, *one.uses, **({"usage": one.usage} if one.usage else {})))
        return folded(writing.path.read_bytes())


def call(messages: list[Payload], content: str | None, *uses: Payload, usage: Payload = None, **more: Payload) -> Call:
    return Call(messages, content, uses, usage, more)


def user(content: str) -> Payload:
    return {"role": "user", "content": content}


def assistant(content: str | None, *uses: Payload) -> Payload:
    return {"role": "assistant", "content": content} | ({"tool_calls": list(uses)} if uses else {})


def gave(call_id: str, content: str) -> Payload:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def use(call_id: str, **arguments: Payload) -> Payload:
    return called(call_id, "bash", **arguments)


def tool(name: str) -> Payload:
    return {"type": "function", "function": {"name": name, "parameters": {}}}


def two_steps(
    shown: str = "a.py", content: str = "one file", prefix: str = "call", cost: float | None = None
) -> Trajectory:
    """Record a run that lists files and reports their number."""
    ls = use(f"{prefix}_1", command="ls")
    usage = {"prompt_tokens": 10, "completion_tokens": 2} | ({"cost": cost} if cost else {})
    return run(
        call([ASK, "how many?"], None, ls, usage=usage),
        call([ASK, "how many?", assistant(None, ls), gave(f"{prefix}_1", shown)], content),
    )


def kinds(found: TrajectoryDiff) -> list[list[str]]:
    """Return the kinds of the differences of each step."""
    return [[difference.kind for difference in step.differences] for step in found.steps]


def test_a_run_equals_itself() -> None:
    """If a run is compared with itself, no step differs, and each step is paired with itself."""
    found = diff(two_steps(), two_steps(), ignore=())

    assert (found.equal, found.parts_at, found.first_difference, kinds(found)) == (True, None, None, [[], []])


def test_runs_part_at_the_first_differing_result() -> None:
    """A tool result belongs to the step that asked for it, and is not a difference of the next prompt."""
    difference = diff(two_steps(), two_steps("a.py b.py", "two files"))

    assert kinds(difference) == [["tool_result"], ["answer"]]
    assert difference.parts_at == 0
    assert difference.first_difference is not None
    [change] = difference.first_difference.changes()
    assert (change.path, change.before, change.after) == ("tool_results[0].result", "a.py", "a.py b.py")


def test_ids_of_calls_are_ignored_by_default() -> None:
    """Two runs whose tool calls differ only in their ids are equal. With `ignore=()` they differ."""
    one, other = two_steps(prefix="call"), two_steps(prefix="toolu")

    assert diff(one, other).equal
    assert kinds(diff(one, other, ignore=())) == [["tool_call", "tool_result"], []]


def _with_result(directory: Path, file: str, **result: Payload) -> Trajectory:
    calls = [{"call_id": "c1", "name": "bash", "arguments": {}}]
    with TrajectoryRecorder(directory / file) as recorder:
        given = {"call_id": "c1", "result": "a.py", **result}
        recorder.record_agent_step(1, "completed", tool_calls=calls, tool_results=[given])
    return trace_recorder.load(directory / file)


def test_a_number_and_a_boolean_are_different_arguments() -> None:
    """1, 1.0 and True are equal in Python. As arguments of a tool they differ."""
    one, other = (run(call(["q"], "a", called("c", "f", n=value))) for value in (1, True))
    assert kinds(diff(one, other)) == [["tool_call"]]


def test_a_value_that_one_run_does_not_know_is_no_difference(tmp_path: Path) -> None:
    """A decorated tool records its name and success. A result in the messages of a fork has neither."""
    unknown = _with_result(tmp_path, "a.json", success=None)
    good = _with_result(tmp_path, "b.json", name="bash", success=True)
    bad = _with_result(tmp_path, "c.json", name="bash", success=False)

    assert diff(unknown, good).equal
    assert diff(bad, unknown).equal
    assert kinds(diff(good, bad)) == [["tool_result"]]


def test_an_id_among_a_tool_s_own_arguments_is_compared() -> None:
    """The argument `id` is compared, because the model chose its value."""
    one, other = (run(call(["q"], None, use("c", id=number))) for number in (1, 2))

    assert kinds(diff(one, other)) == [["tool_call"]]


def test_times_in_a_prompt_can_be_ignored() -> None:
    """Times in texts are differences by default, and ignored with `times`."""
    morning, other = (
        run(call([{"role": "system", "content": f"It is 2025-06-12T20:00:{s:02}Z."}, "q"], "a")) for s in (1, 2)
    )

    assert diff(morning, other).equal
    [difference] = diff(morning, other, ignore=["ids"]).steps[0].differences
    assert [change.path for change in difference.changes()] == ["messages[0].content"]


def test_prompts_answers_tools_and_parameters_are_compared_separately() -> None:
    """A step has a difference for each kind, in the order of time."""
    one = run(call(["q"], "a", tools=[tool("ls")], temperature=0))
    other = run(call(["r"], "b", use("c"), tools=[tool("cat")], temperature=1))

    assert kinds(diff(one, other)) == [["prompt", "tools", "parameters", "answer", "tool_call"]]
    assert kinds(diff(one, other, ignore=["parameters", "tools", "prompt"])) == [["answer", "tool_call"]]


def test_another_model_in_all_steps_is_no_difference() -> None:
    """If one model replaces another in the whole run, only their answers are compared, and the models are named
    once.
    """
    found = diff(run(call(["q"], "a")), run(call(["q"], "a", model="gpt-5")))

    assert (found.equal, found.models) == (True, (("gpt-4o", "gpt-5"),))
    assert found.to_dict()["models"] == [{"a": "gpt-4o", "b": "gpt-5"}]


def test_a_step_in_which_only_the_model_or_a_parameter_changed_differs() -> None:
    """A step in which only the model or a parameter differs is a difference, unless one model replaces another in all
    steps.
    """
    questions = [["q"], ["r"], ["s"]]
    before = run(*(call([*question], "a") for question in questions))
    other = run(call(["q"], "a", model="gpt-5"), call(["r"], "a"), call(["s"], "a", model="gpt-5", temperature=1))

    assert kinds(diff(before, other)) == kinds(diff(other, before)) == [["model"], [], ["model", "parameters"]]
    assert diff(before, other, ignore=["model", "parameters"]).equal
    [difference] = diff(before, other).steps[0].differences
    assert [change.to_dict()["before"] for change in difference.changes()] == ["gpt-4o"]


def test_a_step_that_only_one_run_has_shifts_no_other() -> None:
    """Steps in which the models did the same are paired."""
    ls, cat = use("c1", command="ls"), use("c2", command="cat")
    history: list[Payload] = ["q", assistant(None, ls), gave("c1", "a")]
    short = run(call(["q"], None, ls), call(history, "done"))
    more = [*history, assistant(None, cat), gave("c2", "b")]
    long = run(call(["q"], None, ls), call(history, None, cat), call(more, "done"))

    found = diff(short, long)

    assert kinds(found) == [[], ["missing"], []]
    assert [(step.a and step.a.source.step_number, step.b and step.b.source.step_number) for step in found.steps] == [
        (1, 1),
        (None, 2),
        (2, 3),
    ]


def test_a_shortened_history_is_a_difference_of_the_prompt() -> None:
    """Also compared is how many messages of the earlier prompt are gone."""
    ls = use("c1", command="ls")
    begin: list[Payload] = [ASK, "q"]
    whole = [*begin, assistant(None, ls), gave("c1", "a"), "go on"]
    one = run(call(begin, None, ls), call(whole, "x"), call([*whole, assistant("x"), "y"], "z"))
    other = run(call(begin, None, ls), call(whole, "x"), call([*begin, "y"], "z"))

    [difference] = diff(one, other).steps[2].differences
    assert [(change.kind, change.path) for change in difference.changes()] == [("added", "removed_messages")]


def test_the_cost_of_both_runs_is_stated() -> None:
    """The comparison has the tokens, cost and seconds of both runs and of each step. Unknown values are absent."""
    document = diff(two_steps(), two_steps(cost=0.5)).to_dict()

    assert document["b"] == {
        "trajectory_id": ID,
        "task": "try",
        "model": "gpt-4o",
        "status": "unknown",
        "success": None,
        "steps": 2,
        "seconds": None,
        "calls": 2,
        "input_tokens": 10,
        "output_tokens": 2,
        "cost": 0.5,
        "llm_seconds": 3.0,
    }
    assert document["steps"][0]["b"]["cost"] == 0.5
    assert "input_tokens" not in document["steps"][1]["b"]


def test_an_unknown_kind_to_ignore_is_refused() -> None:
    """The error for a misspelled kind lists the known kinds."""
    with pytest.raises(ValueError, match="ids, times, prompt"):
        diff(two_steps(), two_steps(), ignore=["id"])  # type: ignore[list-item]  # what the test is of
    with pytest.raises(ValueError, match="ids"):
        diff(two_steps(), two_steps(), ignore="ids")


def test_every_run_can_be_compared_with_every_other(trajectories: Mapping[str, Trajectory]) -> None:
    """A run of any shape equals itself, and its comparison with any other run is JSON."""
    runs = [*trajectories.values()]
    for one, other in zip(runs, [*runs[1:], runs[0]], strict=True):
        assert trace_recorder.diff(one, one, ignore=()).equal
        json.dumps(trace_recorder.diff(one, other).to_dict(), allow_nan=False)


def test_the_work_grows_with_the_new_messages() -> None:
    """If a history only grows, each message is read once, however many calls repeat it."""
    history: list[Payload] = ["q"]
    calls = []
    for number in range(20):
        calls.append(call([*history], None, use(f"c{number}", n=number)))
        history += [assistant(None, use(f"c{number}", n=number)), gave(f"c{number}", "x")]
    steps = ComparableSteps(()).of(run(*calls))

    assert [len(step.parts["prompt"]["messages"]) for step in steps] == [1] + [0] * 19
