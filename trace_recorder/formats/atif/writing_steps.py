"""The steps of an ATIF document: conversations, message by message.

An answer of the model is an agent step. The result of a tool is in the observation of the step that called the tool.
Every other message is a user step or a system step. `is_copied_context` marks messages that were copied from an earlier
conversation, and answers that the model did not give in this run, such as replayed answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta

from trace_recorder.figures.call_figures import REPLAYED_FROM
from trace_recorder.figures.content.chat_form import arguments_object, result_text
from trace_recorder.figures.conversations.conversation import Conversation, ConversationLine
from trace_recorder.figures.conversations.inferred_agents import InferredAgent
from trace_recorder.figures.conversations.steps_of_turns import StepsByTurn
from trace_recorder.figures.sampled_tokens import tokens_of
from trace_recorder.formats.atif.media import AtifMediaWriter
from trace_recorder.formats.atif.members import EXTRA_KEY, effort_of, kept_in
from trace_recorder.formats.atif.own_members import (
    SERVER_CALLS,
    TOOL_STEP_FLAG,
    AtifRecordedStep,
    CallExtra,
    ResultExtra,
)
from trace_recorder.formats.recognition import IMPORT_FORMATS
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import AgentStep

_SAMPLED = frozenset({"token_ids", "logprobs", "logprobsResult"})
"""Members of a choice that are left out of `extra`, because the metrics of the step have them."""


def is_recorded_after_answer(call: LLMInteraction) -> bool:
    """Whether the time of a call is the time of its answer.

    The result is True for calls recorded by hand, and for calls that were imported from another tool's file.
    """
    return call.api is None or call.api in IMPORT_FORMATS


def tools_step(step: AgentStep, timestamp: str | None, number: int = 0) -> dict[str, Payload]:
    """Return an ATIF step with the tools of `step`, which no model requested."""
    results = []
    for result in step.tool_results:
        content = result_text(result)
        extra = extra_of_result(result, content, derived=False)
        results.append({"source_call_id": result.call_id, "content": content} | without_none(extra=extra or None))
    observation: dict[str, Payload] = {}
    if results:
        observation = {"observation": {"results": results}}
    return {
        "step_id": number,
        "timestamp": timestamp or step.timestamp,
        "source": "agent",
        "message": "",
        "tool_calls": [call_members(call) for call in step.tool_calls],
        **observation,
        "llm_call_count": 0,
        "extra": {TOOL_STEP_FLAG: True} | without_none(error=step.error),
    }


def extra_of_result(result: ToolResult, content: Payload, *, derived: bool) -> dict[str, Payload]:
    """Return the facts about a tool result that are not in `content`, the text of its observation.

    If `derived` is True, the result was only read from a later prompt, and its value is left out.
    """
    value, error = result.result, result.error
    if derived or value == content:
        value = None
    if error == content:
        error = None
    members = ResultExtra(success=result.success, error=error, result=value, duration_seconds=result.duration_seconds)
    extra = without_none(**members)
    if result.mcp:
        extra[SERVER_CALLS] = [call.to_document() for call in result.mcp]
    return extra


def call_members(call: ToolCall) -> dict[str, Payload]:
    """Return a tool call in ATIF's form."""
    extra = {**call.extra, **without_none(call_id_made_up=call.call_id_made_up or None)}
    members = {"tool_call_id": call.call_id, "function_name": call.name, "arguments": arguments_object(call)}
    if extra:
        members["extra"] = extra
    return members


def model_members(turn: Turn) -> dict[str, Payload]:
    """Return the model that answered, and the reasoning effort that was requested."""
    call = turn.interaction
    return without_none(model_name=call.response.model or call.model, reasoning_effort=effort_of(turn.parameters))


def call_step_members(
    turn: Turn, steps: Iterable[AgentStep], *, is_side_call: bool, inferred: InferredAgent | None
) -> dict[str, Payload]:
    """Return the metrics of a call, and in `extra` the facts for which ATIF has no member.

    If a replay or a fork gave the answer, the step is marked as copied context. The metrics are then under
    `replayed_from` in `extra`.
    """
    call = turn.interaction
    imported = kept_in(call.response.extra)
    metrics = metrics_of_call(call)
    if "metrics_extra" in imported:
        metrics["extra"] = {**metrics.get("extra", {}), **imported["metrics_extra"]}
    extra = _extra_of_call(turn) | without_none(
        agent_steps=[_agent_step(step) for step in steps if not step.derived] or None,
        side_call=is_side_call or None,
        inferred_agent=inferred and inferred.to_document(),
    )
    extra |= imported.get("extra", {})
    if call.replayed_from is not None:
        origin = call.replayed_from.to_document() | without_none(metrics=metrics or None)
        return {"is_copied_context": True, "extra": extra | {REPLAYED_FROM: origin}}
    members = without_none(metrics=metrics or None)
    if "llm_call_count" in imported:
        members["llm_call_count"] = imported["llm_call_count"]
    elif call.answered or call.api is not None:
        members["llm_call_count"] = 1
    return members | {"extra": extra}


