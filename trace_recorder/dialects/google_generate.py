"""Google's generateContent dialect (https://ai.google.dev/api/generate-content), which Vertex AI serves too.

Code Assist (`/v1internal:generateContent`), to which Gemini CLI sends the requests of a Google login, has the same
dialect in an envelope. The body of a request is in `request`, beside the model, the project and the id of the user's
prompt. An answer, and each chunk of a stream, is in `response`, beside `traceId` and the credits. An error has no
envelope. Source: `code_assist/server.ts` and `code_assist/converter.ts` in the repository google-gemini/gemini-cli.

A content is a list of parts. Text becomes content, thoughts become reasoning, `functionCall` becomes a tool call, and
`functionResponse` becomes a separate tool message. Every other part is kept unchanged. Parts of an answer that
`Message` and `LLMResponse` cannot express without loss (a text with a signature, executed code, media) are kept in
`extra["parts"]`. Clients send camelCase and snake_case, and both are read. `google_chunks.py` joins the chunks of a
stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import count_made_up, number_calls, number_messages
from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.google_chunks import CAMEL_OF_SNAKE, camel, join_arguments, join_chunks, read_google_chunks
from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_elements,
    as_text,
    is_nonempty,
    role_of,
    text_part,
)
from trace_recorder.dialects.split_messages import MergeRule, read_groups
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    Usage,
)
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import THOUGHTS_APART

_FINISH_REASONS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
"""Maps numbers to the names of finish reasons. A client with `enum-encoding=int` gets finish reasons as numbers.

The meaning of larger numbers differs between servers.
"""

_BESIDE_TEXT = ("text", "thought", "thoughtSignature", "thought_signature")

_PLAIN_RESULTS = ("result", "output", "content", "error")
"""If a tool's response is a single text, clients send the text in one of these members."""


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. The returned model is usually None, because the model is in the URL."""
    members = _members(body)
    system = members.take("systemInstruction")
    messages = []
    if system is not None:
        messages.append(_message("system", _parts_of(system), {}))
    for group in read_groups(as_elements(members.take("contents")), read_message, MERGE_RULE):
        messages += group.messages
    tools = [tool for element in as_elements(members.take("tools")) for tool in _tools(element)]
    return RequestReading(number_messages(messages), tools, members.all(), as_text(as_dict(body).get("model")))


def read_message(element: Payload) -> list[Message]:
    """Read one element of `contents`: a tool message for each function response, then a message with the rest."""
    if element is None:
        return []
    members = Members(element)
    role, parts = role_of(members.text("role")), _parts_of(element)
    members.take("parts")
    results = [_tool_message(part) for part in parts if _kind(part) == "functionResponse"]
    rest = [part for part in parts if _kind(part) != "functionResponse"]
    if results and not rest and not members.rest():
        return results
    return [*results, _message(role, rest, members.rest())]


def _continues(before: Message, message: Message) -> bool:
    """Whether a content belongs to the same message as the content before it.

    Clients send a streamed answer back in chunks.
    """
    return before.role == message.role == "assistant"


def _merge(contents: Sequence[Payload], _: Sequence[Message]) -> Message:
    """Make one message from the contents of one answer."""
    parts = [part for content in contents for part in _parts_of(content)]
    extra: dict[str, Payload] = {}
    for content in contents:
        remaining = Members(content)
        remaining.drop_empty("role", "parts")
        extra |= {name: value for name, value in remaining.rest().items() if name not in ("role", "parts")}
    return _message("assistant", parts, extra)


MERGE_RULE = MergeRule(_continues, _merge)


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an answer, an array of a stream's chunks, or an error, which is kept in `extra`."""
    if isinstance(body, list):
        body = join_chunks(body).body
    members = _members(body)
    choices: list[Choice] = []
    extra: dict[str, Payload] = {}
    for position, candidate in enumerate(members.array("candidates")):
        choice, kept = _choice(position, candidate, made_up_ids)
        made_up_ids += count_made_up(choice.tool_calls)
        choices.append(choice)
        (choice.extra if position else extra).update(kept)
    first = choices[0] if choices else Choice(0)
    return LLMResponse(
        content=first.content,
        reasoning=first.reasoning,
        tool_calls=first.tool_calls,
        finish_reason=first.finish_reason,
        usage=_usage(members.object("usageMetadata")),
        model=members.text("modelVersion"),
        id=members.text("responseId"),
        choices=tuple(choices),
        extra={**members.rest(), **extra},
        interleaved=first.interleaved,
    )


def join_stream(text: str) -> JoinedStream:
    """Join the chunks of a stream into the body that the same answer has without streaming."""
    return join_chunks(read_google_chunks(text))


def _members(value: Payload) -> Members:
    return Members(camel(value))


def _parts_of(content: Payload) -> list[Payload]:
    """Return the parts of a content. A string in place of a content or a part becomes a text part."""
    if isinstance(content, dict):
        content = content.get("parts")
    parts: list[Payload] = []
    for part in as_elements(content):
        if isinstance(part, str):
            parts.append({"text": part})
        else:
            parts.append(part)
    return parts


