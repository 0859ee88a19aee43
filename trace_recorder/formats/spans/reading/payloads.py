"""Reads requests and responses in the attributes of spans, in the JSON of a provider's dialect or of a framework."""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.dialects import anthropic_messages, google_generate, manual, openai_completions, openai_responses
from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import count_made_up, number_calls
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.spans.reading.messages import is_message, read_messages, type_of_part
from trace_recorder.formats.spans.reading.span import SpanReading, parsed
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import LLMResponse, Message, Payload, RequestReading, ToolCall
from trace_recorder.values.structs import replace

_GOOGLE_CONFIG = ("system_instruction", "systemInstruction", "tools")
_RESPONSE_SIGNS = ("choices", "candidates", "done", "stop_reason")
_NO_PARAMETERS = {"messages", "tools", "functions", "model", "stream"}


def read_input(value: Payload) -> SpanReading:
    """Read the input of a call: a request, a list of messages, or a prompt.

    Return an empty reading for any other value.
    """
    value = parsed(value)
    if value == "":
        return SpanReading()
    if isinstance(value, str):
        return SpanReading(messages=[Message("user", value)])
    if isinstance(value, dict) and not is_message(value):
        return _read_request(value)
    messages = read_messages(value)
    if messages is None:
        return SpanReading()
    schemas = [message.content for message in messages if _is_declaration(message)]
    rest = [message for message in messages if not _is_declaration(message)]
    return SpanReading(messages=rest, tools=[tool for listed in schemas for tool in as_list(listed)] or None)


def _is_declaration(message: Message) -> bool:
    """Return whether a message is in fact the schema of a tool. Some integrations list schemas after the messages."""
    parts = as_list(message.content)
    return (
        message.role == "tool"
        and bool(parts)
        and all(isinstance(as_dict(part).get("function"), dict) for part in parts)
    )


def _read_request(body: Members) -> SpanReading:
    reading = _request_of(body)
    if reading is None:
        return SpanReading()
    parameters = reading.parameters.items()
    of_span = SpanReading(
        messages=[*reading.messages] or None,
        tools=[tool.raw for tool in reading.tools] or None,
        model=as_text(body.get("model")),
        parameters={name: value for name, value in parameters if name not in _NO_PARAMETERS and value is not None},
    )
    if isinstance(body.get("stream"), bool):
        of_span.stream = body["stream"]
    return of_span


def _request_of(body: Members) -> RequestReading | None:
    """Read a request in the dialect that its members show, or return None if they show no dialect."""
    if "contents" in body:
        config = as_dict(body.get("config"))
        own = {name: config[name] for name in _GOOGLE_CONFIG if name in config}
        rest = {name: value for name, value in config.items() if name not in _GOOGLE_CONFIG}
        return google_generate.read_request({**body, **own, "config": rest or None})
    if "messages" in body:
        return _chat(body)
    if "input" in body and ("model" in body or "instructions" in body):
        return openai_responses.read_request(body)
    return _request_with_prompt(body)


def _request_with_prompt(body: Members) -> RequestReading | None:
    """Read a request whose prompt is a text, or a list of messages under the name `prompt` or `prompts`."""
    prompts = body.get("prompt", body.get("prompts"))
    if (inner := read_messages(prompts)) is not None:
        return RequestReading(inner)
    if isinstance(prompts, str) and isinstance(body.get("system"), str):
        return RequestReading([Message("system", body["system"]), Message("user", prompts)])
    if not prompts:
        return None
    return openai_completions.read_request({**body, "prompt": prompts})


def _chat(body: Members) -> RequestReading | None:
    """Read a request whose `messages` may be in any form that `messages.py` reads.

    Return None if they are not messages.
    """
    messages = read_messages(body["messages"])
    if messages is None:
        return None
    rest = {name: value for name, value in body.items() if name != "messages"}
    reading = anthropic_messages.read_request({**rest, "messages": []})
    parameters = {name: value for name, value in reading.parameters.items() if name != "functions"}
    functions = [manual.read_tool(tool) for tool in as_list(rest.get("functions"))]
    return RequestReading([*reading.messages, *messages], [*reading.tools, *functions], parameters, reading.model)


def read_exchange(request: Payload, response: Payload) -> SpanReading:
    """Read the request and the response of a call. If the request has no messages, it becomes the reading's `input`."""
    reading = read_input(request)
    reading.kind = "call"
    if reading.messages is None:
        reading.input = request
    reading.take_answer(read_output(response, reading.messages or ()))
    return reading


