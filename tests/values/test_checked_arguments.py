"""Booleans and numbers of any class are accepted as arguments. Other values are refused, and nothing else is lost."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.chat_calls import is_running
from tests.journals import records_of
from tests.json_strategies import exactly
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.json_equivalents import MAX_ARRAY_ELEMENTS
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload


class Verdict(enum.Enum):
    YES = True


class Count(enum.IntEnum):
    TWO = 2


class Tensor:
    """A scalar as in torch and jax: it is an index only if it is an integer, and `int` truncates it."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __index__(self) -> int:
        if not isinstance(self.value, int):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return self.value

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


def kind(value: object) -> str:
    """Return the name of a case, because its printed value differs from process to process."""
    return type(value).__name__


@pytest.fixture
def recorder(tmp_path: Path) -> TrajectoryRecorder:
    """Return a recorder that raises failures of recording."""
    return TrajectoryRecorder(tmp_path / "run.json", strict=True)


# ── bools and numbers ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("success", "expected"),
    [
        (True, True),
        (1, True),
        (0, False),
        (1.0, True),
        (np.bool_(True), True),
        (np.bool_(False), False),
        (np.int64(1), True),
        (np.array(0), False),
        (decimal.Decimal(1), True),
        (Verdict.YES, True),
        (None, None),
    ],
    ids=kind,
)
def test_a_boolean_of_any_class_is_a_success(
    recorder: TrajectoryRecorder, success: object, expected: bool | None
) -> None:
    """A false boolean of numpy is recorded as false, although it is an object."""
    recorder.finalize(success=success)  # type: ignore[arg-type]

    assert load(recorder.trajectory_path).success is expected


@pytest.mark.parametrize("success", ["yes", 2, 0.5, [], {}, object(), np.array([1, 0]), float("nan")], ids=kind)
def test_any_other_success_is_refused_after_the_end(recorder: TrajectoryRecorder, success: object) -> None:
    """A `success` that is not a boolean raises an error; the result and the end of the run are recorded, and the
    success is unknown.
    """
    recorder.start()

    with pytest.raises(TypeError, match=r"success .* True, False or None"):
        recorder.finalize(success=success, final_result="done")  # type: ignore[arg-type]

    run = load(recorder.trajectory_path)
    assert (run.status, run.success, run.final_result) == ("completed", None, "done")
    assert not is_running(recorder)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5),
        (3, 3),
        (1 == 1, 1),  # noqa: PLR0133 - as users write it
        (np.bool_(False), 0),
        (np.float32(0.5), 0.5),
        (np.float64(0.25), 0.25),
        (np.int8(-3), -3),
        (np.array(2.5), 2.5),
        (np.longdouble(0.5), 0.5),
        (decimal.Decimal("0.5"), 0.5),
        (fractions.Fraction(1, 4), 0.25),
        (Count.TWO, 2),
    ],
    ids=kind,
)
def test_a_number_of_any_class_is_a_reward(recorder: TrajectoryRecorder, value: float, expected: float) -> None:
    """The value and the weight of a reward may be of any class for numbers."""
    recorder.reward("r", value, weight=value)
    recorder.finalize()

    [reward] = load(recorder.trajectory_path).rewards
    assert exactly([reward.value, reward.weight]) == exactly([expected, expected])


@pytest.mark.parametrize("value", ["0.5", None, [1], object(), 1j, np.array([1.0, 2.0])], ids=kind)
def test_any_other_reward_is_refused_and_described(recorder: TrajectoryRecorder, value: float) -> None:
    """A reward that is not a number raises an error, and is recorded as a description."""
    recorder.start()

    with pytest.raises(TypeError, match=r"reward\(\): value .* a number"):
        recorder.reward("r", value, explanation="why")
    with pytest.raises(TypeError, match=r"reward\(\): weight .* a number"):
        recorder.reward("r", 1, weight=value)
    recorder.finalize(success=True)

    first, second = load(recorder.trajectory_path).rewards
    assert (first.value.keys(), first.explanation, second.value) == ({"__type__", "repr"}, "why", 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [3, np.int64(3), 3.0, decimal.Decimal(3)], ids=kind)
