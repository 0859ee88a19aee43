"""Writes a run as an episode with one trace, which is a line of verifiers' `traces.jsonl`. prime-rl reads the same.

A trace is a graph of messages. A node has the tokens that it adds to those of its ancestors, so the tokens along a path
are a branch of the rollout (`figures/rollouts.py`). A server states the tokens of a whole prompt, not of each message.
So the tokens between two answers are on the node of the later answer, and `mask` is False for them. verifiers puts the
end of a prompt there too. Source: `verifiers/v1/graph.py`, `trace.py` and `episode.py` of 0.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.call_figures import without_replayed_usage
from trace_recorder.figures.content.chat_form import arguments_text, chat_part, is_function
from trace_recorder.figures.content.kinds import IMAGES, IMAGES_BY_ADDRESS, THOUGHTS
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.figures.rollouts import SAMPLING, Rollout, SampledAnswer, TokenSpan, sampled_rollout
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    ANNOTATIONS,
    GAPS,
    OTHER_CALLS,
    STEP_NOTES,
    ContentSupport,
    FormatSupport,
    count,
    count_unsupported_contents,
)
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, answer_of
from trace_recorder.values.content_parts import Image, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import Trajectory

Node = dict[str, Payload]

VERSION = 1
"""The version of the schema of traces."""
_LIBRARY = "0.4.0"
_SHOWN = ContentSupport.of(IMAGES, IMAGES_BY_ADDRESS)
SUPPORTED: FormatSupport = {"instructions": _SHOWN, "questions": _SHOWN, "answers": ContentSupport.of(THOUGHTS)}
_FINISH_REASONS = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "STOP", "completed", "eos", "word"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "limit"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
}
"""verifiers' word for the reasons of each provider. It has no word for any other reason."""


@view
def to_verifiers(left_out: LeftOut, trajectory: Trajectory) -> list[Node]:
    """Return the episode of a run, as the only element of a list.

    A call without token ids is a node without tokens.
    """
    turns = turns_of(trajectory)
    count_unsupported_contents(turns, left_out, SUPPORTED)
    count(trajectory, left_out, STEP_NOTES, ANNOTATIONS, GAPS, OTHER_CALLS)
    left_out.add("rewards of steps", sum(reward.step_number is not None for reward in trajectory.rewards))
    graph = _Graph(turns, sampled_rollout(trajectory), left_out)
    for call in trajectory.llm_interactions:
        if is_turn(call.api):
            graph.add(call)
    task = {"type": "Task", "data": {"prompt": trajectory.task}}
    error = trajectory.error and {"type": trajectory.error.type, "message": trajectory.error.message}
    weights = {reward.name: reward.weight for reward in trajectory.rewards if reward.step_number is None}
    trace = {
        "version": VERSION,
        "id": trajectory.trajectory_id,
        "verifiers": {"version": _LIBRARY},
        "task": task,
        "agent": {"config": {}, "name": "agent"},
        "tools": graph.tools(),
        "nodes": graph.nodes,
        "calls": graph.calls,
        "rewards": {name: {"score": value, "weight": weights[name]} for name, value in rewards_of(trajectory).items()},
        "info": {"trace_recorder": {"metadata": trajectory.metadata}},
        "is_completed": trajectory.status in {"completed", "failed"},
        "ok": trajectory.status == "completed",
        "errors": [error] if error else [],
        "timing": without_none(start=_epoch(trajectory.start_time)),
    }
    episode = {"id": trajectory.trajectory_id, "task": task, "ok": trace["ok"], "traces": [trace]}
    group = trajectory.metadata.get("group")
    if group is not None:
        episode["group"] = {"id": str(group)}
    return [episode]


class _Place(NamedTuple):
    """Where an answer is in the branches: the answer that its prompt extends, and its spans of tokens."""

    parent: SampledAnswer | None
    spans: tuple[TokenSpan, ...]


