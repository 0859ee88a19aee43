"""SWE-agent's trajectories: `{"trajectory", "history", "info", "replay_config", "environment"}`, or `history` alone.

Source: `sweagent/types.py` (`TrajectoryStep`, `HistoryItem`) and `sweagent/agent/agents.py`. `history` and `trajectory`
state the same run twice. A message of the assistant in `history` is one call, which saw the messages before it. The
step of `trajectory` with the same response has the tool's whole output and the duration. Steps of newer versions have
the `query`: the messages that the model saw, of which older messages are shortened. The file of a retrying agent has
its runs in `attempts`. Demonstrations (`is_demo`) are part of the prompt, and not calls. The source has no times of
day.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text, join_texts
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Histories,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_object
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_SUBMITTED = "submitted"
_READ = {"role", "content", "tool_calls", "tool_call_ids", "agent", "thought", "action"}
_STEP = Signs(members=("action", "observation", "response", "thought"))
_ITEM = Signs(members=("role", "content", "agent"))
_ENDED = ("exit_status", "submission")
_SHELL = "bash"
"""The tool of an action that the model wrote as text. SWE-agent runs every action in its shell."""


def recognizes(source: Source) -> bool:
    """Return whether the document has steps with actions, or a history whose messages name their agent."""
    document = as_dict(source.document)
    return any(map(_is_run, map(as_dict, as_list(document.get("attempts")) or [document])))


def _is_run(document: Members) -> bool:
    steps, history = as_list(document.get("trajectory")), as_list(document.get("history"))
    return any(map(_STEP.match, steps)) or any(map(_ITEM.match, history))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a file, or a run for each attempt in the file."""
    document = as_dict(source.document)
    name = source.path.name.removesuffix(".json").removesuffix(".traj")
    attempts = [as_dict(attempt) for attempt in as_list(document.get("attempts"))] or [document]
    if len(attempts) == 1:
        yield _run(attempts[0], name)
        return
    for number, attempt in enumerate(attempts, start=1):
        yield _run(attempt, f"{name}-attempt-{number}")


def _run(document: Members, identity: str) -> ForeignRun:
    info = as_dict(document.get("info"))
    config = stated_object(document.get("replay_config"))
    problem = as_dict(config.get("problem_statement"))
    run = ForeignRun(
        identity=identity,
        events=[*_SweAgentReader().events(document)],
        task=as_text(problem.get("text")) or as_text(problem.get("github_url")),
        model=as_text(as_dict(as_dict(config.get("agent")).get("model")).get("name")),
        final_result=info.get("submission"),
        source=without_none(environment=document.get("environment"), version=info.get("swe_agent_version")),
        metadata=without_none(replay_config=config or None),
    )
    for name, value in info.items():
        if name not in _ENDED and value is not None:
            run.events.append(TimedFact.annotation(key=name, value=value))
    exit_status = as_text(info.get("exit_status"))
    if exit_status == _SUBMITTED:
        run.status = "completed"
    elif exit_status is not None:
        run.status = "failed"
        run.error = {"type": exit_status, "message": f"the run ended with {exit_status}"}
    return run