def read_output(value: Payload, prompt: Sequence[Message] = ()) -> LLMResponse | None:
    """Read the output of a call: a response, messages, tool calls, or a text.

    Any other value becomes the content. Return None for an empty output. `prompt` has the messages of the request. The
    made-up ids of their tool calls are not used again.
    """
    value = parsed(value)
    if value is None or value in ("", {}, []):
        return None
    made_up = sum(count_made_up(message.tool_calls) for message in prompt)
    if isinstance(value, str):
        return LLMResponse(content=value)
    if isinstance(value, dict):
        response = _read_body(value, made_up)
        if response is not None:
            return response
    messages = read_messages(value)
    if messages is not None:
        return response_of_messages(messages, made_up)
    calls = _bare_calls(value)
    if calls:
        return response_of_messages(calls, made_up)
    return LLMResponse(content=to_json(value))


def _read_body(body: Members, made_up: int) -> LLMResponse | None:
    """Read a response of a provider or of LangChain. Return None for other objects."""
    if any(sign in body for sign in _RESPONSE_SIGNS) or isinstance(body.get("output"), list):
        return manual.read_response(body, made_up)
    if isinstance(body.get("generations"), list):
        return _of_generations(body, made_up)
    if isinstance(inner := body.get("content"), dict) and "parts" in inner:
        rest = {name: value for name, value in body.items() if name not in {"content", "usage_metadata"}}
        usage = body.get("usage_metadata", body.get("usageMetadata"))
        return google_generate.read_response(
            {"candidates": [{"content": inner, **rest}], "usageMetadata": _camel_counts(usage)}, made_up
        )
    listed = body.get("messages", body.get("output"))
    if len(body) == 1 and isinstance(listed, list | dict) and read_messages(listed) is not None:
        return read_output(listed)
    return None


def _camel_counts(usage: Payload) -> Members:
    names = {
        "prompt_token_count": "promptTokenCount",
        "candidates_token_count": "candidatesTokenCount",
        "thoughts_token_count": "thoughtsTokenCount",
        "cached_content_token_count": "cachedContentTokenCount",
    }
    return {names.get(name, name): value for name, value in as_dict(usage).items()}


def _of_generations(body: Members, made_up: int) -> LLMResponse | None:
    """Read a result of LangChain: its first generation, and the model's facts about all generations."""
    first = next(iter(as_list(body["generations"])), None)
    if isinstance(first, list):
        first = next(iter(first), None)
    generation = as_dict(first)
    response = LLMResponse(content=as_text(generation.get("text")))
    messages = read_messages(generation.get("message"))
    if messages:
        response = response_of_messages(messages, made_up)
    facts = as_dict(generation.get("generation_info")) | as_dict(body.get("llm_output"))
    return replace(response, finish_reason=as_text(facts.get("finish_reason")), model=as_text(facts.get("model_name")))


def _bare_calls(value: Payload) -> list[Message]:
    """Read a list of tool calls that are not in a message, as Vercel's AI SDK writes it. Return [] for other values."""
    elements = [as_dict(element) for element in as_list(value)]
    if not elements or not all(isinstance(element.get("toolName"), str) for element in elements):
        return []
    calls = [
        {
            "id": element.get("toolCallId"),
            "function": {"name": element["toolName"], "arguments": element.get("input", element.get("args"))},
        }
        for element in elements
    ]
    return read_messages({"role": "assistant", "content": None, "tool_calls": calls}) or []


def response_of_messages(messages: Sequence[Message], made_up: int = 0) -> LLMResponse:
    """Return one response with the content of the assistant's messages, in their order."""
    answers = [message for message in messages if message.role == "assistant"] or [*messages]
    blocks = Blocks()
    rest: list[Payload] = []
    extra: Members = {}
    calls: list[ToolCall] = []
    for message in answers:
        _add_blocks(blocks, message, rest)
        extra |= message.extra
        calls += message.tool_calls
    if rest:
        extra["content"] = rest
    numbered = number_calls(map(_without_made_up_id, calls), made_up)
    return LLMResponse(
        content=blocks.all_text(),
        reasoning=blocks.all_reasoning(),
        tool_calls=numbered,
        extra=extra,
        interleaved=blocks.interleaved(numbered),
    )


def _without_made_up_id(call: ToolCall) -> ToolCall:
    if call.call_id_made_up:
        return replace(call, call_id="")
    return call


def _add_blocks(blocks: Blocks, message: Message, rest: list[Payload]) -> None:
    """Add the blocks of a message. Append parts that are not text to `rest`."""
    if message.reasoning:
        blocks.add_reasoning(message.reasoning)
    if isinstance(message.content, str):
        blocks.add_text(message.content)
    for part in as_list(message.content):
        text = as_text(as_dict(part).get("text"))
        if text is not None and type_of_part(part) in {"text", "output_text"}:
            blocks.add_text(text)
        else:
            blocks.add_other(len(rest))
            rest.append(part)
    for _ in message.tool_calls:
        blocks.add_call()
