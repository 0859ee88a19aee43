"""The calls of Trae Agent to a recorder: the passed values, its own recorder, and an agent's run.

The values have the attributes of Trae Agent's own, and the calls their order and form. `Theirs` writes the same as Trae
Agent's recorder, by the document's description. `tests/stand_ins/trae_agent` has the classes in the original modules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Protocol


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
    """The interface of a recorder that Trae Agent uses."""

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
        self.trajectory_data: dict[str, Any] = {
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
        self.trajectory_data |= given | {
            "start_time": self._began.isoformat(),
            "llm_interactions": [],
            "agent_steps": [],
        }
        self.save_trajectory()

    def record_llm_interaction(
        self, messages: list[Message], response: Response, provider: str, model: str, tools: list[Tool] | None = None
    ) -> None:
        names = ("cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens")
        counted = ("input_tokens", "output_tokens")
        usage = {name: getattr(response.usage, name, 0 if name in counted else None) for name in (*counted, *names)}
        answer = {**_chosen(response, "content", "model", "finish_reason"), "usage": usage}
        self.trajectory_data["llm_interactions"].append(
            {
                "timestamp": datetime.now().isoformat(),
                "provider": provider,
                "model": model,
                "input_messages": [_message(message) for message in messages],
                "response": {**answer, "tool_calls": _several(_call, response.tool_calls)},
                "tools_available": _several(lambda tool: tool.name, tools),
            }
        )
        self.save_trajectory()

    def record_agent_step(self, step_number: int, state: str, llm_messages: Any = None, **more: Any) -> None:
        answer, usage = more.get("llm_response"), None
        if answer is not None and answer.usage is not None:
            usage = _chosen(answer.usage, "input_tokens", "output_tokens")
        self.trajectory_data["agent_steps"].append(
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
        self.save_trajectory()

    def finalize_recording(self, success: bool, final_result: str | None = None) -> None:
        now = datetime.now()
        seconds = (now - self._began).total_seconds() if self._began else 0.0
        ended = {"end_time": now.isoformat(), "success": success, "final_result": final_result}
        self.trajectory_data |= ended | {"execution_time": seconds}
        self.save_trajectory()

    def update_lakeview(self, step_number: int, lakeview_summary: str) -> None:
        for step in self.trajectory_data["agent_steps"]:
            if step["step_number"] == step_number:
                step["lakeview_summary"] = lakeview_summary
                break
        self.save_trajectory()

    def get_trajectory_path(self) -> str:
        return str(self.trajectory_path)

    def save_trajectory(self) -> None:
        self.trajectory_path.parent.mkdir(parents=True, exist_ok=True)
        self.trajectory_path.write_text(
            json.dumps(self.trajectory_data, indent=2, ensure_ascii=False), encoding="utf-8"
        )


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
    """Makes the same recorder calls as Trae Agent's agent and its clients, in the same order and form."""

    def __init__(self) -> None:
        self.trajectory_recorder: Recorder | None = None

    def set_trajectory_recorder(self, recorder: Recorder | None) -> None:
        self.trajectory_recorder = recorder

    def run(self, task: str) -> str:
        """Record two steps with tools, one of which fails, a step that breaks off, and a last step."""
        if self.trajectory_recorder:
            self.trajectory_recorder.start_recording(task=task, provider="anthropic", model="claude", max_steps=20)
        first = [Message("system", "You mend code."), Message("user", task)]
        look = Call("bash", "c1", {"command": "ls", "deep": {"a": [1, 2.5, None, True]}}, "fc_1")
        edit = Call("edit", "c2", {})
        self._step(1, first, self._chat(first, [look, edit], Usage(150, 75, 3, 0, 0)), [look, edit])
        results = [Result("c1", "bash", True, "a.py\n"), Result("c2", "edit", False, None, "no such file")]
        again = [Message("user", tool_result=result) for result in results]
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
            members = {"tool_calls": None, "tool_results": None, "reflection": None, "error": None, **more}
            self.trajectory_recorder.record_agent_step(
                step_number=number,
                state=State.COMPLETED.value,
                llm_messages=messages,
                llm_response=response,
                **members,
            )