@dataclass(slots=True)
class _SweAgentReader:
    """Reads the history and the steps side by side."""

    conversations: dict[str, ForeignConversation] = field(default_factory=dict)
    histories: Histories = field(default_factory=Histories)
    agent_name: str = ""
    has_several_agents: bool = False

    def events(self, document: Members) -> Iterator[Event]:
        history = [as_dict(item) for item in as_list(document.get("history"))]
        steps = [as_dict(step) for step in as_list(document.get("trajectory"))]
        self.has_several_agents = len({as_text(item.get("agent")) for item in history if "agent" in item}) > 1
        matches = _matched(history, steps)
        next_step = 0
        for position, item in enumerate(history):
            if not _is_response(item):
                self._conversation(item).add(_message(item))
                continue
            step = matches.get(position)
            if step is None:
                yield from self._call(item, {})
                continue
            for unmatched in steps[next_step:step]:
                yield from self._unmatched(unmatched)
            yield from self._call(item, steps[step])
            next_step = step + 1
        for remaining in steps[next_step:]:
            yield from self._unmatched(remaining)

    def _conversation(self, item: Members) -> ForeignConversation:
        self.agent_name = as_text(item.get("agent")) or self.agent_name
        return self.conversations.setdefault(self.agent_name, ForeignConversation())

    def _agent(self) -> ForeignAgent:
        if not self.has_several_agents:
            return MAIN
        return ForeignAgent(name=self.agent_name, agent_id=self.agent_name)

    def _call(self, item: Members, step: Members) -> Iterator[Event]:
        conversation = self._conversation(item)
        prompt, length = self._prompt(step) or (conversation, len(conversation))
        message = _message(item)
        conversation.add(message)
        response: Members = {name: value for name, value in message.items() if name not in {"role", "call_id"}}
        yield Call(time="", conversation=prompt, length=length, response=response, agent=self._agent())
        yield from self._action(step, message.get("tool_calls"))

    def _unmatched(self, step: Members) -> Iterator[Event]:
        """Yield the events of a step whose response is only in `trajectory`, such as the last step."""
        conversation = self.conversations.setdefault(self.agent_name, ForeignConversation())
        prompt, length = self._prompt(step) or (conversation, len(conversation))
        if as_text(step.get("response")):
            response = {"content": step["response"]}
            yield Call(time="", conversation=prompt, length=length, response=response, agent=self._agent())
        yield from self._action(step, None)

    def _prompt(self, step: Members) -> tuple[ForeignConversation, int] | None:
        query = [_message(item) for item in map(as_dict, as_list(step.get("query"))) if item]
        if not query:
            return None
        return self.histories.add(query)

    def _action(self, step: Members, calls: Payload) -> Iterator[Event]:
        call = as_dict(next(iter(as_list(calls)), None))
        if step.get("action"):
            yield ToolRun(
                time="",
                name=as_text(call.get("name")) or _SHELL,
                arguments=call.get("arguments", {"command": step["action"]}),
                call_id=as_text(call.get("call_id")),
                ended="" if "observation" in step else None,
                result=step.get("observation"),
                duration_seconds=as_number(step.get("execution_time")),
                agent=self._agent(),
            )
        rest = without_none(state=step.get("state") or None, extra_info=step.get("extra_info") or None)
        if rest:
            yield TimedFact.unread(what="more of a step", value=rest)


def _is_response(item: Members) -> bool:
    return item.get("role") == "assistant" and item.get("is_demo") is not True


def _matched(history: list[Members], steps: list[Members]) -> dict[int, int]:
    """Return a mapping from the position of a response in the history to the position of its step.

    Read the steps in order, and pair each step with the first response that has the same text and follows the response
    of the last pair. Between two such pairs, responses and steps are paired in their order if there are as many
    responses as steps. Replayed files may have a text in one list and the corrected text in the other.
    """
    responses = [position for position, item in enumerate(history) if _is_response(item)]
    by_text: dict[str, deque[int]] = {}
    for number, position in enumerate(responses):
        text = _text_of(history[position].get("content"), history[position].get("thought"))
        by_text.setdefault(text, deque()).append(number)
    matches: dict[int, int] = {}
    response_before, step_before = -1, -1
    for number, step in enumerate(steps):
        waiting = by_text.get(_text_of(step.get("response"), step.get("thought")), deque())
        while waiting and waiting[0] <= response_before:
            waiting.popleft()
        if waiting:
            matches |= _between(response_before, waiting[0], step_before, number)
            response_before, step_before = waiting.popleft(), number
            matches[response_before] = number
    matches |= _between(response_before, len(responses), step_before, len(steps))
    return {responses[response]: step for response, step in matches.items()}


def _between(first: int, end: int, first_step: int, end_step: int) -> dict[int, int]:
    if end - first != end_step - first_step:
        return {}
    return dict(zip(range(first + 1, end), range(first_step + 1, end_step), strict=True))


def _text_of(response: Payload, thought: Payload) -> str:
    return (as_text(response) or as_text(thought) or "").strip()


def _message(item: Members) -> Members:
    calls = [manual.read_tool_call(call).to_document() for call in as_list(item.get("tool_calls"))]
    extra = {name: value for name, value in item.items() if name not in _READ and value is not None}
    answers = [identity for identity in as_list(item.get("tool_call_ids")) if isinstance(identity, str)]
    if not calls:
        extra |= without_none(action=item.get("action") or None)
    if len(answers) > 1:
        extra["tool_call_ids"] = answers
    blocks = map(as_dict, as_list(item.get("thinking_blocks")))
    return {"role": as_text(item.get("role")) or "user", "content": item.get("content")} | without_none(
        tool_calls=calls or None,
        call_id=next(iter(answers), None),
        reasoning=join_texts((as_text(block.get("thinking")) for block in blocks), "\n\n"),
        extra=extra or None,
    )


FORMAT = Format(name="swe-agent", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
