"""Kimi Code's sessions (`wire.jsonl`): the requests to the model, and the events of each step of the agent's loop.

`llm.request` is a call. The parts of the answer follow as `content.part` and `tool.call`. `step.end` has the tokens and
durations of the call. If a call failed, its `finishReason` is "error", and `turn.step.retrying` has the error.
`inputOther` leaves out cached tokens. After a compaction, the history has the newest prompts of the user and the
summary.

A session is a directory. The lines do not name the session, so a run is named after its directory. A `subagent.spawned`
names the tool call that started a sub-agent. The file of a sub-agent is a part of the run of the main agent's file, and
is a run of its own only if the main agent's file is not there:

    sessions/<directory>/<session>/agents/main/wire.jsonl, agents/<agent>/wire.jsonl
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import ClassVar

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, content_of
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, in_time_order
from trace_recorder.formats.foreign_runs.run import Call, ForeignAgent, ForeignRun, Members, joined_id
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_flag, stated_time, usage_at
from trace_recorder.formats.foreign_runs.sub_agents import StartedAgents
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import CACHE_APART
from trace_recorder.values.trajectory import Status

_KINDS = {"config.update", "context.append_message", "context.append_loop_event", "turn.prompt", "llm.request"}
_PARAMETERS = ("maxTokens", "thinkingEffort", "thinkingKeep")
_MAX_MILLISECONDS = 10**15
_MAX_KEPT = 100
"""A compaction keeps at most this many of the user's prompts.

If a file states a larger number, the prompts are a gap.
"""
_NOT_KEPT = {"context.append_message", "context.append_loop_event"}
_ERROR = "error"
"""The `finishReason` of a call that failed."""
_STATUSES: dict[str, Status] = {"completed": "completed", "cancelled": "interrupted", "failed": "failed"}
_WIRE, _AGENTS, _MAIN_AGENT = "wire.jsonl", "agents", "main"
_COMPACTION = ForeignAgent(name="compaction", agent_id="compaction")


_HEAD, _EVENT = Signs(members=("protocol_version",)), Signs(values={"type": _KINDS})


def recognizes(source: Source) -> bool:
    """Return whether the first lines are events of Kimi Code, and the file is not a part of another run."""
    agent = source.path.absolute().parent
    if _is_of_an_agent(source.path) and agent.name != _MAIN_AGENT and (agent.parent / _MAIN_AGENT / _WIRE).is_file():
        return False
    return _HEAD.in_any_line(source) and _EVENT.in_any_line(source)


def _is_of_an_agent(path: Path) -> bool:
    return path.name == _WIRE and path.absolute().parent.parent.name == _AGENTS


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file, with its sub-agents' files."""
    reader = _KimiReader(_run_of(source.path.absolute()))
    reader.read_file(source)
    if _is_of_an_agent(source.path):
        _add_sub_agents(reader, source)
    yield reader.run


def _add_sub_agents(main: _KimiReader, source: Source) -> None:
    """Read the files of all sub-agents of a session, an agent before the agents that it started."""
    agents = source.path.absolute().parent.parent
    unread = sorted(path.parent.name for path in agents.glob(f"*/{_WIRE}") if path.parent.name != _MAIN_AGENT)
    started, spawned = {_MAIN_AGENT: StartedAgents(main.history)}, dict(main.spawned)
    events = [main.run.events]
    while unread:
        name = next((name for name in unread if name in spawned), unread[0])
        unread.remove(name)
        file = source.part(agents / name / _WIRE, agents)
        if file is None:
            continue
        spawn = spawned.get(name, {})
        parent = started.get(as_text(spawn.get("parentAgentId")) or "", started[_MAIN_AGENT])
        agent = parent.agent(name, as_text(spawn.get("parentToolCallId")) or "", as_text(spawn.get("subagentName")))
        run_of_agent = ForeignRun(identity=name, executions=main.run.executions)
        reader = _KimiReader(run_of_agent, AgentHistory([], agent))
        try:
            reader.read_file(file)
        except (OSError, TrajectoryFormatError) as error:
            reader.add_gap(f"to read the file of {name}", str(error))
        started[name] = StartedAgents(reader.history)
        spawned |= reader.spawned
        events.append(reader.history.events)
    executions = chain.from_iterable(agents.executions for agents in started.values())
    main.run.events = in_time_order(*events, *executions)


def _run_of(path: Path) -> ForeignRun:
    """Return a run that is named after its session, and after its agent if the file is that of a sub-agent.

    A file with a name of its own, or outside of a session's directory, gives the run its name or that of its directory.
    """
    if path.name != _WIRE:
        return ForeignRun(identity=path.stem)
    agent, agents = path.parent.name, path.parent.parent
    if agents.name != _AGENTS:
        return ForeignRun(identity=agent)
    session = agents.parent.name
    if agent == _MAIN_AGENT:
        return ForeignRun(identity=session, session=session)
    return ForeignRun(identity=joined_id(session, agent), session=session, parent=session)


