"""Trees of the Hierarchy SDK: a trajectory, its steps, and in each step all messages up to the step's end.

Source: `trajectory_sdk.primitives` 0.5.3. Our own `writing.py` also writes an `interaction_id` into each answer's
metadata. An answer that no earlier step has is a call. The call saw the messages before the answer in the same step.
The tree has each message as it was first sent. If the agent later changed a message that is not an answer, the real
prompts were different.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text, content_of
from trace_recorder.dialects.manual import read_tool_call, read_usage
from trace_recorder.formats.foreign_runs.run import (
    Call,
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
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.hierarchy.own_members import HierarchyMetadata, StepInfo, Termination
from trace_recorder.values.messages import LLMResponse, Message, Payload, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.trajectory import Status

_TREE = Signs(members=("task", "metrics", "execution_metrics", "model_id"), lists=("steps",))
_STATUS: dict[Termination, Status] = {
    "ENV_DONE": "completed",
    "MAX_STEPS": "completed",
    "TRUNCATION": "completed",
    "ERROR": "failed",
    "TIMEOUT": "failed",
}
_COUNTS = {  # the SDK has the names of OpenAI
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_creation_tokens": "cache_creation_input_tokens",
}


def recognizes(source: Source) -> bool:
    """Return whether the document, or the first line, is a tree of the Hierarchy SDK."""
    return any(_is_tree(line.value) for line in source.first_lines[:1]) or _is_tree(source.document)


def _is_tree(value: Payload) -> bool:
    return _TREE.match(value) and all("messages" in as_dict(step) for step in value["steps"])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each tree."""
    name = source.path.name.partition(".")[0]
    if _is_tree(source.document):
        yield _run(name, as_dict(source.document))
        return
    missing: list[TimedFact] = []
    for line in source.each_line():
        if line.why is None and _is_tree(line.value):
            run = _run(f"{name}-{line.number}", as_dict(line.value))
            run.events += missing
            missing = []
            yield run
        else:
            missing.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it is not a tree of steps"))


def _run(name: str, tree: Members) -> ForeignRun:
    task = as_dict(tree.get("task"))
    reason = as_text(as_dict(tree.get("execution_metrics")).get("termination_reason"))
    run = ForeignRun(
        identity=as_text(task.get("conversation_id")) or as_text(task.get("id")) or name,
        model=as_text(tree.get("model_id")),
        status=_STATUS.get(cast("Termination", reason), "unknown"),
        source=without_none(data_source=task.get("data_source")),
    )
    if (error := as_text(tree.get("error"))) is not None:
        kind, _, message = error.partition(": ")
        run.error = {"type": kind, "message": message or error}
    reader = _TreeReader(run, is_ours=_is_ours(tree))
    for number, step in enumerate(as_list(tree.get("steps")), start=1):
        reader.read_step(number, as_dict(step))
    reader.finish()
    run.events += _scores(as_dict(tree.get("reward")))
    return run


def _is_ours(tree: Members) -> bool:
    """Return whether our own view wrote the tree. Only our view names the interactions of answers."""
    steps = as_list(tree.get("steps"))
    messages = (as_dict(message) for step in steps for message in as_list(as_dict(step).get("messages")))
    return any("interaction_id" in _metadata(message) for message in messages)