class _Graph:
    """The nodes and calls of a trace."""

    def __init__(self, turns: Sequence[Turn], rollout: Rollout, left_out: LeftOut) -> None:
        self.nodes: list[Node] = []
        self.calls: list[Node] = []
        self._turns = {turn.interaction.interaction_id: turn for turn in turns}
        self._places = _places(rollout)
        self._node_of: dict[SampledAnswer, int] = {}
        self._left_out = left_out

    def add(self, call: LLMInteraction) -> None:
        """Add the new messages of a call's prompt, its answers, and the call itself.

        A call without an answer has no node, so its prompt has no place.
        """
        if not call.answered or call.error is not None:
            self._left_out.add("prompts of calls without an answer")
            self.calls.append(_call(call, None))
            return
        turn, time = self._turns[call.interaction_id], _epoch(call.timestamp) or 0.0
        parent = self._parent(turn, self._places.get(SampledAnswer(call.interaction_id)))
        node, messages = None, turn.messages()
        if parent is not None:
            previous = turn.previous and turn.previous.interaction.interaction_id
            node, messages = self._node_of[parent], ()
            if turn.exact and previous == parent.interaction_id:
                messages = turn.appended
        for message in messages:
            node = self._append(node, message, time)
        self.calls.append(_call(call, len(self.nodes)))
        for choice in range(max(1, len(call.response.choices))):
            answer = SampledAnswer(call.interaction_id, choice)
            spans = self._places.get(answer, _Place(None, ())).spans
            self._node_of[answer] = len(self.nodes)
            self._append(node, answer_of(call.response, choice), time, spans, is_sampled=not call.is_replayed)

    def tools(self) -> list[Node]:
        """Return the tools of all calls. The latest definition of a name counts."""
        by_name = {tool.name: tool for turn in self._turns.values() for tool in turn.tools}
        self._left_out.add("tools without a schema", sum(not is_function(tool) for tool in by_name.values()))
        return [
            {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}
            for tool in by_name.values()
            if is_function(tool)
        ]

    def _parent(self, turn: Turn, place: _Place | None) -> SampledAnswer | None:
        """Return the answer that a call extends: by its tokens if there are ids, otherwise by its messages."""
        if place is not None:
            return place.parent
        if turn.exact and turn.previous is not None:
            answer = SampledAnswer(turn.previous.interaction.interaction_id, turn.choice)
            if answer in self._node_of:
                return answer
        return None

    def _append(
        self,
        parent: int | None,
        message: Message,
        time: float,
        spans: Sequence[TokenSpan] = (),
        *,
        is_sampled: bool = False,
    ) -> int:
        self.nodes.append(
            {
                "parent": parent,
                "message": _message(message),
                "sampled": is_sampled,
                "timestamp": time,
                "token_ids": [identity for span in spans for identity in span.token_ids],
                "mask": [span.is_sampled and not span.is_shared for span in spans for _ in span.token_ids],
                "logprobs": [score for span in spans if not span.is_shared for score in span.logprobs or ()],
            }
        )
        return len(self.nodes) - 1


def _places(rollout: Rollout) -> dict[SampledAnswer, _Place]:
    places: dict[SampledAnswer, _Place] = {}
    for branch in rollout.branches:
        parent: SampledAnswer | None = None
        spans: tuple[TokenSpan, ...] = ()
        for span in branch.spans:
            spans = *spans, span
            if span.is_sampled:
                places.setdefault(span.answer, _Place(parent, spans))
                parent, spans = span.answer, ()
    return places


def _call(call: LLMInteraction, node: int | None) -> Node:
    counts, start = counts_of(without_replayed_usage(call)), _epoch(call.timestamp) or 0.0
    usage: Node | None = None
    if counts is not None and counts.prompt is not None and counts.completion is not None:
        usage = {"prompt_tokens": counts.prompt - (counts.cache_read or 0), "completion_tokens": counts.completion}
        usage |= without_none(
            cached_input_tokens=counts.cache_read, reasoning_tokens=counts.reasoning, cost=stated_cost(call)
        )
    error: Node | None = None
    if call.error is not None:
        error = {"type": call.error.type, "message": call.error.message} | without_none(status_code=call.error.status)
    return without_none(
        node=node,
        model=call.response.model or call.model,
        sampling={name: value for name, value in call.parameters.items() if name in SAMPLING},
        finish_reason=_FINISH_REASONS.get(call.response.finish_reason or ""),
        usage=usage,
        time={"start": start, "end": start + (call.duration_seconds or 0.0)},
        error=error,
    )


def _message(message: Message) -> Node:
    if message.role == "assistant":
        calls = [
            {"id": call.call_id, "name": call.name, "arguments": arguments_text(call)} for call in message.tool_calls
        ]
        return {"role": "assistant", "content": text_of(message)} | without_none(
            reasoning_content=message.reasoning, tool_calls=calls or None
        )
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id or "", "content": _content(message)} | without_none(
            name=message.name
        )
    return {"role": "user" if message.role == "user" else "system", "content": _content(message)}


def _content(message: Message) -> Payload:
    parts = parts_of(message)
    if not any(isinstance(part, Image) for part in parts):
        return text_of(message)
    return [chat_part(part) for part in parts if isinstance(part, Text | Image)]


def _epoch(timestamp: str | None) -> float | None:
    time = parse_time(timestamp)
    if time is None:
        return None
    return time.timestamp()