@dataclass(slots=True)
class _OpenCall:
    """A call whose events are still being read."""

    time: str
    request: Members
    parts: list[Members] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    blocks: Blocks = field(default_factory=Blocks)
    others: list[Payload] = field(default_factory=list)
    results: list[tuple[Message, str]] = field(default_factory=list)
    end: Members = field(default_factory=dict)
    kept: list[tuple[str, Members, str]] = field(default_factory=list)
    """The lines to keep that came during the step. The call is older, so it is added before them."""


class _KimiReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun, history: AgentHistory | None = None) -> None:
        super().__init__(run, history)
        self.spawned: dict[str, Members] = {}
        """The events that started sub-agents, by the ids of the sub-agents."""
        self._step: _OpenCall | None = None
        self._prompts: list[tuple[Message, str]] = []
        self._system: Message | None = None
        self._tools: list[Payload] = []
        self._summary_request: Members | None = None
        self._failed: Call | None = None
        """The call that failed last, until its error is known."""

    def read_file(self, source: Source) -> None:
        """Read the lines of a file."""
        for line in self.lines(source):
            self.read_line(line, stated_time(line.get("time")))
        self.close()
        self.finish()

    def read_line(self, line: Members, time: str) -> None:
        kind = as_text(line.get("type")) or ""
        read = self._READERS.get(kind)
        if read is not None:
            read(self, line, time)
        if kind in _NOT_KEPT:
            return
        if self._step is not None:
            self._step.kept.append((kind or "line", line, time))
        else:
            self.keep(kind or "line", line, time)

    def _read_usage(self, line: Members, _: str) -> None:
        if self._summary_request is not None:
            self._summary_request["usage"] = usage_at(Remaining(line.get("usage")), _COUNTS).to_document()

    def _read_tools(self, line: Members, _: str) -> None:
        """Set the tools of later calls. The names of the tools count only until their descriptions come."""
        names = [name for name in as_list(line.get("names")) if isinstance(name, str)]
        if "tools" in line:
            self._tools = as_list(line.get("tools"))
        elif not self._tools:
            self._tools = names

    def _note_sub_agent(self, line: Members, _: str) -> None:
        if identity := as_text(line.get("subagentId")):
            self.spawned[identity] = line

    def _read_end(self, line: Members, _: str) -> None:
        self.run.status = _STATUSES.get(as_text(line.get("reason")) or "", "unknown")

    def _configure(self, line: Members, time: str) -> None:
        cwd = line.get("cwd") or as_dict(line.get("environmentDisclosure")).get("cwd")
        self.run.source |= without_none(cwd=cwd, profile=line.get("profileName"))
        self.run.model = as_text(line.get("modelAlias")) or self.run.model
        prompt = as_text(line.get("systemPrompt"))
        if prompt and self._system is None:
            self._system = Message("system", prompt)
            self.history.add(self._system, time)

    def _read_error(self, line: Members, _: str) -> None:
        """Set the error of the call that failed last."""
        call, self._failed = self._failed, None
        if call is not None:
            kind, message = as_text(line.get("errorName")), as_text(line.get("errorMessage"))
            error: Members = {"type": kind or "error", "message": message or ""}
            call.error = error | without_none(status=as_int(line.get("statusCode")))

    def _add(self, line: Members, time: str) -> None:
        self.close()
        message = as_dict(line.get("message"))
        role = as_text(message.get("role")) or "user"
        origin = as_dict(message.get("origin"))
        added = Message(role, content_of(message.get("content")), extra=without_none(origin=origin or None))
        self.history.add(added, time)
        if role == "user" and origin.get("kind") == "user":
            self._prompts.append((added, time))
        if role == "user":
            self.note_task(added.content)

    def _request(self, line: Members, time: str) -> None:
        self.close()
        model = as_text(line.get("model"))
        if model is not None and self.run.model == line.get("modelAlias"):
            self.run.model = model
        if line.get("kind") == "loop":
            self._step = _OpenCall(time, line)
        else:
            self._summary_request = {**line, "time": time}

    def _read_loop_event(self, line: Members, time: str) -> None:
        event = as_dict(line.get("event"))
        kind = as_text(event.get("type"))
        if kind == "step.begin":
            self.close()
            return
        if self._step is None:
            self._step = _OpenCall(time, {})
        if kind == "content.part":
            _add_part(self._step, as_dict(event.get("part")))
        elif kind == "tool.call":
            self._step.calls.append(stated_call(event.get("toolCallId"), event.get("name"), event.get("args")))
            self._step.blocks.add_call()
        elif kind == "tool.result":
            self._step.results.append((_result(event), time))
        elif kind == "step.end":
            self._step.end = event
            self.close()
        else:
            self.keep(kind or "loop event", event, time)

    def close(self) -> None:
        """Add the call of the open step, if a step is open. If the step has no `step.end`, the call is incomplete."""
        step, self._step = self._step, None
        if step is None:
            return
        if step.request or step.calls or step.parts or step.end:
            self._call(step)
        for kept in step.kept:
            self.keep(*kept)
        for result, time in step.results:
            self.history.add(result, time)

    def _call(self, step: _OpenCall) -> None:
        has_failed = step.end.get("finishReason") == _ERROR
        if step.parts or step.calls or (step.end and not has_failed):
            call = self._answered_call(step)
        else:
            call = self.history.failed_call(step.time, None)
        if has_failed:
            self._failed = call
            call.complete, call.ended_by = False, _ERROR
        call.model = as_text(step.request.get("model")) or self.run.model
        call.provider = as_text(step.request.get("provider"))
        call.tools = self._tools
        call.parameters = without_none(**{name: step.request.get(name) for name in _PARAMETERS})
        first, rest = (_seconds(step.end.get(name)) for name in ("llmFirstTokenLatencyMs", "llmStreamDurationMs"))
        call.time_to_first_token_seconds = first
        if first is not None and rest is not None:
            call.duration_seconds = first + rest
        if not step.end:
            call.complete, call.ended_by = False, "the step has no end"

    def _answered_call(self, step: _OpenCall) -> Call:
        response = LLMResponse(
            step.blocks.all_text(),
            reasoning=step.blocks.all_reasoning(),
            tool_calls=tuple(step.calls),
            finish_reason=as_text(step.end.get("finishReason")),
            usage=usage_at(Remaining(step.end.get("usage")), _COUNTS),
            model=as_text(step.request.get("model")),
            id=as_text(step.end.get("messageId")),
            extra={"content": step.others} if step.others else {},
        )
        return self.history.call(step.time, response)

    def _compact(self, line: Members, time: str) -> None:
        self.close()
        request, self._summary_request = self._summary_request, None
        if request is not None:
            self._add_summary_call(request, as_text(line.get("summary")))
        count = as_int(line.get("keptUserMessageCount")) or 0
        kept: list[tuple[Message, str]] = []
        if 0 < count <= _MAX_KEPT:
            kept = self._prompts[-count:]
        if len(kept) != count:
            why = "the file does not have them, or they are too many"
            self.add_gap("prompts that a compaction kept", why, time)
        self.history.restart()
        self._prompts = []
        if self._system is not None:
            self.history.add(self._system, time)
        for message, message_time in kept:
            self._prompts.append((message, message_time))
            self.history.add(message, message_time)
        summary = as_text(line.get("contextSummary")) or as_text(line.get("summary"))
        self.history.add(Message("user", summary, extra={"type": "compaction"}), time)

    def _add_summary_call(self, request: Members, summary: str | None) -> None:
        conversation = self.history.conversation
        self.history.events.append(
            Call(
                time=as_text(request.get("time")) or "",
                conversation=conversation,
                length=len(conversation),
                response={"content": summary} | without_none(usage=request.get("usage")),
                model=as_text(request.get("model")),
                provider=as_text(request.get("provider")),
                agent=_COMPACTION,
            )
        )

    _READERS: ClassVar[Mapping[str, Callable[[_KimiReader, Members, str], None]]] = {
        "context.append_loop_event": _read_loop_event,
        "context.append_message": _add,
        "llm.request": _request,
        "context.apply_compaction": _compact,
        "config.update": _configure,
        "profile.bind": _configure,
        "turn.step.retrying": _read_error,
        "turn.ended": _read_end,
        "subagent.spawned": _note_sub_agent,
        "usage.record": _read_usage,
        "llm.tools_snapshot": _read_tools,
        "tools.set_active_tools": _read_tools,
    }


