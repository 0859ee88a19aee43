"""The attributes of spans by OpenInference's conventions, which Phoenix and others read.

https://arize-ai.github.io/openinference/spec/semantic_conventions.html. Messages are flat: each member of a message is
an attribute, and the position of the message is part of the attribute's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trace_recorder.dialects.dialect import Operation, operation_of
from trace_recorder.figures.content.chat_form import arguments_text, result_text, text_lines
from trace_recorder.formats.spans.attribute_names import openinference
from trace_recorder.formats.spans.writing.genai import conversation_id, text_of_value
from trace_recorder.formats.spans.writing.messages import SpanPrompt, attribute_json, encodable
from trace_recorder.formats.spans.writing.span import AttributeValue
from trace_recorder.formats.spans.writing.tree import ToolNode
from trace_recorder.reading.relations.turn import answer_of
from trace_recorder.values.content_parts import Image, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import AgentStep, Trajectory

_KINDS: Mapping[Operation, str] = {"embeddings": "EMBEDDING", "rerank": "RERANKER", "moderation": "GUARDRAIL"}
"""The kinds of spans of calls that are not `LLM`."""
Attribute = tuple[str, AttributeValue]


@dataclass(slots=True)
class OpenInferenceAttributes:
    """Writes attributes by the conventions.

    If `content` is False, prompts, answers, arguments and results are left out.
    """

    content: bool = True

    def agent(self, trajectory: Trajectory) -> dict[str, AttributeValue]:
        """Return the attributes of the run's own span."""
        attributes: dict[str, AttributeValue] = {
            openinference.KIND: "AGENT",
            **without_none(**{openinference.SESSION: conversation_id(trajectory)}),
        }
        return attributes | dict(self._values(trajectory.task, trajectory.final_result))

    def sub_agent(self, source: LLMInteraction | AgentStep, trajectory: Trajectory) -> dict[str, AttributeValue]:  # noqa: ARG002
        """Return the attributes of the span of an agent that another agent started."""
        return {openinference.KIND: "AGENT", **without_none(**{openinference.AGENT_NAME: source.agent})}

    def step(self, step: AgentStep) -> dict[str, AttributeValue]:
        """Return the attributes of a step."""
        return {
            openinference.KIND: "CHAIN",
            **dict(self._values(None, step.llm_response and step.llm_response.content)),
        }

    def call(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        """Return the attributes of a call to a model."""
        attributes: dict[str, AttributeValue] = {openinference.KIND: _KINDS.get(operation_of(call.api), "LLM")}
        attributes |= without_none(
            **{
                openinference.MODEL: call.response.model or call.model,
                openinference.PROVIDER: call.provider,
                openinference.FINISH_REASON: call.response.finish_reason,
            }
        )
        attributes |= _usage(call)
        if self.content:
            attributes |= self._messages(call, prompt)
        return attributes

    def tool(self, tool: ToolNode) -> dict[str, AttributeValue]:
        """Return the attributes of a tool's execution."""
        attributes: dict[str, AttributeValue] = {
            openinference.KIND: "TOOL",
            openinference.TOOL_NAME: encodable(tool.name),
            openinference.TOOL_CALL_ID: encodable(tool.result.call_id),
        }
        arguments: Payload = None
        if tool.call is not None:
            arguments = tool.call.arguments
            if self.content:
                attributes["tool.parameters"] = text_of_value(arguments)
        return attributes | dict(self._values(arguments, result_text(tool.result)))

    def _values(self, input_value: Payload, output_value: Payload) -> Iterator[Attribute]:
        """Yield the attributes of the input and the output of an operation."""
        if self.content and input_value is not None:
            yield openinference.INPUT, text_of_value(input_value)
            yield openinference.INPUT_MIME_TYPE, _mime_type(input_value)
        if self.content and output_value is not None:
            yield openinference.OUTPUT, text_of_value(output_value)
            yield openinference.OUTPUT_MIME_TYPE, _mime_type(output_value)

    def _messages(self, call: LLMInteraction, prompt: SpanPrompt) -> Iterator[Attribute]:
        parameters = call.source.request_without_messages().parameters
        if parameters:
            yield openinference.PARAMETERS, attribute_json(parameters)
        for number, tool in enumerate(prompt.tools):
            yield f"{openinference.TOOLS}.{number}.tool.json_schema", attribute_json(tool.raw)
        for number, message in enumerate([*prompt.instructions, *prompt.messages]):
            yield from _message(f"{openinference.INPUT_MESSAGES}.{number}.message", message)
        if call.answered:
            for number in range(max(1, len(call.response.choices))):
                answer = answer_of(call.response, number)
                yield from _message(f"{openinference.OUTPUT_MESSAGES}.{number}.message", answer)
            yield from self._values(None, call.response.content)
        if prompt.messages:
            yield from self._values(text_lines(prompt.messages[-1]), None)


def _mime_type(value: Payload) -> str:
    if isinstance(value, str):
        return "text/plain"
    return "application/json"


def _usage(call: LLMInteraction) -> Iterator[Attribute]:
    """Yield the token counts, and the cost if the provider stated it."""
    cost = stated_cost(call)
    if cost is not None:
        yield openinference.COST, cost
    counts = counts_of(call)
    if counts is None:
        return
    total = None
    if counts.prompt is not None and counts.completion is not None:
        total = counts.prompt + counts.completion
    for name, count in (
        ("prompt", counts.prompt),
        ("completion", counts.completion),
        ("total", total),
        ("prompt_details.cache_read", counts.cache_read),
        ("prompt_details.cache_write", counts.cache_write),
        ("completion_details.reasoning", counts.reasoning),
    ):
        if count is not None:
            yield f"{openinference.TOKEN_COUNT}.{name}", count


def _message(prefix: str, message: Message) -> Iterator[Attribute]:
    yield f"{prefix}.role", encodable(message.role)
    if message.call_id is not None:
        yield f"{prefix}.tool_call_id", encodable(message.call_id)
    if message.name is not None:
        yield f"{prefix}.name", encodable(message.name)
    parts = parts_of(message)
    if message.reasoning is None and len(parts) == 1 and isinstance(parts[0], Text):
        yield f"{prefix}.content", encodable(parts[0].text)
    else:
        yield from _contents(f"{prefix}.contents", message)
    yield from _calls(f"{prefix}.tool_calls", message.tool_calls)


def _contents(prefix: str, message: Message) -> Iterator[Attribute]:
    for number, part in enumerate(_parts(message)):
        yield f"{prefix}.{number}.message_content.type", part.kind
        yield f"{prefix}.{number}.message_content.{part.member}", encodable(part.value)


class _ContentPart(NamedTuple):
    """A part of a message: its kind, and the member with its value."""

    kind: str
    member: str
    value: str


def _parts(message: Message) -> Iterator[_ContentPart]:
    if message.reasoning:
        yield _ContentPart("reasoning", "text", message.reasoning)
    for part in parts_of(message):
        if isinstance(part, Text):
            yield _ContentPart("text", "text", part.text)
        elif isinstance(part, Image):
            yield _ContentPart("image", "image.image.url", part.address)
        else:
            yield _ContentPart("text", "text", attribute_json(part.raw))


def _calls(prefix: str, calls: Iterable[ToolCall]) -> Iterator[Attribute]:
    for number, call in enumerate(calls):
        yield f"{prefix}.{number}.tool_call.id", encodable(call.call_id)
        yield f"{prefix}.{number}.tool_call.function.name", encodable(call.name)
        yield f"{prefix}.{number}.tool_call.function.arguments", encodable(arguments_text(call))
