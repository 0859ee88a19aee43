"""The attributes of spans by OpenTelemetry's semantic conventions for generative AI.

https://github.com/open-telemetry/semantic-conventions-genai, as of November 2026. Facts for which the conventions have
no attribute are in attributes whose names begin with `trace_recorder.`. The count of tokens written to a cache has its
current name, and also the earlier name (`cache_creation`), which most readers know.

If `is_0_1` is True, attributes are those of version 0.1 of the conventions. In that version, internal `invoke_agent`
spans have no provider, `gen_ai.agent.id` is only for hosted agents, and instructions are texts. An answer has no
`finish_reason` of its own, and the count of tokens written to a cache has only the name `cache_write`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import Operation, operation_of
from trace_recorder.dialects.json_access import as_number
from trace_recorder.figures.content.chat_form import result_text
from trace_recorder.formats.spans.writing.messages import (
    MessageTexts,
    SpanPrompt,
    encodable,
    instructions_text,
    json_of,
    outputs_of,
)
from trace_recorder.formats.spans.writing.span import AttributeValue
from trace_recorder.formats.spans.writing.tree import ToolNode
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import counts_of, stated_cost
from trace_recorder.values.trajectory import AgentStep, Trajectory

_PROVIDERS = {
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "moonshot": "moonshot_ai",
}
NUMBER_PARAMETERS = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "frequency_penalty": ("frequency_penalty", "frequencyPenalty"),
    "presence_penalty": ("presence_penalty", "presencePenalty"),
}
"""The parameters of requests that are numbers, each with its names in the dialects."""
INTEGER_PARAMETERS = {
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens", "num_predict"),
    "seed": ("seed",),
    "top_k": ("top_k", "topK"),
}
"""The parameters of requests that are whole numbers, each with its names in the dialects."""
_NESTED = ("generationConfig", "options")
"""The members of a request under which Google and Ollama nest these parameters."""


_OUTPUT_TYPES: Mapping[Operation, str] = {"image_generation": "image", "speech": "speech", "transcription": "text"}
"""The operations that the conventions call `generate_content`, each with its `gen_ai.output.type`."""


def provider_of(provider: str | None) -> str:
    """Return the conventions' name of a provider. The attribute is required, so an unknown provider is `unknown`."""
    return _PROVIDERS.get(provider or "", provider or "unknown")


def operation_name(call: LLMInteraction) -> str:
    """Return the conventions' name for the operation of a call."""
    operation = operation_of(call.api)
    return "generate_content" if operation in _OUTPUT_TYPES else operation


def parameter(parameters: Mapping[str, Payload], *names: str) -> Payload:
    """Return a parameter of a request by any of its names."""
    places = [parameters, *(inner for name in _NESTED if isinstance(inner := parameters.get(name), dict))]
    return next((place[name] for place in places for name in names if place.get(name) is not None), None)


def known_attributes(**members: AttributeValue | None) -> dict[str, AttributeValue]:
    """Return attributes by their names, with dots in place of double underscores. Values that are None are left out."""
    return {
        name.replace("__", "."): encodable(value) if isinstance(value, str) else value
        for name, value in members.items()
        if value is not None
    }


