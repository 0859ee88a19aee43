"""The attributes of spans in Langfuse's form: chat messages as input and output, and input tokens without cached ones.

https://langfuse.com/integrations/native/opentelemetry. Messages have OpenAI's form, which Langfuse and LangSmith both
show. `exporters/langsmith.py` makes the runs of LangSmith from these spans.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.dialects.dialect import operation_of
from trace_recorder.figures.content.chat_form import arguments_text, call_of, chat_part, function_of, result_text
from trace_recorder.formats.spans.writing.genai import text_of_value
from trace_recorder.formats.spans.writing.messages import SpanPrompt, json_of
from trace_recorder.formats.spans.writing.span import AttributeValue, after, iso, nanoseconds
from trace_recorder.formats.spans.writing.tree import ToolNode
from trace_recorder.reading.relations.turn import answer_of
from trace_recorder.values.content_parts import Part, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import AgentStep, Trajectory

_PREFIX = "langfuse.observation."
INPUT, OUTPUT, TYPE, USAGE = f"{_PREFIX}input", f"{_PREFIX}output", f"{_PREFIX}type", f"{_PREFIX}usage_details"
NO_TOKENS = {"input": 0, "output": 0, "total": 0}
"""The token counts of a replayed answer. If there were no counts, the services would estimate tokens and a cost."""
MODEL, PARAMETERS, TOOLS = f"{_PREFIX}model.name", f"{_PREFIX}model.parameters", f"{_PREFIX}metadata.tools"


@dataclass(slots=True)
class LangfuseAttributes:
    """Writes the attributes. If `content` is False, prompts, answers, arguments and results are left out."""

    content: bool = True

    def agent(self, trajectory: Trajectory) -> dict[str, AttributeValue]:
        """Return the attributes of the run's own span, and of its trace."""
        attributes = {TYPE: "agent", **without_none(**{"session.id": trajectory.trajectory_id})}
        values = without_none(input=trajectory.task, output=trajectory.final_result) if self.content else {}
        for name, value in values.items():
            attributes[f"{_PREFIX}{name}"] = attributes[f"langfuse.trace.{name}"] = text_of_value(value)
        return attributes

    def sub_agent(self, source: LLMInteraction | AgentStep, trajectory: Trajectory) -> dict[str, AttributeValue]:  # noqa: ARG002
        """Return the attributes of the span of an agent that another agent started."""
        return {TYPE: "agent"}

    def step(self, step: AgentStep) -> dict[str, AttributeValue]:
        """Return the attributes of a step."""
        return {TYPE: "chain", f"{_PREFIX}metadata.step_number": str(step.step_number)}

    def call(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        """Return the attributes of a call to a model."""
        is_embedding = operation_of(call.api) == "embeddings"
        attributes: dict[str, AttributeValue] = {TYPE: "embedding" if is_embedding else "generation"}
        model, usage = call.response.model or call.model, NO_TOKENS if call.is_replayed else usage_of(call)
        attributes |= without_none(**{MODEL: model, USAGE: json_of(usage) if usage else None})
        cost = 0 if call.is_replayed else stated_cost(call)
        if cost is not None:
            attributes[f"{_PREFIX}cost_details"] = json_of({"total": cost})
        start = nanoseconds(call.attempts[-1].timestamp if call.attempts else call.timestamp)
        if start is not None and call.time_to_first_token_seconds is not None:
            attributes[f"{_PREFIX}completion_start_time"] = json_of(iso(after(start, call.time_to_first_token_seconds)))
        return attributes | (self._messages(call, prompt) if self.content else {})

    @staticmethod
    def _messages(call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {}
        if prompt.is_known:
            attributes[INPUT] = json_of(chat_messages([*prompt.instructions, *prompt.messages]))
        if prompt.tools:
            attributes[TOOLS] = json_of([*map(function_of, prompt.tools)])
        if call.answered:
            attributes[OUTPUT] = json_of(chat_message(answer_of(call.response)))
        parameters = call.source.request_without_messages().parameters
        simple = {name: value for name, value in parameters.items() if isinstance(value, str | int | float | bool)}
        return attributes | ({PARAMETERS: json_of(simple)} if simple else {})

    def tool(self, tool: ToolNode) -> dict[str, AttributeValue]:
        """Return the attributes of a tool's execution."""
        attributes: dict[str, AttributeValue] = {TYPE: "tool"}
        if self.content:
            if tool.call is not None:
                attributes[INPUT] = text_of_value(tool.call.arguments)
            attributes[OUTPUT] = text_of_value(result_text(tool.result))
        return attributes


def usage_of(call: LLMInteraction) -> dict[str, int] | None:
    """Return how many tokens of each kind a call has. Each token counts in one kind only."""
    counts = counts_of(call)
    if counts is None:
        return None
    read, write, thought = counts.cache_read or 0, counts.cache_write or 0, counts.reasoning or 0
    tokens = {
        "input": None if counts.prompt is None else max(0, counts.prompt - read - write),
        "output": None if counts.completion is None else max(0, counts.completion - thought),
        "cache_read_input_tokens": counts.cache_read,
        "cache_creation_input_tokens": counts.cache_write,
        "output_reasoning_tokens": counts.reasoning,
    }
    total = None if counts.prompt is None or counts.completion is None else counts.prompt + counts.completion
    return {name: count for name, count in {**tokens, "total": total}.items() if count is not None}


def chat_messages(messages: Sequence[Message]) -> list[Payload]:
    """Return messages in the form of OpenAI's chat API."""
    return [*map(chat_message, messages)]


def chat_message(message: Message) -> dict[str, Payload]:
    """Return a message in the form of OpenAI's chat API. Thoughts are a member next to its content."""
    parts = parts_of(message)
    texts = [part.text for part in parts if isinstance(part, Text)]
    content: Payload = [*map(_part, parts)]
    if len(texts) == len(parts) < 2:
        content = texts[0] if texts else None
    calls = [call_of(call, arguments_text(call)) for call in message.tool_calls]
    more = {"tool_calls": calls or None, "tool_call_id": message.call_id, "name": message.name}
    return {"role": message.role, "content": content} | without_none(reasoning_content=message.reasoning, **more)


def _part(part: Part) -> dict[str, Payload]:
    written = chat_part(part)
    return written if isinstance(written, dict) else {"type": "text", "text": json.dumps(written)}
