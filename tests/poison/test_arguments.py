"""Any Python value for any argument of the recorder: nothing raises, and the files are valid.

Valid means: every line of the journal is a record that folds, the document is JSON for the strictest reader, `load`
reads both, `validate` finds no error, and values of JSON are read back equal.
"""

from __future__ import annotations

import collections
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile import values
from tests.journals import records_of
from tests.json_strategies import exactly, json_values
from tests.poison.file_faults import faults
from tests.poison.odd_values import MAKERS, Endless
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import Payload

Use = Callable[[TrajectoryRecorder, Payload], object]
ARGUMENTS: dict[str, Use] = {
    "messages": lambda r, v: r.record_llm_interaction(v, "x", "p", "m"),
    "a message": lambda r, v: r.record_llm_interaction([v], "x", "p", "m"),
    "content": lambda r, v: r.record_llm_interaction([{"role": v, "content": v}], {"content": v, "usage": v}, "p", "m"),
    "response": lambda r, v: r.record_llm_interaction([], v, "p", "m"),
    "usage": lambda r, v: r.record_llm_interaction([], {"usage": {"input_tokens": v, "output_tokens": 3}}, "p", "m"),
    "provider": lambda r, v: r.record_llm_interaction([], "x", v, "m"),
    "model": lambda r, v: r.record_llm_interaction([], "x", "p", v),
    "tools": lambda r, v: r.record_llm_interaction([], "x", "p", "m", v),
    "a tool": lambda r, v: r.record_llm_interaction([], "x", "p", "m", [v, {"name": v}]),
    "step number": lambda r, v: r.record_agent_step(v, "thinking"),
    "state": lambda r, v: r.record_agent_step(1, v),
    "messages of a step": lambda r, v: r.record_agent_step(1, "x", llm_messages=v),
    "response of a step": lambda r, v: r.record_agent_step(1, "x", llm_response=v),
    "tool calls": lambda r, v: r.record_agent_step(1, "x", tool_calls=v),
    "a tool call": lambda r, v: r.record_agent_step(1, "x", tool_calls=[v, {"name": v, "call_id": v, "arguments": v}]),
    "tool results": lambda r, v: r.record_agent_step(1, "x", tool_results=v),
    "a tool result": lambda r, v: r.record_agent_step(
        1, "x", tool_results=[v, {"call_id": v, "success": v, "result": v, "error": v}]
    ),
    "reflection": lambda r, v: r.record_agent_step(1, "x", reflection=v),
    "error": lambda r, v: r.record_agent_step(1, "x", error=v),
    "an exception": lambda r, v: r.record_agent_step(1, "x", error=ValueError(v)),
    "reward's name": lambda r, v: r.reward(v, 1.0),
    "reward": lambda r, v: r.reward("x", v),
    "weight": lambda r, v: r.reward("x", 1, weight=v),
    "reward's step": lambda r, v: r.reward("x", 1, step_number=v),
    "explanation": lambda r, v: r.reward("x", 1, explanation=v),
    "key": lambda r, v: r.annotate(v, 1),
    "annotation": lambda r, v: r.annotate("x", v),
    "lakeview's step": lambda r, v: r.update_lakeview(v, "x"),
    "lakeview": lambda r, v: r.update_lakeview(1, v),
}
REFUSED = {"step number", "reward", "weight", "reward's step", "lakeview's step"}
"""Arguments that must be numbers. Any other value is a misuse, which raises after it is recorded."""
A_RUN = 10
"""How many values are recorded in one run. After each record the whole document is written."""
LIFE: dict[str, Callable[[Path, Payload], TrajectoryRecorder]] = {
    "metadata": lambda path, v: ended(TrajectoryRecorder(path, metadata=v)),
    "in the metadata": lambda path, v: ended(TrajectoryRecorder(path, metadata={"a": v})),
    "task": lambda path, v: ended(TrajectoryRecorder(path, task=v)),
    "about the run": lambda path, v: ended(TrajectoryRecorder(path, provider=v, model=v)),
    "start": lambda path, v: ended(TrajectoryRecorder(path), task=v, provider=v, model=v),
    "success": lambda path, v: ended(TrajectoryRecorder(path), success=v),
    "final result": lambda path, v: ended(TrajectoryRecorder(path), final_result=v),
}


def ended(
    recorder: TrajectoryRecorder, success: Payload = True, final_result: Payload = None, **begun: Payload
) -> TrajectoryRecorder:
    recorder.start(**begun)
    with refused_at_most():
        recorder.finalize(success, final_result)
    return recorder


@contextmanager
def refused_at_most() -> Iterator[None]:
    """Call a method, which may refuse the value with an error that names the expected type."""
    try:
        yield
    except TypeError as error:
        if "must be" not in str(error):
            raise


