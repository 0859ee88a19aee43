"""The attributes of spans by OpenTelemetry's semantic conventions for generative AI.

https://github.com/open-telemetry/semantic-conventions-genai, as of November 2026, with those for MCP. Facts for which
the conventions have no attribute are in attributes whose names begin with `trace_recorder.`. The count of tokens that
were written to a cache has its current name, and also the earlier name (`cache_creation`), which most readers know.

If `is_0_1` is True, attributes are those of version 0.1 of the conventions. In that version, internal `invoke_agent`
spans have no provider, `gen_ai.agent.id` is only for hosted agents, and instructions are texts. An answer has no
`finish_reason` of its own, and the count of tokens written to a cache has only the name `cache_write`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import Operation, operation_of
from trace_recorder.dialects.json_access import as_dict, as_number
from trace_recorder.figures.content.chat_form import result_text
from trace_recorder.formats.spans.attribute_names import genai, mcp
from trace_recorder.formats.spans.writing.messages import (
    MessageTexts,
    SpanPrompt,
    attribute_json,
    encodable,
    instructions_text,
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


def genai_provider(provider: str | None) -> str:
    """Return the conventions' name of a provider. The attribute is required, so an unknown provider is `unknown`."""
    return _PROVIDERS.get(provider or "", provider or "unknown")


def conversation_id(run: Trajectory) -> str | None:
    """Return the id of the conversation that a run belongs to: its session, or else the run itself."""
    identity = run.session or run.trajectory_id
    if identity is None:
        return None
    return encodable(identity)


def operation_name(call: LLMInteraction) -> str:
    """Return the conventions' name for the operation of a call."""
    operation = operation_of(call.api)
    if operation in _OUTPUT_TYPES:
        return "generate_content"
    return operation


def parameter(parameters: Mapping[str, Payload], *names: str) -> Payload:
    """Return a parameter of a request by any of its names."""
    places = [parameters, *(inner for name in _NESTED if isinstance(inner := parameters.get(name), dict))]
    return next((place[name] for place in places for name in names if place.get(name) is not None), None)