def metrics_of_call(call: LLMInteraction) -> dict[str, Payload]:
    """Return a call's token counts, its cost if the provider stated it, and its token ids and log-probabilities."""
    counts, tokens = counts_of(call), tokens_of(call)
    metrics = without_none(
        prompt_tokens=counts and counts.prompt,
        completion_tokens=counts and counts.completion,
        cached_tokens=counts and counts.cache_read,
        cost_usd=stated_cost(call),
        prompt_token_ids=tokens.prompt_ids,
        completion_token_ids=tokens.completion_ids,
        logprobs=tokens.logprobs,
    )
    usage = call.response.usage.to_document()
    if usage:
        metrics["extra"] = {"usage": usage}
    return metrics


def _extra_of_call(turn: Turn) -> dict[str, Payload]:
    call, response = turn.interaction, turn.interaction.response
    extra = CallExtra(
        interaction_id=call.interaction_id,
        requested_at=call.timestamp,
        step_number=call.step_number,
        provider=call.provider,
        api=call.api,
        model_asked_for=call.model,
        response_id=response.id,
        finish_reason=response.finish_reason,
        audio_end_ms=response.audio_end_ms,
        other_choices=[choice.to_document() for choice in response.choices[1:]] or None,
        choice_extra=None,
        response_extra=_without(response.extra, {EXTRA_KEY}),
        parameters=_without(turn.parameters, {"model"}),
        duration_seconds=call.duration_seconds,
        time_to_first_token_seconds=call.time_to_first_token_seconds,
        stream=call.stream or None,
        run_inferred=call.run_inferred or None,
        complete=None,
        ended_by=call.ended_by,
        error=None,
        attempts=None,
    )
    if is_recorded_after_answer(call):
        extra["requested_at"] = None
    if response.choices:
        extra["choice_extra"] = _without(response.choices[0].extra, _SAMPLED)
    if not call.complete:
        extra["complete"] = False
    if call.error is not None:
        extra["error"] = call.error.to_document()
    if len(call.attempts) > 1:
        extra["attempts"] = [attempt.to_document() for attempt in call.attempts]
    return without_none(**extra)


def _without(members: Mapping[str, Payload], names: AbstractSet[str]) -> dict[str, Payload] | None:
    return {name: value for name, value in members.items() if name not in names} or None


def _agent_step(step: AgentStep) -> dict[str, Payload]:
    """Return the members of a step that the agent recorded, except members that the step's call has too."""
    members = AtifRecordedStep(
        step_number=step.step_number,
        timestamp=step.timestamp,
        state=step.state,
        reflection=step.reflection,
        error=step.error,
        duration_seconds=step.duration_seconds,
    )
    return without_none(**members, **step.extra)


