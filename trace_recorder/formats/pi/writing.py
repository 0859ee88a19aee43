"""Agent traces for the Hugging Face Hub, as sessions of Pi, version 3 (https://pi.dev/docs/latest/session-format).

Each conversation is one session in one file: a header line, a line with the tools, and a line for each message. Each
line is the child of the line before it. `datasets` recognises such a file by its structure and turns it into a row. Pi
counts tokens as Anthropic does: the member `input` does not include cached tokens.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.json_access import as_text
from trace_recorder.figures.call_figures import origin_of, without_replayed_usage
from trace_recorder.figures.content.chat_form import arguments_object, function_of, utf8_text
from trace_recorder.figures.content.finish_reasons import Ending, ending_of
from trace_recorder.figures.content.kinds import INTERLEAVING, THOUGHTS
from trace_recorder.figures.conversations.conversation import (
    Conversation,
    ConversationLine,
    conversations,
    lines_with_results,
)
from trace_recorder.figures.conversations.steps_of_turns import steps_by_turn
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    ARGUMENTS,
    SIDES,
    UNANSWERED,
    ContentSupport,
    FormatSupport,
    count_all_but,
    count_unsupported_contents,
    other_part_as_text,
)
from trace_recorder.formats.pi.own_members import (
    AGENT,
    AGENT_ID,
    HARNESS,
    INTERACTION,
    ORIGIN,
    PARENT_AGENT_ID,
    TASK,
    TOOLS_ENTRY,
)
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, choice_of
from trace_recorder.values.content_parts import Image, Part, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Block, Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import AgentStep, Trajectory

VERSION = 3
_SHOWN = ContentSupport.of(locations=("part", "images"))
_SUPPORTED: FormatSupport = {
    **dict.fromkeys(SIDES, _SHOWN),
    "answers": ContentSupport.of(INTERLEAVING, THOUGHTS, locations=("part", "images")),
}
"""Parts that are neither text nor an included image are written as text."""
_STOP_REASONS: dict[Ending | None, str] = {"length": "length", "tools": "toolUse", "filter": "error", "failed": "error"}
"""Pi's finish reasons other than "stop". `finishReason` has the provider's own word."""


@view
def to_traces(left_out: LeftOut, trajectory: Trajectory) -> list[list[dict[str, Payload]]]:
    """Return the sessions of a run, each as a list of lines for a JSONL file.

    A run without messages has no sessions.
    """
    turns = turns_of(trajectory)
    steps = steps_by_turn(trajectory, turns).steps
    count_all_but(trajectory, left_out, UNANSWERED, ARGUMENTS)
    count_unsupported_contents(turns, left_out, _SUPPORTED)
    all_conversations = conversations(trajectory, turns)
    identities = [session_identity(trajectory, number) for number in range(len(all_conversations))]
    sessions = []
    last_of_agent: dict[str | None, str] = {}
    for identity, conversation in zip(identities, all_conversations, strict=True):
        parent = None
        if conversation.kind == "continues":
            parent = last_of_agent.get(conversation.agent_key)
        writing = _PiSessionWriter(trajectory, conversation, steps, left_out)
        sessions.append(writing.lines(identity, parent))
        if conversation.kind != "apart":
            last_of_agent[conversation.agent_key] = identity
    return sessions


def session_identity(trajectory: Trajectory, number: int) -> str:
    """Return the id of a conversation of a run. The same conversation always has the same id."""
    base = utf8_text(trajectory.trajectory_id or "trajectory")
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{base}/{number}"))


class _PiSessionWriter:
    """Writes one conversation as the lines of a session."""

    def __init__(
        self,
        trajectory: Trajectory,
        conversation: Conversation,
        steps: Mapping[Turn, Sequence[AgentStep]],
        left_out: LeftOut,
    ) -> None:
        self._trajectory = trajectory
        self._conversation = conversation
        self._steps = steps
        self._left_out = left_out
        self._callers: dict[str, tuple[str, Turn]] = {}
        self._last: str | None = None
        self._count = 0

    def lines(self, identity: str, parent: str | None) -> list[dict[str, Payload]]:
        """Return all lines of the session."""
        conversation = self._conversation
        first = conversation.turns[0].interaction
        cwd = as_text(self._trajectory.metadata.get("cwd")) or ""
        session = {"type": "session", "version": VERSION, "id": identity, "timestamp": first.timestamp}
        session |= {"cwd": cwd, "harness": HARNESS}
        own_members = {
            AGENT: conversation.agent,
            AGENT_ID: conversation.agent_id,
            PARENT_AGENT_ID: conversation.parent_agent_id,
            TASK: self._trajectory.task,
        }
        session |= without_none(parentSession=parent, **own_members)
        lines = [session]
        lines += [self._entry("model_change", first, provider=first.provider or "", modelId=first.model or "")]
        if tools := self._conversation.tools():
            offered = {"tools": [function_of(tool) for tool in tools]}
            lines.append(self._entry("custom", first, customType=TOOLS_ENTRY, data=offered))
        lines += [self._message(line) for line in lines_with_results(self._conversation, self._steps)]
        return lines

    def _entry(self, kind: str, call: LLMInteraction, **members: Payload) -> dict[str, Payload]:
        """Return a line of the session, as the child of the line before it."""
        self._count += 1
        parent, self._last = self._last, f"{self._count:08x}"
        return {"type": kind, "id": self._last, "parentId": parent, "timestamp": call.timestamp, **members}

    def _message(self, line: ConversationLine) -> dict[str, Payload]:
        call, message = line.turn.interaction, line.message
        members: dict[str, Payload] = {"timestamp": milliseconds(call.timestamp)}
        if message.role == "tool":
            members = self._result(message) | members
        elif message.role == "assistant":
            members = self._assistant(line) | members
        elif message.role in {"system", "developer"}:
            members = {"role": "system", "content": self._content(message)} | members
        else:
            members = {"role": "user", "content": self._content(message)} | members
        return self._entry("message", call, message=members, **without_none(copied=line.copied or None))

    def _result(self, message: Message) -> dict[str, Payload]:
        name, turn = self._callers.get(message.call_id or "", (message.name or "", None))
        return {
            "role": "toolResult",
            "toolCallId": message.call_id or "",
            "toolName": name or message.name or "",
            "content": self._content(message),
            "isError": message.extra.get("is_error") is True or self._has_failed(turn, message.call_id),
        }

    def _has_failed(self, turn: Turn | None, call_id: str | None) -> bool:
        if turn is None:
            return False
        results = (result for step in self._steps.get(turn, ()) for result in step.tool_results)
        return any(result.success is False and result.call_id == call_id for result in results)

    def _assistant(self, line: ConversationLine) -> dict[str, Payload]:
        message = line.message
        self._callers |= {call.call_id: (call.name, line.turn) for call in message.tool_calls}
        if line.answer:
            blocks = choice_of(line.turn.interaction.response, line.choice).blocks
            content = [*_parts_in_order(blocks, message.tool_calls)]
            return {"role": "assistant", "content": content, **_answer_members(line.turn.interaction)}
        texts = [part for part in self._content(message) if part != {"type": "text", "text": ""}]
        calls = map(_call, message.tool_calls)
        return {"role": "assistant", "content": [*_thinking(message.reasoning), *texts, *calls]}

    def _content(self, message: Message) -> list[Payload]:
        return [self._part(part) for part in parts_of(message)]

    def _part(self, part: Part) -> dict[str, Payload]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Image) and part.data is not None:
            return {"type": "image", "data": part.data, **without_none(mimeType=part.media_type)}
        if isinstance(part, Image):
            return {"type": "text", "text": f"[image: {part.url}]"}
        return other_part_as_text(part, self._left_out)


def _parts_in_order(blocks: Iterable[Block], calls: Iterable[ToolCall]) -> Iterator[Payload]:
    """Yield the thoughts, texts and tool calls of an answer in the order in which the model wrote them.

    Blocks of any other kind are left out.
    """
    following = iter(calls)
    for block in blocks:
        if block.type == "reasoning":
            yield from _thinking(block.text)
        elif block.type == "text":
            yield {"type": "text", "text": block.text}
        elif block.type == "tool_call":
            yield _call(next(following))


def _thinking(text: str | None) -> list[Payload]:
    if not text:
        return []
    return [{"type": "thinking", "thinking": text}]


def _call(call: ToolCall) -> dict[str, Payload]:
    return {"type": "toolCall", "id": call.call_id, "name": call.name, "arguments": arguments_object(call)}


def _answer_members(call: LLMInteraction) -> dict[str, Payload]:
    """Return the members of an answer as Pi writes them, such as the model, the usage and the finish reason."""
    response, error = call.response, call.ended_by
    if call.error is not None:
        error = f"{call.error.type}: {call.error.message}"
    return {
        **without_none(api=call.api, provider=call.provider, model=response.model or call.model),
        **without_none(usage=_usage(without_replayed_usage(call)), responseId=response.id),
        "stopReason": _stop_reason(call),
        **without_none(finishReason=response.finish_reason, errorMessage=error, durationSeconds=call.duration_seconds),
        **without_none(**{INTERACTION: call.interaction_id, ORIGIN: origin_of(call, _usage(call))}),
    }


def _stop_reason(call: LLMInteraction) -> str:
    if call.error is not None:
        return "error"
    if not call.complete:
        return "aborted"
    stop_reason = _STOP_REASONS.get(ending_of(call.response.finish_reason), "stop")
    if stop_reason == "stop" and call.response.tool_calls:
        return "toolUse"
    return stop_reason


def _usage(call: LLMInteraction) -> dict[str, Payload] | None:
    counts = counts_of(call)
    if counts is None:
        return None
    usage: dict[str, Payload] = {}
    if counts.prompt is not None:
        usage["input"] = counts.prompt - (counts.cache_read or 0) - (counts.cache_write or 0)
    usage |= without_none(
        output=counts.completion,
        cacheRead=counts.cache_read,
        cacheWrite=counts.cache_write,
        reasoning=counts.reasoning,
        totalTokens=counts.total,
    )
    cost = stated_cost(call)
    if cost is not None:
        usage["cost"] = {"total": cost}
    return usage


def milliseconds(timestamp: str) -> int | None:
    """Return a time in milliseconds since 1970, or None if it is unknown."""
    time = parse_time(timestamp)
    if time is None:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)
