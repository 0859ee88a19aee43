"""Our recorder in place of Trae Agent's own: the same calls give the same document, with additional members.

`tests/trae.py` has the values and the calls, `tests/stand_ins/trae_agent` the modules.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import trace_recorder
from tests.processes import ROOT
from tests.trae import Agent, Call, Message, Recorder, Response, Theirs
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate

ABSENT = "(absent)"


def differences(theirs: Any, ours: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each value of their document that ours lacks, as its place, their value, and ours."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, value in theirs.items():
            yield from differences(value, ours.get(name, ABSENT), f"{place}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from differences(one, other, f"{place}[]")
    elif json.dumps(theirs) != json.dumps(ours):
        yield place, theirs, ours


UNKNOWN = dict.fromkeys(("cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens"))
DIFFERENCES: dict[str, Callable[[Any, Any], bool]] = {
    # The times belong to a different run. Ours have an offset, so that they name a moment.
    "start_time": lambda theirs, ours: _is_local(theirs) and not _is_local(ours),
    "end_time": lambda theirs, ours: _is_local(theirs) and not _is_local(ours),
    "timestamp": lambda theirs, ours: _is_local(theirs) and not _is_local(ours),
    "execution_time": lambda theirs, ours: min(theirs, ours) >= 0,
    # Unknown token counts: they write 0 and null, and we leave them out.
    "usage": lambda theirs, ours: (
        theirs in ({"input_tokens": 0, "output_tokens": 0, **UNKNOWN}, None) and ours == ABSENT
    ),
}
"""The names of members for which our document may have a different value than theirs."""


def _is_local(time: str) -> bool:
    return datetime.fromisoformat(time).tzinfo is None


def run_with(recorder: Recorder) -> Any:
    """Record a run with this recorder, and return the document."""
    agent = Agent()
    agent.set_trajectory_recorder(recorder)
    return json.loads(Path(agent.run("mend it")).read_bytes())


@pytest.fixture
def trae(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Yield the module in which Trae Agent creates its recorders, from a package with the same structure."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "stand_ins"))
    yield importlib.import_module("trae_agent.agent.agent")
    for name in [name for name in sys.modules if name.partition(".")[0] == "trae_agent"]:
        del sys.modules[name]


def given_to_the_agent(trae: ModuleType, path: Path) -> None:
    """Run an agent whose own recorder is replaced by ours after it was created."""
    agent = trae.Agent("trae_agent", None, str(path.with_name("unused.json")))
    agent.agent.set_trajectory_recorder(TrajectoryRecorder(path, strict=True))
    asyncio.run(agent.run("mend it", {"project_path": "."}))


def in_place_of_the_class(trae: ModuleType, path: Path) -> None:
    """Run an agent that creates our recorder instead of its own."""
    trae.TrajectoryRecorder = TrajectoryRecorder  # type: ignore[attr-defined]
    asyncio.run(trae.Agent("trae_agent", None, str(path)).run("mend it", {"project_path": "."}))


@pytest.mark.parametrize("run", [given_to_the_agent, in_place_of_the_class])
def test_the_same_calls_give_the_same_document(
    run: Callable[[ModuleType, Path], None], tmp_path: Path, trae: ModuleType
) -> None:
    """Our document has each member of theirs, with the same name and value, except for the listed differences."""
    path = tmp_path / "ours" / "ours.json"
    theirs = run_with(Theirs(str(tmp_path / "theirs.json")))
    run(trae, path)
    ours = json.loads(path.read_bytes())

    found = [(at.rpartition(".")[2], one, other) for at, one, other in differences(theirs, ours)]
    assert [one for one in found if one[0] not in DIFFERENCES or not DIFFERENCES[one[0]](*one[1:])] == []
    assert {name for name, _, _ in found} == DIFFERENCES.keys()
    assert validate(path).ok
    assert [one.name for one in path.parent.glob("*.json")] == ["ours.json"]


def test_a_class_replaced_in_its_own_module_is_not_used(tmp_path: Path, trae: ModuleType) -> None:
    """A recorder class that is replaced in its own module is not used, because Trae Agent's modules have already
    imported the class.
    """
    sys.modules["trae_agent.utils.trajectory_recorder"].TrajectoryRecorder = TrajectoryRecorder  # type: ignore[attr-defined]
    agent = trae.Agent("trae_agent", None, str(tmp_path / "run.json"))

    assert (isinstance(agent.trajectory_recorder, Theirs), hasattr(agent, "set_trajectory_recorder")) == (True, False)


def test_trajectory_data_is_the_document_so_far(tmp_path: Path) -> None:
    """`trajectory_data` is a copy of the document so far; before the start, that of a run without records."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    before = recorder.trajectory_data
    recorder.start_recording("t", "openai", "m", 3)
    recorder.record_llm_interaction([Message("user", "q")], Response("a"), "openai", "m")
    recorder.record_agent_step(1, "completed")
    during = recorder.trajectory_data
    on_file = json.loads((tmp_path / "run.json").read_bytes())
    during["agent_steps"].append("mine")
    recorder.finalize_recording(True, "done")

    theirs = Theirs(str(tmp_path / "theirs.json")).trajectory_data
    assert (list(before)[: len(theirs)], before["llm_interactions"], before["task"]) == (list(theirs), [], None)
    assert during == on_file | {"agent_steps": [*on_file["agent_steps"], "mine"]}
    assert recorder.trajectory_data == json.loads((tmp_path / "run.json").read_bytes())
    assert (recorder.trajectory_data["success"], recorder.trajectory_data["final_result"]) == (True, "done")


