"""In place of Trae Agent's own recorder: the same calls give the same document, and more.

The stand-ins have the attributes that Trae Agent's values have, and make the calls that it makes. `Theirs` writes what
its recorder writes, after the document's description.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest

import trace_recorder
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.validation import validate

ABSENT = "(absent)"


@dataclass
class Call:
    name: str
    call_id: str
    arguments: dict[str, object]
    id: str | None = None


@dataclass
class Result:
    call_id: str
    name: str
    success: bool
    result: str | None = None
    error: str | None = None
    id: str | None = None


@dataclass
class Message:
    role: str
    content: str | None = None
    tool_call: Call | None = None
    tool_result: Result | None = None


@dataclass
class Usage:
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass
class Response:
    content: str
    usage: Usage | None = None
    model: str | None = None
    finish_reason: str | None = None
    tool_calls: list[Call] | None = None


class Tool:
    def __init__(self, name: str) -> None:
        self.name = name
        self.description = f"runs {name}"


class State(Enum):
    COMPLETED = "completed"


class Recorder(Protocol):
    """What Trae Agent knows of its recorder."""

    trajectory_path: Any
    start_recording: Callable[..., object]
    record_llm_interaction: Callable[..., None]
    record_agent_step: Callable[..., None]
    finalize_recording: Callable[..., None]


class Theirs:
    """Keeps the whole document and rewrites it with each record, as Trae Agent's recorder does."""

    def __init__(self, trajectory_path: str | None = None) -> None:
        self.trajectory_path = Path(trajectory_path or f"trajectories/trajectory_{datetime.now():%Y%m%d_%H%M%S}.json")
        self._began: datetime | None = None
        self._document: dict[str, Any] = {
            **dict.fromkeys(("task", "start_time", "end_time", "provider", "model"), ""),
            "max_steps": 0,
            "llm_interactions": [],
            "agent_steps": [],
            "success": False,
            "final_result": None,
            "execution_time": 0.0,
        }

    def start_recording(self, task: str, provider: str, model: str, max_steps: int) -> None:
        self._began = datetime.now()
        given = {"task": task, "provider": provider, "model": model, "max_steps": max_steps}
        self._document |= given | {"start_time": self._began.isoformat(), "llm_interactions": [], "agent_steps": []}
        self._save()

    def record_llm_interaction(
        self, messages: list[Message], response: Response, provider: str, model: str, tools: list[Tool] | None = None
    ) -> None:
        names = ("cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens")
        counted = ("input_tokens", "output_tokens")
        usage = {name: getattr(response.usage, name, 0 if name in counted else None) for name in (*counted, *names)}
        answer = {**_chosen(response, "content", "model", "finish_reason"), "usage": usage}
        self._document["llm_interactions"].append(
            {
                "timestamp": datetime.now().isoformat(),
                "provider": provider,
                "model": model,
                "input_messages": [_message(one) for one in messages],
                "response": {**answer, "tool_calls": _several(_call, response.tool_calls)},
                "tools_available": _several(lambda tool: tool.name, tools),
            }
        )
        self._save()

    def record_agent_step(self, step_number: int, state: str, llm_messages: Any = None, **more: Any) -> None:
        answer, usage = more.get("llm_response"), None
        if answer is not None and answer.usage is not None:
            usage = _chosen(answer.usage, "input_tokens", "output_tokens")
        self._document["agent_steps"].append(
            {
                "step_number": step_number,
                "timestamp": datetime.now().isoformat(),
                "state": state,
                "llm_messages": _several(_message, llm_messages),
                "llm_response": None
                if answer is None
                else {
                    **_chosen(answer, "content", "model", "finish_reason"),
                    "usage": usage,
                    "tool_calls": _several(_call, answer.tool_calls),
                },
                "tool_calls": _several(_call, more.get("tool_calls")),
                "tool_results": _several(_result, more.get("tool_results")),
                "reflection": more.get("reflection"),
                "error": more.get("error"),
            }
        )
        self._save()

    def finalize_recording(self, success: bool, final_result: str | None = None) -> None:
        now = datetime.now()
        seconds = (now - self._began).total_seconds() if self._began else 0.0
        ended = {"end_time": now.isoformat(), "success": success, "final_result": final_result}
        self._document |= ended | {"execution_time": seconds}
        self._save()

    def _save(self) -> None:
        self.trajectory_path.parent.mkdir(parents=True, exist_ok=True)
        self.trajectory_path.write_text(json.dumps(self._document, indent=2, ensure_ascii=False), encoding="utf-8")