def _kind(part: Payload) -> str:
    members = as_dict(part)
    for name, value in members.items():
        kind = CAMEL_OF_SNAKE.get(name, name)
        if kind in ("functionCall", "functionResponse") and isinstance(value, dict) and is_nonempty(value):
            return kind
    if as_text(members.get("text")) is None or not (members["text"] or _is_text(members)):
        return "other"
    if members.get("thought") is True:
        return "thought"
    return "text"


def _is_text(members: dict[str, Payload]) -> bool:
    """Whether a part with an empty text counts as a text.

    The part counts as a text if each other member is empty or belongs to a text, as a signature does. A part with an
    image does not count as a text.
    """
    return not any(is_nonempty(value) for name, value in members.items() if name not in _BESIDE_TEXT)


def _is_lossless(part: Payload) -> bool:
    """Whether a part is plain text, an unsigned thought or a call, so that `extra` need not keep the part."""
    kind, beside = _kind(part), (value for name, value in as_dict(part).items() if name not in ("text", "thought"))
    return kind == "functionCall" or (kind != "other" and not any(map(is_nonempty, beside)))


def _blocks(parts: list[Payload]) -> Blocks:
    """Collect parts.

    Texts, thoughts and calls are added as such. Any other part is in `extra["parts"]`, and its position there is added.
    """
    gathered, kept = Blocks(), 0
    for part in parts:
        kind = _kind(part)
        if kind == "text":
            gathered.add_text(as_text(part["text"]))
        elif kind == "thought" and part["text"]:
            gathered.add_reasoning(as_text(part["text"]))
        elif kind == "functionCall":
            gathered.add_call()
        elif kind == "other":
            gathered.add_other(kept)
        kept += not _is_lossless(part)
    return gathered


def _message(role: str, parts: list[Payload], extra: dict[str, Payload]) -> Message:
    """Make a message from parts. Thoughts with more than text, such as a signature, are also kept in `extra`."""
    signed = [part for part in parts if _kind(part) == "thought" and not _is_lossless(part)]
    gathered = _blocks(parts)
    content = gathered.content(_content_parts(parts))
    if signed:
        extra = {**extra, "parts": signed}
    return Message(role, content, _tool_calls(parts), reasoning=gathered.all_reasoning(), extra=extra)


def _content_parts(parts: list[Payload]) -> list[Payload]:
    """Return the parts without thoughts and calls, for a message's content. Adjacent plain texts are joined."""
    content: list[Payload] = []
    for kind, neighbours in groupby(parts, _kind_of_content):
        if kind == "plain":
            content.append(text_part("".join(part["text"] for part in neighbours)))
        elif kind == "text":
            content += [text_part(members.text("text") or "", members.rest()) for members in map(Members, neighbours)]
        elif kind == "other":
            content += neighbours
    return content


def _kind_of_content(part: Payload) -> str:
    kind = _kind(part)
    if kind == "text" and _is_lossless(part):
        return "plain"
    return kind


def _tool_calls(parts: list[Payload]) -> tuple[ToolCall, ...]:
    return tuple(_tool_call(part) for part in parts if _kind(part) == "functionCall")


def _tool_call(part: Payload) -> ToolCall:
    """Read a call. All other members of the part, such as `thoughtSignature`, go into the call's `extra`."""
    members = _members(part)
    call = _members(members.take("functionCall"))
    call_id, name = call.text("id") or "", call.text("name") or ""
    arguments = arguments_of(call.take("args")) or join_arguments(call.array("partialArgs"))
    beside = {name: value for name, value in members.rest().items() if is_nonempty(value)}
    return ToolCall(call_id, name, arguments, extra={**beside, **call.rest()})


def _tool_message(part: Payload) -> Message:
    """Read a tool's response: its text, or else its JSON. The part itself is the message's `extra`.

    If the response states that the function failed, `extra` also has `is_error`.
    """
    response = as_dict(camel(part)["functionResponse"])
    call_id, name = as_text(response.get("id")), as_text(response.get("name"))
    returned = response.get("response")
    extra = part
    if _states_failure(as_dict(returned)):
        extra = {**part, "is_error": True}
    return Message("tool", _result_text(returned), call_id=call_id or None, name=name, extra=extra)


def _states_failure(response: dict[str, Payload]) -> bool:
    """Whether a response has an error and no output.

    The API requires this form, and the SDK's automatic calls send it.
    """
    return is_nonempty(response.get("error")) and "output" not in response and "result" not in response


def _result_text(response: Payload) -> str | None:
    members = as_dict(response)
    for name in _PLAIN_RESULTS:
        if members.keys() == {name} and isinstance(members[name], str):
            return as_text(members[name])
    if response is None or isinstance(response, str):
        return response
    return to_json(response)


def _tools(element: Payload) -> list[Tool]:
    """Read an element of `tools`: the functions that it declares, and each built-in tool by its name."""
    members = _members(element)
    tools = [_tool(declaration) for declaration in members.array("functionDeclarations")]
    return tools + [Tool(name, raw={name: value}) for name, value in members.rest().items()]