def test_step_numbers_are_integers_of_any_class(recorder: TrajectoryRecorder, number: int) -> None:
    """The number of a step, of a reward's step or of a summary's step, and the largest number of steps, may be of any
    integer class.
    """
    recorder.start(max_steps=number)
    with recorder.step(number) as step:
        pass
    recorder.record_agent_step(number, "completed")
    recorder.reward("r", 1, step_number=number)
    recorder.update_lakeview(number, "fine")
    with recorder.step() as following:
        pass
    recorder.finalize()

    run = load(recorder.trajectory_path)
    numbers = [
        run.max_steps,
        step.step_number,
        *(step.step_number for step in run.agent_steps),
        run.rewards[0].step_number,
    ]
    assert exactly(numbers) == exactly([3, 3, 3, 3, 4, 3])
    assert (following.step_number, run.agent_steps[0].extra) == (4, {"lakeview_summary": "fine"})


@pytest.mark.parametrize("number", ["one", 2.5, [1], np.array([1, 2])], ids=kind)
def test_any_other_step_number_is_refused_without_loss(recorder: TrajectoryRecorder, number: int) -> None:
    """A step number that is not an integer raises an error, and the step's other values are recorded."""
    uses: list[Callable[[], object]] = [
        lambda: recorder.record_agent_step(number, "completed", reflection="told"),
        lambda: recorder.update_lakeview(number, "fine"),
        lambda: recorder.reward("r", 1, step_number=number),
        lambda: recorder.step(number),
        lambda: TrajectoryRecorder(max_steps=number),
    ]

    recorder.start()
    for act in uses:
        with pytest.raises(TypeError, match="a whole number"):
            act()
    recorder.finalize()

    kinds = [record.kind for record in records_of(recorder.trajectory_path) if record.kind != "item"]
    assert kinds == ["start", "agent_step", "annotation", "reward", "finalize"]
    assert load(recorder.trajectory_path).agent_steps[0].reflection == "told"


def test_a_refused_start_does_not_change_an_open_run(recorder: TrajectoryRecorder) -> None:
    """A `start` that is refused neither ends the open run nor writes to it."""
    recorder.start()

    with pytest.raises(TypeError, match=r"max_steps .* a whole number"):
        recorder.start(max_steps="many")  # type: ignore[arg-type]

    assert (is_running(recorder), [record.kind for record in records_of(recorder.trajectory_path)]) == (True, ["start"])


def test_a_name_that_is_a_number_becomes_text(recorder: TrajectoryRecorder) -> None:
    """A provider, model, task, state or path that is not a string is recorded as its text."""
    recorder.start(task=pathlib.PurePosixPath("/repo"), provider=5, model=4.5)  # type: ignore[arg-type]
    recorder.record_llm_interaction([], "x", provider=np.int64(5), model=5)  # type: ignore[arg-type]
    recorder.record_agent_step(1, 7)
    recorder.finalize()

    run = load(recorder.trajectory_path)
    [one], [step] = run.llm_interactions, run.agent_steps
    assert (run.task, run.provider, run.model, one.provider, one.model, step.state) == (
        "/repo",
        "5",
        "4.5",
        "5",
        "5",
        "7",
    )