@dataclass(slots=True)
class GenAIAttributes:
    """Writes attributes by the conventions.

    If `content` is False, prompts, answers, arguments and results are left out.
    """

    content: bool = True
    is_0_1: bool = False
    texts: MessageTexts = field(default_factory=MessageTexts)

    def agent(self, trajectory: Trajectory) -> dict[str, AttributeValue]:
        """Return the attributes of the run's own span."""
        attributes = known_attributes(
            gen_ai__operation__name="invoke_agent",
            gen_ai__provider__name=None if self.is_0_1 else provider_of(trajectory.provider),
            gen_ai__request__model=trajectory.model,
            gen_ai__conversation__id=trajectory.trajectory_id,
        )
        return attributes | (
            dict(self._task_and_result(trajectory.task, trajectory.final_result)) if self.content else {}
        )

    def _task_and_result(self, task: str | None, result: Payload) -> Iterator[tuple[str, AttributeValue]]:
        """Yield the task as the agent's input, and the final result as its output."""
        if task is not None:
            part = {"type": "text", "content": text_of_value(task)}
            yield "gen_ai.input.messages", json_of([{"role": "user", "parts": [part]}])
        if result is not None:
            part = {"type": "text", "content": text_of_value(result)}
            reason = {} if self.is_0_1 else {"finish_reason": "stop"}
            yield "gen_ai.output.messages", json_of([{"role": "assistant", "parts": [part], **reason}])

    def sub_agent(self, source: LLMInteraction | AgentStep, trajectory: Trajectory) -> dict[str, AttributeValue]:
        """Return the attributes of the span of an agent that another agent started."""
        provider = source.provider if isinstance(source, LLMInteraction) else trajectory.provider
        return known_attributes(
            gen_ai__operation__name="invoke_agent",
            gen_ai__provider__name=None if self.is_0_1 else provider_of(provider),
            gen_ai__agent__name=source.agent,
            gen_ai__conversation__id=trajectory.trajectory_id,
            **self._agent_id(source.agent_id),
        )

    def _agent_id(self, agent_id: str | None) -> dict[str, AttributeValue | None]:
        """Return the attribute with an agent's id. In version 0.1, `gen_ai.agent.id` is only for hosted agents."""
        return {("trace_recorder__agent__id" if self.is_0_1 else "gen_ai__agent__id"): agent_id}

    @staticmethod
    def step(step: AgentStep) -> dict[str, AttributeValue]:  # noqa: ARG004
        """Return no attributes, because the conventions have no steps."""
        return {}

    def call(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        """Return the attributes of a call to a model."""
        response, parameters = call.response, call.source.request_without_messages().parameters
        attributes = known_attributes(
            gen_ai__operation__name=operation_name(call),
            gen_ai__provider__name=provider_of(call.provider),
            gen_ai__request__model=call.model,
            gen_ai__output__type=_OUTPUT_TYPES.get(operation_of(call.api)),
            gen_ai__request__stream=call.stream or None,
            gen_ai__response__model=response.model,
            gen_ai__response__id=response.id,
            gen_ai__response__time_to_first_chunk=call.time_to_first_token_seconds if call.stream else None,
            gen_ai__agent__name=call.agent,
            **self._agent_id(call.agent_id),
        )
        reasons = [answer.finish_reason for answer in response.choices or (response,)]
        if any(reasons):
            attributes["gen_ai.response.finish_reasons"] = [encodable(reason or "") for reason in reasons]
        attributes |= dict(_parameters(parameters)) | _usage(call)
        if self.is_0_1:
            attributes.pop("gen_ai.usage.cache_creation.input_tokens", None)
        return attributes | (self._messages(call, prompt) if self.content else {})

    def _messages(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {}
        if prompt.instructions:
            attributes["gen_ai.system_instructions"] = instructions_text(prompt.instructions, as_texts=self.is_0_1)
        if prompt.is_known:
            attributes["gen_ai.input.messages"] = self.texts.array(prompt.messages)
        if prompt.omitted:
            attributes["trace_recorder.input.omitted_messages"] = prompt.omitted
            attributes["trace_recorder.input.continues"] = prompt.continues or ""
        if prompt.tools:
            attributes["gen_ai.tool.definitions"] = self.texts.tools(prompt.tools)
        if call.answered:
            attributes["gen_ai.output.messages"] = json_of(outputs_of(call.response, with_reasons=not self.is_0_1))
        return attributes

    def tool(self, tool: ToolNode) -> dict[str, AttributeValue]:
        """Return the attributes of a tool's execution."""
        attributes = known_attributes(
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=tool.name,
            gen_ai__tool__call__id=tool.result.call_id or None,
            gen_ai__tool__type="function",
        )
        if self.content:
            if tool.call is not None:
                attributes["gen_ai.tool.call.arguments"] = text_of_value(tool.call.arguments)
            attributes["gen_ai.tool.call.result"] = encodable(result_text(tool.result))
        return attributes


def text_of_value(value: Payload) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return encodable(value) if isinstance(value, str) else json_of(value)


def _parameters(parameters: Mapping[str, Payload]) -> Iterator[tuple[str, AttributeValue]]:
    for name, names in NUMBER_PARAMETERS.items():
        number = as_number(parameter(parameters, *names))
        if number is not None:
            yield f"gen_ai.request.{name}", float(number)
    for name, names in INTEGER_PARAMETERS.items():
        value = parameter(parameters, *names)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
            yield f"gen_ai.request.{name}", value
    count = parameter(parameters, "n", "candidateCount")
    if isinstance(count, int) and 1 < count < 2**63:
        yield "gen_ai.request.choice.count", count
    stops = parameter(parameters, "stop", "stop_sequences", "stopSequences")
    listed: Sequence[Payload] = stops if isinstance(stops, list) else [stops]
    if listed and all(isinstance(stop, str) for stop in listed):
        yield "gen_ai.request.stop_sequences", [encodable(stop) for stop in listed]
    reasoning = parameters.get("reasoning")
    level = parameters.get("reasoning_effort") or (reasoning.get("effort") if isinstance(reasoning, dict) else None)
    if isinstance(level, str):
        yield "gen_ai.request.reasoning.level", encodable(level)


def _usage(call: LLMInteraction) -> dict[str, AttributeValue]:
    """Return the token counts. The prompt's count includes cached tokens, and the answer's count includes reasoning."""
    counts = counts_of(call)
    if counts is None:
        return {}
    return known_attributes(
        gen_ai__usage__input_tokens=counts.prompt,
        gen_ai__usage__output_tokens=counts.completion,
        gen_ai__usage__cache_read__input_tokens=counts.cache_read,
        gen_ai__usage__cache_write__input_tokens=counts.cache_write,
        gen_ai__usage__cache_creation__input_tokens=counts.cache_write,
        gen_ai__usage__reasoning__output_tokens=counts.reasoning,
        trace_recorder__usage__cost=stated_cost(call),
    )