def _tool(declaration: Payload) -> Tool:
    members = camel(declaration)
    parameters = members.get("parameters") or members.get("parametersJsonSchema")
    return Tool(as_text(members.get("name")) or "", as_text(members.get("description")), parameters, declaration)


def _choice(position: int, candidate: Payload, made_up_ids: int) -> tuple[Choice, dict[str, Payload]]:
    """Read a candidate. Also return the parts of its content that belong in `extra`."""
    members = _members(candidate)
    index, number = members.integer("index"), members.integer("finishReason")
    content = members.nested("content")
    content.text("role")
    parts = as_elements(content.take("parts"))
    kept = [part for part in parts if not _is_lossless(part)]
    gathered, calls = _blocks(parts), number_calls(_tool_calls(parts), made_up_ids)
    if number is None:
        finish_reason = members.nonempty_text("finishReason")
    else:
        finish_reason = _FINISH_REASONS.get(number, str(number))
    choice = Choice(
        index=position if index is None else index,
        content=gathered.all_text(),
        reasoning=gathered.all_reasoning(),
        tool_calls=calls,
        finish_reason=finish_reason,
        extra=members.rest(),
        interleaved=gathered.interleaved(calls),
    )
    return choice, {"parts": kept} if kept else {}


def _usage(usage: dict[str, Payload]) -> Usage:
    members = _members(usage)
    return Usage(
        input_tokens=members.integer("promptTokenCount"),
        output_tokens=members.integer("candidatesTokenCount"),
        cache_read_input_tokens=members.integer("cachedContentTokenCount"),
        reasoning_tokens=members.integer("thoughtsTokenCount"),
        extra=members.rest(),
    )


def not_found(message: str) -> Payload:
    """Return the body of a "not found" error with this message, as Google's dialects write it."""
    return {"error": {"code": 404, "message": message, "status": "NOT_FOUND"}}


def _with_system_instruction(body: dict[str, Payload], text: str) -> dict[str, Payload]:
    name = "system_instruction" if "system_instruction" in body else "systemInstruction"
    return {**body, name: {"parts": [{"text": text}]}}


DIALECT = Dialect(
    name="google-generate",
    addresses={r"/models/[^/]+:(?:streamG|g)enerateContent$": "google"},
    sdks=("google",),
    headers={},
    operation="generate_content",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=History("contents", read_message, MERGE_RULE),
    numbers_calls=True,
    instructions_apart=True,
    with_system=_with_system_instruction,
    counting=THOUGHTS_APART,
    usage_on_request=False,
    background=None,
    websockets=None,
)


# ── Code Assist ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read_enveloped_request(body: Payload) -> RequestReading:
    """Read a request's JSON. The model is in the envelope, whose other members are parameters."""
    envelope = Members(body)
    reading = read_request(envelope.object("request"))
    parameters = {**envelope.all(), **reading.parameters}
    return replace(reading, parameters=parameters, model=as_text(as_dict(body).get("model")))


def read_enveloped_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an answer in its envelope, an array of a stream's chunks, or an error.

    The id is `traceId` if the answer itself has no id, as in Gemini CLI. The rest of the envelope is in `extra`.
    """
    if isinstance(body, list):
        body = _join_enveloped(body).body
    envelope = Members(body)
    answer = envelope.object("response")
    if not answer:
        return read_response(body, made_up_ids)
    response = read_response(answer, made_up_ids)
    identity = response.id or envelope.text("traceId")
    return replace(response, id=identity, extra={**envelope.rest(), **response.extra})


def join_enveloped_stream(text: str) -> JoinedStream:
    """Join the chunks of a stream into the body that the same answer has without streaming."""
    return _join_enveloped(read_google_chunks(text))


def _join_enveloped(chunks: Iterable[Payload]) -> JoinedStream:
    """Join the answers in envelopes. For every other member of the envelopes, the last value is kept."""
    envelope: dict[str, Payload] = {}

    def answers() -> Iterator[Payload]:
        for chunk in map(as_dict, chunks):
            envelope.update({name: value for name, value in chunk.items() if name != "response" and value is not None})
            yield chunk.get("response")

    joined = join_chunks(answers())
    if joined.body:
        envelope["response"] = joined.body
    return replace(joined, body=envelope, error=envelope.get("error"))


def _with_enveloped_instruction(body: dict[str, Payload], text: str) -> dict[str, Payload]:
    return {**body, "request": _with_system_instruction(as_dict(body.get("request")), text)}


CODE_ASSIST = Dialect(
    name="google-code-assist",
    addresses={r"/v1internal:(?:streamG|g)enerateContent$": "google"},
    sdks=(),
    headers={},
    operation="generate_content",
    read_request=read_enveloped_request,
    read_response=read_enveloped_response,
    join_stream=join_enveloped_stream,
    not_found=not_found,
    history=History("/request/contents", read_message, MERGE_RULE),
    numbers_calls=True,
    instructions_apart=True,
    with_system=_with_enveloped_instruction,
    counting=THOUGHTS_APART,
    usage_on_request=False,
    background=None,
    websockets=None,
)