def _seconds(milliseconds: Payload) -> float | None:
    number = as_number(milliseconds)
    if number is None or not 0 <= number < _MAX_MILLISECONDS:
        return None
    return number / 1000


def _add_part(step: _OpenCall, part: Members) -> None:
    step.parts.append(part)
    if part.get("type") == "think":
        step.blocks.add_reasoning(as_text(part.get("think")))
    elif part.get("type") == "text":
        step.blocks.add_text(as_text(part.get("text")))
    else:
        step.blocks.add_other(len(step.others))
        step.others.append(part)


def _result(event: Members) -> Message:
    result = as_dict(event.get("result"))
    extra = {name: value for name, value in result.items() if name not in {"output", "isError"}}
    extra |= without_none(is_error=stated_flag(result.get("isError")))
    call_id = as_text(event.get("toolCallId")) or ""
    return Message("tool", content_of(result.get("output")), call_id=call_id, extra=extra)


_COUNTS = {
    "input_tokens": "inputOther",
    "output_tokens": "output",
    "cache_creation_input_tokens": "inputCacheCreation",
    "cache_read_input_tokens": "inputCacheRead",
}


FORMAT = Format(
    name="kimi",
    reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART),
    home=(
        HomePlace(
            program="Kimi Code",
            directory=".kimi-code",
            files=("sessions/*/*/agents/*/wire.jsonl",),
            variable="KIMI_CODE_HOME",
            session="sessions/*/*/agents/main/wire.jsonl",
        ),
    ),
)