# ── inside what is recorded ──────────────────────────────────────────────────────────────────────────────────────────

ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (pathlib.PureWindowsPath("c:\\a"), "c:\\a"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (decimal.Decimal("1.10"), "1.10"),
        (datetime.datetime(2025, 6, 12, 22, 5, 46, 433797, ZONE), "2025-06-12T22:05:46.433797+02:00"),
        (datetime.datetime(2025, 6, 12), "2025-06-12T00:00:00"),
        (datetime.date(2025, 6, 12), "2025-06-12"),
        (datetime.time(22, 5), "22:05:00"),
        (datetime.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=500_000), "P1DT2H3M4.5S"),
        (datetime.timedelta(seconds=-90), "-PT1M30S"),
        (datetime.timedelta(), "PT0S"),
        (datetime.timedelta(days=3), "P3D"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({1, "a", None}, ["a", 1, None]),
        ({(2, 1), (1, 2)}, [[1, 2], [2, 1]]),
        (np.int64(3), 3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.bool_(False), False),
        (np.str_("a"), "a"),
        (np.longdouble(0.5), 0.5),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([0.5, 1.5], dtype=np.float16), [0.5, 1.5]),
        (np.array([True, False]), [True, False]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array(7), 7),
        (np.array([]), []),
        (np.array([{"a": {1}}], dtype=object), [{"a": [1]}]),
        (np.array([(1, 0.5)], dtype=[("a", int), ("b", float)]), [[1, 0.5]]),
        (np.datetime64("2025-06-12T22:05:46"), "2025-06-12T22:05:46"),
        (np.array(["2025-06-12"], dtype="datetime64[D]"), ["2025-06-12"]),
        (np.timedelta64(90, "s"), "PT1M30S"),
    ],
    ids=kind,
)
def test_a_value_with_a_plain_form_is_recorded_in_it(value: object, expected: Payload) -> None:
    """A value that has a plain form (a string, list or number) is recorded in that form, at any depth."""
    assert exactly(to_jsonable({"inside": [value]})) == exactly({"inside": [expected]})


def test_a_key_with_a_plain_form_becomes_text() -> None:
    """A key of a dict that has a plain form is recorded as the text of that form."""
    keys = {datetime.date(2025, 6, 12): 1, pathlib.PurePosixPath("/a"): 2, np.int64(3): 3, Verdict.YES: 4}

    assert to_jsonable(keys) == {"2025-06-12": 1, "/a": 2, "3": 3, "True": 4}


def test_elements_of_an_array_that_are_not_numbers_are_described() -> None:
    """An element of an array that is not a number becomes a description, as in a list."""
    assert to_jsonable(np.array([1.5, float("nan")])) == [1.5, {"__type__": "float", "repr": "nan"}]


def test_an_array_of_many_elements_is_described() -> None:
    """An array of many elements becomes a description, because writing all elements would delay the agent."""
    largest, larger = to_jsonable(np.zeros(MAX_ARRAY_ELEMENTS)), to_jsonable(np.zeros(MAX_ARRAY_ELEMENTS + 1))

    assert largest == [0.0] * MAX_ARRAY_ELEMENTS
    assert (larger["__type__"], len(larger["repr"]) < 300) == ("numpy.ndarray", True)


def test_a_tool_s_result_is_recorded_in_its_plain_form(recorder: TrajectoryRecorder) -> None:
    """A tool's arguments and result are recorded in their plain form: a path as a string, a set as a list."""

    @recorder.tool
    def search(where: pathlib.PurePath, near: np.ndarray) -> set[str]:
        return {"b", "a"}

    search(pathlib.PurePosixPath("/a"), np.array([0.5]))
    recorder.finalize()

    [step] = load(recorder.trajectory_path).agent_steps
    assert (step.tool_calls[0].arguments, step.tool_results[0].result) == ({"where": "/a", "near": [0.5]}, ["a", "b"])


@pytest.mark.parametrize(("value", "expected"), [(0.75, 0.75), (3, 3), (1.0, 1.0)])
def test_a_tensor_of_one_number_is_recorded_as_that_number(
    recorder: TrajectoryRecorder, value: float, expected: float
) -> None:
    """A fraction of a class whose whole numbers can be an index is recorded as the fraction, and not truncated."""
    recorder.reward("score", Tensor(value))  # type: ignore[arg-type]
    recorder.finalize(success=None)

    assert [exactly(reward.value) for reward in load(recorder.trajectory_path).rewards] == [exactly(expected)]