def outcome(act: Callable[[Path], TrajectoryRecorder], directory: Path) -> list[str]:
    path = directory / f"{uuid.uuid4().hex}.json"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a coroutine that is not awaited, a client that is not closed
            act(path)
    except Exception as error:  # noqa: BLE001 - a value may raise any exception
        return [f"raised {type(error).__name__}: {error}"]
    return faults(path)


def recorded(use: Use, value: Payload) -> Callable[[Path], TrajectoryRecorder]:
    def act(path: Path) -> TrajectoryRecorder:
        recorder = TrajectoryRecorder(path, task="x")
        recorder.start()
        with refused_at_most():
            use(recorder, value)
        recorder.annotate("after", True)
        recorder.finalize(True)
        return recorder

    return act


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_no_value_damages_a_record(tmp_path: Path, argument: str) -> None:
    """For any value of an argument, a record is written, the files are valid, and the call returns or reports the
    misuse.
    """
    problems: list[str] = []
    makers = [*MAKERS.values()]
    for start in range(0, len(makers), A_RUN):

        def act(path: Path, some: list[Callable[[], object]] = makers[start : start + A_RUN]) -> TrajectoryRecorder:
            recorder = TrajectoryRecorder(path, task="x")
            recorder.start()
            for make in some:
                with refused_at_most() if argument in REFUSED else nullcontext():
                    ARGUMENTS[argument](recorder, make())
            recorder.finalize(True)
            return recorder

        problems += outcome(act, tmp_path)

    records = [record for path in tmp_path.glob("*.json") for record in records_of(path) if record.kind != "item"]
    kinds = collections.Counter(record.kind for record in records)
    assert (problems, kinds.most_common(1)[0][1]) == ([], len(MAKERS))


def test_an_endless_list_is_cut(tmp_path: Path) -> None:
    """An endless iterable is recorded up to a limit."""
    assert outcome(recorded(ARGUMENTS["annotation"], Endless([1])), tmp_path) == []


@pytest.mark.parametrize("argument", LIFE)
def test_no_value_damages_a_run(tmp_path: Path, argument: str) -> None:
    """A run begins and ends with any arguments, and its files are valid."""
    complaints = {
        name: outcome(lambda path, make=make: LIFE[argument](path, make()), tmp_path)  # type: ignore[misc]
        for name, make in MAKERS.items()
    }

    assert {name: wrong for name, wrong in complaints.items() if wrong} == {}


@given(values, st.sampled_from(sorted(ARGUMENTS)))
def test_no_combination_of_values_damages_a_record(tmp_path: Path, value: object, argument: str) -> None:
    """Nested values of every kind leave the files valid."""
    assert outcome(recorded(ARGUMENTS[argument], value), tmp_path) == []


@given(json_values, json_values)
def test_values_of_json_are_read_back_equal(tmp_path: Path, value: Payload, other: Payload) -> None:
    """JSON in annotations, metadata, results and contents is equal in the journal and in the document."""
    recorder = TrajectoryRecorder(directory=tmp_path, task="x", metadata={"m": value})
    recorder.start()
    recorder.annotate("a", other)
    recorder.record_llm_interaction([{"role": "user", "content": [value]}], {"content": "x", "y": other}, "p", "m")
    recorder.record_agent_step(1, "x", tool_results=[{"call_id": "1", "result": value}])
    recorder.finalize(True, other)

    path = recorder.trajectory_path
    for one in (load(path.with_suffix(".jsonl")), load(path)):
        [call], [step] = one.llm_interactions, one.agent_steps
        back = [one.metadata["m"], one.annotations["a"], call.input_messages[0].content, step.tool_results[0].result]
        assert exactly([*back, one.final_result]) == exactly([value, other, [value], value, other])
    path.unlink()
    path.with_suffix(".jsonl").unlink()


WORDLESS = (
    st.binary()
    | st.complex_numbers()
    | st.sampled_from([float("nan"), float("inf"), -float("inf")])
    | st.integers(min_value=2**64)
    | st.integers(max_value=-(2**63) - 1)
    | st.text(st.characters(categories=["Cs"]), min_size=1)
    | st.fractions()
)


@given(WORDLESS)
def test_other_values_are_described(tmp_path: Path, value: object) -> None:
    """A value that is not JSON is recorded as its class and its repr."""
    recorder = TrajectoryRecorder(directory=tmp_path)
    recorder.annotate("a", [value])
    recorder.finalize()

    [back] = load(recorder.trajectory_path).annotations["a"]
    assert (back.keys(), back["__type__"].split(".")[-1]) == ({"__type__", "repr"}, type(value).__name__)