@dataclass(slots=True)
class _TreeReader:
    """A reader of one tree. `unseen` has the tool results that no call has seen yet, by the ids of their tool calls."""

    run: ForeignRun
    is_ours: bool
    histories: Histories = field(default_factory=Histories)
    known: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)
    unseen: dict[str, ToolRun] = field(default_factory=dict)

    def read_step(self, number: int, step: Members) -> None:
        """Add the calls, results and rewards of a step to the run."""
        info = cast("StepInfo", as_dict(step.get("info")))
        agent = ForeignAgent(name=as_text(info.get("agent")), agent_id=as_text(info.get("agent_id")))
        messages = [message for message in map(as_dict, as_list(step.get("messages"))) if _role(message) is not None]
        if len(messages) < len(as_list(step.get("messages"))):
            self.run.events.append(TimedFact.gap(what=f"messages of step {number}", why="they have no role"))
        shown = [message for message in messages if _is_shown(message)]
        hidden = [message for message in messages if not _is_shown(message)]
        sent = [message.to_document() for message in number_messages(map(_message, shown))]
        conversation, added = self.histories.add_counted(sent)
        known = len(sent) - added
        tools: list[Payload] = []
        results: list[str] = []
        for position, (message, document) in enumerate(zip(shown, sent, strict=True)):
            tools = as_list(message.get("tool_definitions")) or tools
            if document["role"] == "user":
                self.run.task = self.run.task or as_text(document["content"])
            elif document["role"] == "tool":
                results.append(document.get("call_id") or "")
                self._add_result(message, agent, is_new=position >= known)
            elif document["role"] == "assistant" and self._is_call(message, is_new=position >= known):
                self._add_call(message, document, agent, tools, conversation, position)
                for call_id in results:
                    self.unseen.pop(call_id, None)
        for message in hidden:
            self._add_result(message, agent, is_new=True)
        self.run.events += _scores(as_dict(step.get("reward")), info.get("step_numbers"))

    def finish(self) -> None:
        """Append to the run's events the tool results that no call saw."""
        self.run.events += self.unseen.values()

    def _is_call(self, message: Members, *, is_new: bool) -> bool:
        identity = _metadata(message).get("interaction_id")
        if not self.is_ours:
            return is_new
        if not isinstance(identity, str) or identity in self.known:
            return False
        self.known.add(identity)
        return True

    def _add_call(  # noqa: PLR0913, PLR0917 - the members of one call
        self,
        message: Members,
        answer: Members,
        agent: ForeignAgent,
        tools: list[Payload],
        conversation: ForeignConversation,
        length: int,
    ) -> None:
        metadata = _metadata(message)
        usage, origin = message.get("usage"), ReplayedFrom.of_document(metadata.get("replayed_from"))
        if origin is not None:
            usage = metadata["replayed_from"].get("usage")
        counts = dict(as_dict(usage))
        counts.pop("total_tokens", None)
        response = LLMResponse(
            as_text(answer.get("content")),
            reasoning=as_text(answer.get("reasoning")),
            tool_calls=tuple(map(read_tool_call, as_list(answer.get("tool_calls")))),
            finish_reason=as_text(message.get("finish_reason")),
            usage=read_usage({_COUNTS.get(name, name): count for name, count in counts.items()}),
            model=as_text(metadata.get("model")) or self.run.model,
        )
        self.run.events.append(
            Call(
                time=stated_time(metadata.get("timestamp")),
                conversation=conversation,
                length=length,
                response=response.to_document(),
                model=response.model,
                tools=[{"type": "function", "function": tool} for tool in tools],
                interaction_id=as_text(metadata.get("interaction_id")),
                agent=agent,
                duration_seconds=as_number(metadata.get("duration_seconds")),
                complete=metadata.get("complete") is not False,
                replayed_from=origin,
            )
        )

    def _add_result(self, message: Members, agent: ForeignAgent, *, is_new: bool) -> None:
        """Remember a result until a call sees it.

        If the tree has a fuller result than the model saw, add an execution at once.
        """
        tool_response = as_dict(message.get("tool_response"))
        call_id, failure = as_text(tool_response.get("id")) or "", as_text(tool_response.get("error"))
        if not is_new or call_id in self.executed:
            return
        execution = ToolRun(
            time="",
            name=as_text(tool_response.get("name")) or "",
            arguments=tool_response.get("arguments"),
            call_id=call_id or None,
            ended="",
            result=tool_response.get("response"),
            agent=agent,
        )
        if failure is not None:
            execution.success, execution.result, execution.error = False, None, failure
        if tool_response.get("response") == (message.get("content") or "") or failure is not None:
            self.unseen[call_id] = execution
            return
        self.executed.add(call_id)
        self.run.events.append(execution)


def _is_shown(message: Members) -> bool:
    return _metadata(message).get("shown_to_model") is not False


def _metadata(message: Members) -> HierarchyMetadata:
    return cast("HierarchyMetadata", as_dict(message.get("metadata")))


def _role(message: Members) -> str | None:
    return as_text(message.get("role"))


def _message(message: Members) -> Message:
    metadata, result = _metadata(message), as_dict(message.get("tool_response"))
    content, parts = message.get("content"), as_list(metadata.get("parts"))
    if parts and content is not None:
        content = [{"type": "text", "text": content}, *parts]
    elif parts:
        content = parts
    extra = dict(as_dict(metadata.get("extra")))
    if isinstance(result.get("error"), str):
        extra["is_error"] = True
    return Message(
        as_text(metadata.get("original_role")) or _role(message) or "user",
        content_of(content),
        tuple(map(read_tool_call, map(_call, as_list(message.get("tool_calls"))))),
        as_text(result.get("id")),
        as_text(metadata.get("name")) or as_text(result.get("name")),
        as_text(message.get("reasoning")),
        extra=extra,
    )


def _call(call: Payload) -> Members:
    members = as_dict(call)
    return {"call_id": members.get("id"), "name": members.get("name"), "arguments": members.get("arguments")}


def _scores(reward: Members, step_numbers: Payload = None) -> Iterator[TimedFact]:
    """Yield the components of a reward.

    `step_numbers` are the numbers of the agent's steps in one step of the tree. If there are several numbers, the tree
    does not say to which step a component belongs. The component is then kept unchanged, like a component without a
    value.
    """
    numbers = as_list(step_numbers)
    for component in map(as_dict, as_list(reward.get("components"))):
        value, weight = as_number(component.get("value")), as_number(component.get("weight"))
        if value is None or len(numbers) > 1:
            yield TimedFact.unread(what="reward", value=component)
            continue
        if weight is None:
            weight = 1.0
        yield TimedFact.reward(
            name=as_text(component.get("name")) or "reward",
            value=value,
            weight=weight,
            step_number=next((number for number in numbers if isinstance(number, int)), None),
            explanation=as_text(component.get("explanation")),
        )