def known_attributes(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Return the attributes whose values are known, with texts that UTF-8 can encode."""
    known: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        if isinstance(value, str):
            known[name] = encodable(value)
        elif value is not None:
            known[name] = value
    return known


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
        attributes = self._invoke_agent(trajectory.provider) | known_attributes(
            {genai.REQUEST_MODEL: trajectory.model, genai.CONVERSATION: conversation_id(trajectory)}
        )
        if self.content:
            attributes |= self._task_and_result(trajectory.task, trajectory.final_result)
        return attributes

    def _invoke_agent(self, provider: str | None) -> dict[str, AttributeValue]:
        """Return the operation of an agent's span, and its provider. In version 0.1, such a span has no provider."""
        if self.is_0_1:
            return {genai.OPERATION: "invoke_agent"}
        return known_attributes({genai.OPERATION: "invoke_agent", genai.PROVIDER: genai_provider(provider)})

    def _task_and_result(self, task: str | None, result: Payload) -> Iterator[tuple[str, AttributeValue]]:
        """Yield the task as the agent's input, and the final result as its output."""
        if task is not None:
            part = {"type": "text", "content": text_of_value(task)}
            yield genai.INPUT_MESSAGES, attribute_json([{"role": "user", "parts": [part]}])
        if result is not None:
            answer: dict[str, Payload] = {
                "role": "assistant",
                "parts": [{"type": "text", "content": text_of_value(result)}],
            }
            if not self.is_0_1:
                answer["finish_reason"] = "stop"
            yield genai.OUTPUT_MESSAGES, attribute_json([answer])

    def sub_agent(self, source: LLMInteraction | AgentStep, trajectory: Trajectory) -> dict[str, AttributeValue]:
        """Return the attributes of the span of an agent that another agent started."""
        provider = trajectory.provider
        if isinstance(source, LLMInteraction):
            provider = source.provider
        return self._invoke_agent(provider) | known_attributes(
            {
                genai.AGENT_NAME: source.agent,
                genai.CONVERSATION: conversation_id(trajectory),
                self._agent_id_name: source.agent_id,
            }
        )

    @property
    def _agent_id_name(self) -> str:
        """The name of the attribute with an agent's id. In version 0.1, `gen_ai.agent.id` is only for hosted agents."""
        if self.is_0_1:
            return "trace_recorder.agent.id"
        return "gen_ai.agent.id"

    @staticmethod
    def step(step: AgentStep) -> dict[str, AttributeValue]:  # noqa: ARG004
        """Return no attributes, because the conventions have no steps."""
        return {}

    def call(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        """Return the attributes of a call to a model."""
        response, parameters = call.response, call.source.request_without_messages().parameters
        first_chunk_seconds = None
        if call.stream:
            first_chunk_seconds = call.time_to_first_token_seconds
        attributes = known_attributes(
            {
                genai.OPERATION: operation_name(call),
                genai.PROVIDER: genai_provider(call.provider),
                genai.REQUEST_MODEL: call.model,
                "gen_ai.output.type": _OUTPUT_TYPES.get(operation_of(call.api)),
                genai.REQUEST_STREAM: call.stream or None,
                genai.RESPONSE_MODEL: response.model,
                genai.RESPONSE_ID: response.id,
                genai.FIRST_CHUNK_SECONDS: first_chunk_seconds,
                genai.AGENT_NAME: call.agent,
                self._agent_id_name: call.agent_id,
            }
        )
        reasons = [answer.finish_reason for answer in response.choices or (response,)]
        if any(reasons):
            attributes[genai.FINISH_REASONS] = [encodable(reason or "") for reason in reasons]
        attributes |= dict(_parameters(parameters)) | _usage(call)
        if self.is_0_1:
            attributes.pop(genai.USAGE + genai.CACHE_CREATION_TOKENS, None)
        if self.content:
            attributes |= self._messages(call, prompt)
        return attributes

    def _messages(self, call: LLMInteraction, prompt: SpanPrompt) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {}
        if prompt.instructions:
            attributes[genai.SYSTEM_INSTRUCTIONS] = instructions_text(prompt.instructions, as_texts=self.is_0_1)
        if prompt.is_known:
            attributes[genai.INPUT_MESSAGES] = self.texts.array(prompt.messages)
        if prompt.omitted:
            attributes["trace_recorder.input.omitted_messages"] = prompt.omitted
            attributes["trace_recorder.input.continues"] = prompt.continues or ""
        if prompt.tools:
            attributes[genai.TOOL_DEFINITIONS] = self.texts.tools(prompt.tools)
        if call.answered:
            attributes[genai.OUTPUT_MESSAGES] = attribute_json(outputs_of(call.response, with_reasons=not self.is_0_1))
        return attributes

    def tool(self, tool: ToolNode) -> dict[str, AttributeValue]:
        """Return the attributes of a tool's execution."""
        attributes = known_attributes(
            {
                genai.OPERATION: "execute_tool",
                genai.TOOL_NAME: tool.name,
                genai.TOOL_CALL_ID: tool.result.call_id or None,
                "gen_ai.tool.type": "function",
            }
        )
        attributes |= _server_call(tool)
        if self.content:
            if tool.call is not None:
                attributes[genai.TOOL_ARGUMENTS] = text_of_value(tool.call.arguments)
            attributes[genai.TOOL_RESULT] = encodable(result_text(tool.result))
        return attributes


_TRANSPORTS = {"stdio": "pipe", "sse": "tcp", "streamable_http": "tcp"}
"""The `network.transport` of each transport of MCP."""


def _server_call(tool: ToolNode) -> dict[str, AttributeValue]:
    """Return the attributes of a call of an MCP server. The conventions add them to the span of the tool."""
    call, server = tool.server_call, tool.server
    if call is None:
        return {}
    attributes: dict[str, AttributeValue | None] = {mcp.METHOD: mcp.CALL_TOOL}
    if call.request_id is not None:
        attributes[mcp.REQUEST_ID] = str(call.request_id)
    if call.error_code is not None:
        attributes[mcp.STATUS_CODE] = str(call.error_code)
    if server is not None:
        attributes[mcp.PROTOCOL_VERSION] = server.protocol_version
        attributes[mcp.TRANSPORT] = _TRANSPORTS.get(server.transport or "")
        if attributes[mcp.TRANSPORT] == "tcp":
            attributes[mcp.PROTOCOL] = "http"
    return known_attributes(attributes)


def text_of_value(value: Payload) -> str:
    """Return a text unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return encodable(value)
    return attribute_json(value)


def _parameters(parameters: Mapping[str, Payload]) -> Iterator[tuple[str, AttributeValue]]:
    for name, names in NUMBER_PARAMETERS.items():
        number = as_number(parameter(parameters, *names))
        if number is not None:
            yield f"{genai.REQUEST}{name}", float(number)
    for name, names in INTEGER_PARAMETERS.items():
        value = parameter(parameters, *names)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
            yield f"{genai.REQUEST}{name}", value
    count = parameter(parameters, "n", "candidateCount")
    if isinstance(count, int) and 1 < count < 2**63:
        yield genai.CHOICE_COUNT, count
    stops = parameter(parameters, "stop", "stop_sequences", "stopSequences")
    if isinstance(stops, str):
        stops = [stops]
    if isinstance(stops, list) and stops and all(isinstance(stop, str) for stop in stops):
        yield f"{genai.REQUEST}stop_sequences", [encodable(stop) for stop in stops]
    level = parameters.get("reasoning_effort") or as_dict(parameters.get("reasoning")).get("effort")
    if isinstance(level, str):
        yield f"{genai.REQUEST}reasoning.level", encodable(level)


def _usage(call: LLMInteraction) -> dict[str, AttributeValue]:
    """Return the token counts. The prompt's count includes cached tokens, and the answer's count includes reasoning."""
    counts = counts_of(call)
    if counts is None:
        return {}
    usage = {
        genai.INPUT_TOKENS: counts.prompt,
        genai.OUTPUT_TOKENS: counts.completion,
        genai.CACHE_READ_TOKENS: counts.cache_read,
        genai.CACHE_WRITE_TOKENS: counts.cache_write,
        genai.CACHE_CREATION_TOKENS: counts.cache_write,
        genai.REASONING_TOKENS: counts.reasoning,
    }
    attributes: dict[str, AttributeValue] = {
        genai.USAGE + name: count for name, count in usage.items() if count is not None
    }
    return attributes | known_attributes({"trace_recorder.usage.cost": stated_cost(call)})
