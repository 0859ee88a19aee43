"""The attributes of spans in Langfuse's form: chat messages as input and output, and input tokens without cached ones.

https://langfuse.com/integrations/native/opentelemetry. Messages have OpenAI's form, which Langfuse and LangSmith both
show. `exporters/langsmith.py` makes the runs of LangSmith from these spans.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.dialects.dialect import operation_of
from trace_recorder.figures.content.chat_form import arguments_text, chat_call, chat_part, function_of, result_text
from trace_recorder.formats.spans.attribute_names import langfuse
from trace_recorder.formats.spans.writing.genai import conversation_id, text_of_value
from trace_recorder.formats.spans.writing.messages import SpanPrompt, attribute_json
from trace_recorder.formats.spans.writing.span import AttributeValue, after, iso, nanoseconds
from trace_recorder.formats.spans.writing.tree import ToolNode
from trace_recorder.reading.relations.turn import answer_of
from trace_recorder.values.content_parts import Part, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import AgentStep, Trajectory

NO_TOKENS = {"input": 0, "output": 0, "total": 0}
"""The token counts of a replayed answer. If there were no counts, the services would estimate tokens and a cost."""


@dataclass(slots=True)
class LangfuseAttributes:
    """Writes the attributes. If `content` is False, prompts, answers, arguments and results are left out."""

    content: bool = True

    def agent(self, trajectory: Trajectory) -> dict[str, AttributeValue]:
        """Return the attributes of the run's own span, and of its trace."""
        attributes = {langfuse.TYPE: "agent", **without_none(**{"session.id": conversation_id(trajectory)})}
        if self.content and trajectory.task is not None:
            attributes[langfuse.INPUT] = attributes["langfuse.trace.input"] = text_of_value(trajectory.task)
        if self.content and trajectory.final_result is not None:
            attributes[langfuse.OUTPUT] = attributes["langfuse.trace.output"] = text_of_value(trajectory.final_result)
        return attributes

    def sub_agent(self, source: LLMInteraction | AgentStep, trajectory: Trajectory) -> dict[str, AttributeValue]:  # noqa: ARG002
        """Return the attributes of the span of an agent that another agent started."""
        return {langfuse.TYPE: "agent"}

    def step(self, step: AgentStep) -> dict[str, AttributeValue]:
        """Return the attributes of a step."""
        return {langfuse.TYPE: "chain", f"{langfuse.PREFIX}metadata.step_number": str(step.step_number)}

    def call(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        """Return the attributes of a call to a model."""
        attributes: dict[str, AttributeValue] = {langfuse.TYPE: "generation"}
        if operation_of(call.api) == "embeddings":
            attributes[langfuse.TYPE] = "embedding"
        attributes |= without_none(**{langfuse.MODEL: call.response.model or call.model})
        usage, cost = langfuse_usage(call), stated_cost(call)
        if call.is_replayed:
            usage, cost = NO_TOKENS, 0
        if usage:
            attributes[langfuse.USAGE] = attribute_json(usage)
        if cost is not None:
            attributes[langfuse.COST] = attribute_json({"total": cost})
        timestamp = call.timestamp
        if call.attempts:
            timestamp = call.attempts[-1].timestamp
        start = nanoseconds(timestamp)
        if start is not None and call.time_to_first_token_seconds is not None:
            attributes[langfuse.FIRST_TOKEN_TIME] = attribute_json(iso(after(start, call.time_to_first_token_seconds)))
        if self.content:
            attributes |= self._messages(call, prompt)
        return attributes

    @staticmethod
    def _messages(call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {}
        if prompt.is_known:
            attributes[langfuse.INPUT] = attribute_json(langfuse_messages([*prompt.instructions, *prompt.messages]))
        if prompt.tools:
            attributes[langfuse.TOOLS] = attribute_json([*map(function_of, prompt.tools)])
        if call.answered:
            attributes[langfuse.OUTPUT] = attribute_json(chat_message(answer_of(call.response)))
        parameters = call.source.request_without_messages().parameters
        simple = {name: value for name, value in parameters.items() if isinstance(value, str | int | float | bool)}
        if simple:
            attributes[langfuse.PARAMETERS] = attribute_json(simple)
        return attributes

    def tool(self, tool: ToolNode) -> dict[str, AttributeValue]:
        """Return the attributes of a tool's execution."""
        attributes: dict[str, AttributeValue] = {langfuse.TYPE: "tool"}
        if self.content:
            if tool.call is not None:
                attributes[langfuse.INPUT] = text_of_value(tool.call.arguments)
            attributes[langfuse.OUTPUT] = text_of_value(result_text(tool.result))
        return attributes


def langfuse_usage(call: LLMInteraction) -> dict[str, int] | None:
    """Return how many tokens of each kind a call has. Each token counts in one kind only."""
    counts = counts_of(call)
    if counts is None:
        return None
    tokens: dict[str, int] = {}
    if counts.prompt is not None:
        tokens["input"] = max(0, counts.prompt - (counts.cache_read or 0) - (counts.cache_write or 0))
    if counts.completion is not None:
        tokens["output"] = max(0, counts.completion - (counts.reasoning or 0))
    tokens |= without_none(
        cache_read_input_tokens=counts.cache_read,
        cache_creation_input_tokens=counts.cache_write,
        output_reasoning_tokens=counts.reasoning,
    )
    if counts.prompt is not None and counts.completion is not None:
        tokens["total"] = counts.prompt + counts.completion
    return tokens


def langfuse_messages(messages: Sequence[Message]) -> list[Payload]:
    """Return messages in the form of OpenAI's chat API."""
    return [*map(chat_message, messages)]


def chat_message(message: Message) -> dict[str, Payload]:
    """Return a message in the form of OpenAI's chat API. Thoughts are a member next to its content."""
    parts = parts_of(message)
    content: Payload = None
    if len(parts) == 1 and isinstance(parts[0], Text):
        content = parts[0].text
    elif parts:
        content = [*map(_part, parts)]
    calls = [chat_call(call, arguments_text(call)) for call in message.tool_calls]
    more = {"tool_calls": calls or None, "tool_call_id": message.call_id, "name": message.name}
    return {"role": message.role, "content": content} | without_none(reasoning_content=message.reasoning, **more)


def _part(part: Part) -> dict[str, Payload]:
    written = chat_part(part)
    if isinstance(written, dict):
        return written
    return {"type": "text", "text": json.dumps(written)}
