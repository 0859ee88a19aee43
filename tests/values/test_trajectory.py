"""The values of a trajectory as a debugger or a notebook prints them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from trace_recorder import TrajectoryRecorder, diff, load_all
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction, WithoutRawData
from trace_recorder.values.messages import NO_RESPONSE, LLMResponse, RequestReading, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory

LONG = "one line\nand another, " * 10_000


class Unread(WithoutRawData):
    """A source that must not be read, because its messages may be megabytes."""

    @property
    def new_tool_results(self) -> list[ToolResult]:
        raise AssertionError("read")

    def request(self) -> RequestReading:
        raise AssertionError("read")

    def request_without_messages(self) -> RequestReading:
        raise AssertionError("read")

    def has_request(self) -> bool:
        raise AssertionError("read")


CALL = ToolCall("c", "search", {"query": LONG})
ONE = LLMInteraction(
    interaction_id="i1",
    timestamp="2025-06-12T22:05:46+00:00",
    provider="openai",
    model="gpt-5",
    source=Unread(),
    response=LLMResponse(content="Hi."),
)
STEP = AgentStep(1, "2025-06-12T22:05:46+00:00", "completed", tool_calls=(CALL,))


def test_the_repr_of_a_trajectory_is_one_short_line() -> None:
    """The repr of a trajectory is one line with the task, the status and the sizes, and without messages."""
    large = replace(ONE, response=LLMResponse(content=LONG))
    run = Trajectory(task="Fix it", status="completed", llm_interactions=[large] * 500, agent_steps=[STEP])

    assert repr(run) == "Trajectory(task='Fix it', status='completed', 500 LLM interactions, 1 step)"


def test_the_repr_of_an_interaction_has_its_answer() -> None:
    """The repr of an interaction has the response's content or error and the number of tool calls, and does not read
    the request.
    """
    called = replace(ONE, response=LLMResponse(tool_calls=(CALL, CALL)), agent="researcher")
    failed = replace(ONE, response=NO_RESPONSE, error=ErrorInfo("RateLimitError", LONG))

    begin = "LLMInteraction(interaction_id='i1', provider='openai', model='gpt-5', "
    assert [repr(ONE), repr(called), repr(failed)] == [
        f"{begin}content='Hi.')",
        f"{begin}agent='researcher', 2 tool calls)",
        f"{begin}error='RateLimitError')",
    ]


def test_the_repr_of_a_step_has_its_number_and_state() -> None:
    """The repr of a step has its number, its state, and how many tools were called and returned."""
    assert repr(STEP) == "AgentStep(step_number=1, state='completed', 1 tool call, 0 tool results)"


def test_the_repr_of_a_comparison_or_iterator_is_one_short_line(tmp_path: Path) -> None:
    """The repr of a comparison says where the runs first differ; that of an iterator says what it has read."""
    for name, answer in (("a", "Hi."), ("b", "Ho.")):
        with TrajectoryRecorder(tmp_path / f"{name}.json") as recorder:
            recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": answer}, "p", "m")
    (tmp_path / "c.json").write_text("{}")
    runs = load_all(tmp_path, strict=False)
    before, trajectories = repr(runs), [*runs]
    compared = diff(*trajectories)

    assert (before.startswith("Runs(path='"), before.endswith(", strict=False, read=0)")) == (True, True)
    assert repr(runs).endswith(", strict=False, read=2, failed=1)")
    assert repr(compared) == "TrajectoryDiff(equal=False, parts_at=0, first='answer', 1 step, 1 different step)"
    step = "DiffSide(step_number=1, interaction_id='llm_1')"
    assert repr(compared.steps[0]) == f"DiffStep(a={step}, b={step}, differences=['answer'])"
    assert [run.path for run in trajectories] == [tmp_path / "a.json", tmp_path / "b.json"]


def test_long_texts_are_cut_in_a_repr() -> None:
    """A repr is one line of a few hundred characters, whatever the agent recorded."""
    values = (
        Trajectory(task=LONG),
        replace(ONE, model=LONG, agent=LONG, response=LLMResponse(content=LONG)),
        replace(STEP, state=LONG, error=LONG),
    )

    assert [(len(repr(value)) < 500, "\n" in repr(value)) for value in values] == [(True, False)] * 3


def test_values_are_equal_only_if_all_fields_are() -> None:
    """Two values with the same repr but a different field are not equal."""
    other = replace(ONE, duration_seconds=1.0)

    assert (repr(ONE) == repr(other), replace(other, duration_seconds=None) == ONE, other == ONE) == (True, True, False)


def test_fields_are_read_on_demand() -> None:
    """A field is read once when it is first used, together with related fields, in any thread."""
    whole = Trajectory(task="t", llm_interactions=[ONE], metrics={"llm_calls": 1})
    reads: list[str] = []

    def read(*names: str) -> dict[str, object]:
        reads.append(names[0])
        return {name: getattr(whole, name) for name in names}

    others = [field.name for field in fields(Trajectory) if field.name not in {"task", "llm_interactions", "provider"}]
    lazy = Trajectory.read_on_demand(
        {"task": "t"},
        dict.fromkeys(others, partial(read, *others))
        | dict.fromkeys(("provider", "llm_interactions"), partial(read, "provider", "llm_interactions")),
    )
    assert (lazy.task, reads) == ("t", [])
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: lazy.llm_interactions, range(64))]
    assert (reads, all(one is found[0] for one in found)) == (["provider"], True)
    assert (lazy.provider, reads) == (None, ["provider"])
    assert (lazy, lazy.metrics, copy(lazy)) == (whole, {"llm_calls": 1}, whole)
    assert reads == ["provider", others[0]]
    known = {field.name: getattr(whole, field.name) for field in fields(whole)}
    unread = dict.fromkeys(known, lambda: known)
    assert pickle.loads(pickle.dumps(Trajectory.read_on_demand({}, unread))) == whole
    with pytest.raises(AttributeError, match="'Trajectory' object has no attribute 'task_name'"):
        lazy.task_name  # type: ignore[attr-defined]  # noqa: B018


def test_a_failed_reading_is_repeated() -> None:
    """If reading a field fails, each access raises the error."""

    def read() -> dict[str, object]:
        raise TrajectoryFormatError("damaged")

    lazy = Trajectory.read_on_demand({"task": "t"}, {"agent_steps": read})
    for _ in range(2):
        with pytest.raises(TrajectoryFormatError, match="damaged"):
            lazy.agent_steps  # noqa: B018
    assert lazy.task == "t"