def test_trajectory_data_of_a_disabled_recorder_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """`trajectory_data` of a disabled recorder is empty, and no file is written."""
    monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    recorder = TrajectoryRecorder("run.json")
    recorder.start_recording("t", "openai", "m", 3)

    assert recorder.trajectory_data["agent_steps"] == []


def test_our_document_is_theirs_and_more(tmp_path: Path) -> None:
    """The members of Trae Agent's document come first, in their order, and ours follow."""
    theirs = run_with(Theirs(str(tmp_path / "theirs.json")))
    ours = run_with(TrajectoryRecorder(tmp_path / "ours.json", strict=True))

    assert list(ours)[: len(theirs)] == list(theirs)
    for name in ("llm_interactions", "agent_steps"):
        first = list(theirs[name][0])
        assert [list(one)[: len(first)] for one in ours[name]] == [first] * len(theirs[name])
    assert {"status", "trajectory_id", "history", "metrics"} < ours.keys() - theirs.keys()


def test_lost_values_of_theirs_are_kept(tmp_path: Path) -> None:
    """Our document keeps values that Trae Agent's recorder loses: those outside of JSON, those that change later, and
    failed calls.
    """
    recorder = TrajectoryRecorder(str(tmp_path / "ours.json"))
    recorder.start_recording(task="t", provider="openai", model="m", max_steps=1)
    call = Call("bash", "c1", {"of": {"no", "kind"}})
    recorder.record_llm_interaction([Message("user", "q")], Response("", None, "m", "stop", [call]), "openai", "m")
    call.arguments.clear()
    recorder.record_llm_interaction([Message("user", "q")], TimeoutError("slow"), "openai", "m")  # type: ignore[arg-type]
    recorder.finalize_recording(success=False)

    first, second = load(tmp_path / "ours.json").llm_interactions
    assert list(first.response.tool_calls[0].arguments) == ["of"]
    assert (second.answered, second.error and second.error.type) == (False, "TimeoutError")


def test_a_client_without_an_agent_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that is neither given a path nor started writes its first call to `trajectories/`."""
    monkeypatch.chdir(tmp_path)
    recorder = trace_recorder.TrajectoryRecorder()
    recorder.record_llm_interaction([Message("user", "q")], Response("a"), "openai", "m", None)
    recorder.finalize_recording(True, "a")

    path = recorder.get_trajectory_path()
    assert re.fullmatch(r"trajectory_\d{8}_\d{6}\.json", Path(path).name)
    assert [call.response and call.response.content for call in load(path).llm_interactions] == ["a"]