@dataclass(slots=True)
class AtifStepWriter:
    """Writes the ATIF steps of conversations, one conversation after the other.

    `by_turn` maps a turn to the step of its answer.
    """

    media: AtifMediaWriter
    recorded: StepsByTurn
    side_calls: frozenset[Turn]
    inferred_agents: Mapping[str, InferredAgent]
    steps: list[dict[str, Payload]] = field(default_factory=list)
    by_turn: dict[Turn, dict[str, Payload]] = field(default_factory=dict)
    _open: dict[str, dict[str, Payload]] = field(default_factory=dict)

    def add(self, conversation: Conversation) -> None:
        """Append the steps of a conversation."""
        self._open = {}
        for line in conversation.lines:
            if line.message.role == "tool":
                self._add_tool_message(line)
            elif line.message.role == "assistant":
                self._add_answer(line)
            elif line.message.role in {"system", "developer"}:
                self._append_step(line, "system", {"message": self.media.content(line.message)})
            else:
                self._append_step(line, "user", {"message": self.media.content(line.message)})
        for turn in conversation.turns:
            self._add_results(turn)

    def add_kept(self, steps: Iterable[Mapping[str, Payload]]) -> None:
        """Append steps of an imported document that came after the last call."""
        self.steps += [{**step, "step_id": len(self.steps) + n} for n, step in enumerate(steps, start=1)]

    def add_tools(self, tools: Iterable[AgentStep]) -> None:
        """Insert the steps of tools that no model requested, in the order of time."""
        for tool in tools:
            later = (place for place, step in enumerate(self.steps) if step.get("timestamp", "") > tool.timestamp)
            self.steps.insert(next(later, len(self.steps)), tools_step(tool, tool.timestamp))
        for number, step in enumerate(self.steps, start=1):
            step["step_id"] = number

    def _append_step(self, line: ConversationLine, source: str, members: dict[str, Payload]) -> dict[str, Payload]:
        imported: Mapping[str, Payload] = {}
        if not line.answer and line.message.role != "tool":
            imported = kept_in(line.message.extra)
        step = {
            "step_id": len(self.steps) + 1,
            **without_none(timestamp=_timestamp_of(line)),
            "source": source,
            **members,
            **without_none(is_copied_context=line.copied or None),
            **imported,
        }
        self.steps.append(step)
        return step

    def _add_answer(self, line: ConversationLine) -> None:
        """Append a step for an answer of the model, or for an assistant message that the agent wrote itself."""
        message = line.message
        calls = [call_members(call) for call in message.tool_calls]
        members = {"message": self.media.content(message)}
        members |= without_none(reasoning_content=message.reasoning, tool_calls=calls or None)
        if line.answer:
            recorded = self.recorded.steps.get(line.turn, ())
            inferred = self.inferred_agents.get(line.turn.interaction.interaction_id)
            is_side_call = line.turn in self.side_calls
            of_call = call_step_members(line.turn, recorded, is_side_call=is_side_call, inferred=inferred)
            step = self._append_step(line, "agent", model_members(line.turn) | members | of_call)
            self.by_turn[line.turn] = step
            for tools in self.recorded.unrequested.get(line.turn, ()):
                self.steps.append(tools_step(tools, step.get("timestamp"), len(self.steps) + 1))
        else:
            step = self._append_step(line, "agent", members)
            if EXTRA_KEY not in message.extra:
                step["is_copied_context"] = True
        self._open.update((call.call_id, step) for call in message.tool_calls)

    def _add_tool_message(self, line: ConversationLine) -> None:
        """Add a tool message to the step that called the tool.

        If there is no such step, append a step for the message.
        """
        message = line.message
        imported = kept_in(message.extra)
        step = self._open.get(message.call_id or "")
        if step is None and imported.get("in_step"):
            step = next((earlier for earlier in reversed(self.steps) if earlier["source"] == "agent"), None)
        references = imported.get("subagent_trajectory_ref")
        result = {"content": self.media.content(message)}
        if references is not None:
            result["subagent_trajectory_ref"] = [*references]
        if step is None:
            extra = without_none(tool_call_id=message.call_id, tool_name=message.name)
            self._append_step(line, "system", {"message": "", "observation": {"results": [result]}, "extra": extra})
            return
        extra = {}
        failed = message.extra.get("is_error")
        if isinstance(failed, bool):
            extra["success"] = not failed
        extra |= imported.get("extra", {})
        _observed_results(step).append(without_none(source_call_id=message.call_id, **result, extra=extra or None))

    def _add_results(self, turn: Turn) -> None:
        """Add the results that the agent recorded for the calls of a turn."""
        step = self.by_turn[turn]
        for recorded in self.recorded.steps.get(turn, ()):
            for result in recorded.tool_results:
                _add_result(step, result, derived=recorded.derived and result.duration_seconds is None)
        for reference in kept_in(turn.interaction.response.extra).get("refs", ()):
            _add_references(step, reference)


def _timestamp_of(line: ConversationLine) -> str | None:
    """Return the time at which a prompt was sent or an answer was complete, or None if that time is unknown.

    A call recorded by hand has only the time of its answer.
    """
    call = line.turn.interaction
    if is_recorded_after_answer(call) == line.answer:  # the time is that of the message
        return call.timestamp or None
    if not line.answer:
        return None
    start = call.started_at
    if call.duration_seconds is None or start is None:
        return None
    return (start + timedelta(seconds=call.duration_seconds)).isoformat()


def _add_result(step: dict[str, Payload], result: ToolResult, *, derived: bool) -> None:
    """Add the recorded members of a tool result to the observation of that result.

    If the step has no such observation, append one.
    """
    text = result_text(result)
    observed = next((each for each in _existing_results(step) if _is_result(each, result, text)), None)
    if observed is None:
        observed = {}
        if any(call["tool_call_id"] == result.call_id for call in step.get("tool_calls", ())):
            observed["source_call_id"] = result.call_id
        if result.success is not None or result.error is not None or result.result is not None:
            observed["content"] = text
        _observed_results(step).append(observed)
    extra = observed.get("extra", {}) | extra_of_result(result, observed.get("content"), derived=derived)
    if extra:
        observed["extra"] = extra


def _observed_results(step: dict[str, Payload]) -> list[Payload]:
    results: list[Payload] = step.setdefault("observation", {"results": []})["results"]
    return results


def _existing_results(step: dict[str, Payload]) -> list[Payload]:
    results: list[Payload] = step.get("observation", {}).get("results", [])
    return results


def _is_result(observed: Mapping[str, Payload], result: ToolResult, text: str) -> bool:
    """Whether an observation and a result have the same call id, or the same content if the result has no id."""
    if result.call_id:
        return observed.get("source_call_id") == result.call_id
    return "source_call_id" not in observed and observed.get("content") == text


def _add_references(step: dict[str, Payload], reference: Mapping[str, Payload]) -> None:
    """Add an imported result, which consists of references to other documents, to the observation of its call."""
    call_id = reference.get("source_call_id")
    results = [result for result in _existing_results(step) if call_id and result.get("source_call_id") == call_id]
    if results:
        results[0].setdefault("subagent_trajectory_ref", []).extend(reference["subagent_trajectory_ref"])
    else:
        _observed_results(step).append(dict(reference))