def _chosen(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _several(one: Callable[[Any], object], values: list[Any] | None) -> list[object] | None:
    return [one(value) for value in values] if values else None


def _call(call: Call) -> dict[str, Any]:
    return _chosen(call, "call_id", "name", "arguments", "id")


def _result(result: Result) -> dict[str, Any]:
    return _chosen(result, "call_id", "success", "result", "error", "id")


def _message(message: Message) -> dict[str, Any]:
    said = _chosen(message, "role", "content")
    said |= {"tool_call": _call(message.tool_call)} if message.tool_call else {}
    return said | ({"tool_result": _result(message.tool_result)} if message.tool_result else {})


class Agent:
    """Makes the calls of a recorder that Trae Agent's agent and its clients make, in their order and their form."""

    def __init__(self) -> None:
        self.trajectory_recorder: Recorder | None = None

    def set_trajectory_recorder(self, recorder: Recorder | None) -> None:
        self.trajectory_recorder = recorder

    def run(self, task: str) -> str:
        """Two steps with tools, of which one fails, one that breaks, and a last one."""
        if self.trajectory_recorder:
            self.trajectory_recorder.start_recording(task=task, provider="anthropic", model="claude", max_steps=20)
        first = [Message("system", "You mend code."), Message("user", task)]
        look = Call("bash", "c1", {"command": "ls", "deep": {"a": [1, 2.5, None, True]}}, "fc_1")
        edit = Call("edit", "c2", {})
        self._step(1, first, self._chat(first, [look, edit], Usage(150, 75, 3, 0, 0)), [look, edit])
        results = [Result("c1", "bash", True, "a.py\n"), Result("c2", "edit", False, None, "no such file")]
        again = [Message("user", tool_result=one) for one in results]
        again.append(Message("assistant", "The tool failed. Try another."))
        self._step(2, again, self._chat(again, None, None), None)
        self._record(3, [Message("user", "It is not done.")], None, error="the model is overloaded")
        last = [Message("assistant", None, tool_call=edit), Message("user", "Go on.")]
        self._step(4, last, self._chat(last, None, Usage(9, 1)), None)
        if self.trajectory_recorder:
            self.trajectory_recorder.finalize_recording(success=True, final_result="Mended: äöü 漢字")
            return Path(self.trajectory_recorder.trajectory_path).absolute().as_posix()
        return ""

    def _chat(self, messages: list[Message], calls: list[Call] | None, usage: Usage | None) -> Response:
        response = Response("I see.", usage, "claude-1", "tool_use" if calls else "end_turn", calls)
        tools = [Tool("bash"), Tool("edit")] if calls else None
        if self.trajectory_recorder:
            if calls:
                self.trajectory_recorder.record_llm_interaction(
                    messages=messages, response=response, provider="anthropic", model="claude", tools=tools
                )
            else:
                self.trajectory_recorder.record_llm_interaction(messages, response, "anthropic", "claude", tools)
        return response

    def _step(self, number: int, messages: list[Message], response: Response, calls: list[Call] | None) -> None:
        results = [Result(one.call_id, one.name, True, "done", None, one.id) for one in calls or ()]
        reflection = "It went well." if calls else None
        self._record(number, messages, response, tool_calls=calls, tool_results=results or None, reflection=reflection)

    def _record(self, number: int, messages: list[Message], response: Response | None, **more: Any) -> None:
        if self.trajectory_recorder:
            said = {"tool_calls": None, "tool_results": None, "reflection": None, "error": None, **more}
            self.trajectory_recorder.record_agent_step(
                step_number=number,
                state=State.COMPLETED.value,
                llm_messages=messages,
                llm_response=response,
                **said,
            )


def differences(theirs: Any, ours: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where a document of theirs says something that ours does not: the place, what they say, and what we do."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, value in theirs.items():
            yield from differences(value, ours.get(name, ABSENT), f"{at}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from differences(one, other, f"{at}[]")
    elif json.dumps(theirs) != json.dumps(ours):
        yield at, theirs, ours


UNKNOWN = dict.fromkeys(("cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens"))
DIFFERENCES: dict[str, Callable[[Any, Any], bool]] = {
    # Of another run: our times have an offset, so that they say when that was.
    "start_time": lambda theirs, ours: _is_local(theirs) and not _is_local(ours),
    "end_time": lambda theirs, ours: _is_local(theirs) and not _is_local(ours),
    "timestamp": lambda theirs, ours: _is_local(theirs) and not _is_local(ours),
    "execution_time": lambda theirs, ours: min(theirs, ours) >= 0,
    # Token counts that nobody gave: they write 0 and null; we leave out what is not known.
    "usage": lambda theirs, ours: (
        theirs in ({"input_tokens": 0, "output_tokens": 0, **UNKNOWN}, None) and ours == ABSENT
    ),
}
"""Where our document may say something else than theirs, by the last name of the place."""


def _is_local(time: str) -> bool:
    return datetime.fromisoformat(time).tzinfo is None


def run_with(recorder: Recorder) -> Any:
    """The document of a run with this recorder."""
    agent = Agent()
    agent.set_trajectory_recorder(recorder)
    return json.loads(Path(agent.run("mend it")).read_bytes())


def by_import(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The document of a run whose agent imports the recorder by Trae Agent's own name for it."""
    name = "trae_agent.utils.trajectory_recorder"
    for package in ("trae_agent", "trae_agent.utils", name):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    sys.modules[name].TrajectoryRecorder = TrajectoryRecorder  # type: ignore[attr-defined]
    agent: dict[str, Any] = {}
    exec(f"from {name} import TrajectoryRecorder\nmake = TrajectoryRecorder", agent)
    return run_with(agent["make"](str(path)))


@pytest.mark.parametrize("way", ["set_trajectory_recorder", "import"])
def test_the_same_calls_give_the_same_document(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever theirs has is in ours, under the same name and with the same value, but for the listed differences."""
    path = tmp_path / "ours.json"
    theirs = run_with(Theirs(str(tmp_path / "theirs.json")))
    ours = by_import(path, monkeypatch) if way == "import" else run_with(TrajectoryRecorder(path, strict=True))

    found = [(at.rpartition(".")[2], one, other) for at, one, other in differences(theirs, ours)]
    assert [one for one in found if one[0] not in DIFFERENCES or not DIFFERENCES[one[0]](*one[1:])] == []
    assert {name for name, _, _ in found} == DIFFERENCES.keys()
    assert validate(path).ok


def test_ours_is_theirs_and_more(tmp_path: Path) -> None:
    """Their members come first, in their order; what is added stands behind them."""
    theirs = run_with(Theirs(str(tmp_path / "theirs.json")))
    ours = run_with(TrajectoryRecorder(tmp_path / "ours.json", strict=True))

    assert list(ours)[: len(theirs)] == list(theirs)
    for name in ("llm_interactions", "agent_steps"):
        first = list(theirs[name][0])
        assert [list(one)[: len(first)] for one in ours[name]] == [first] * len(theirs[name])
    assert {"status", "trajectory_id", "history", "metrics"} < ours.keys() - theirs.keys()


def test_what_theirs_loses_is_kept(tmp_path: Path) -> None:
    """A value that JSON cannot hold, and what is changed later, leave the document whole; a failed call is on file."""
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
    """A recorder without a path, told of a call without ever being started, writes to `trajectories/`."""
    monkeypatch.chdir(tmp_path)
    recorder = trace_recorder.TrajectoryRecorder()
    recorder.record_llm_interaction([Message("user", "q")], Response("a"), "openai", "m", None)
    recorder.finalize_recording(True, "a")

    path = recorder.get_trajectory_path()
    assert re.fullmatch(r"trajectory_\d{8}_\d{6}\.json", Path(path).name)
    assert [one.response and one.response.content for one in load(path).llm_interactions] == ["a"]
