"""The OpenAI chat dialect (/chat/completions, and Mistral's /agents/completions).

This file reads requests, responses and streams of OpenAI and compatible servers. Azure, Groq, Mistral, Together,
DeepSeek, OpenRouter, vLLM and others differ from OpenAI in members that they add. Members that `Message`, `Choice` and
`LLMResponse` lack keep their names in `extra`. Members of a choice (log-probabilities, token ids) go into the choice's
`extra`. Members of a choice's message go into the response's `extra` for the first choice, and into the choice's
`extra` for all later choices. Reasoning is never part of the content. `chat_chunks.py` joins the chunks of a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trace_recorder.dialects.blocks import Blocks, is_reference
from trace_recorder.dialects.call_ids import count_made_up, number_calls, number_messages
from trace_recorder.dialects.chat_chunks import function_key, join_chat_stream
from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.json_access import (
    ROLES,
    Members,
    arguments_of,
    as_dict,
    as_elements,
    as_list,
    as_part,
    as_text,
    content_of,
    is_nonempty,
    join_texts,
    role_of,
)
from trace_recorder.dialects.stated_usage import COSTS, output_with_reasoning, take_cost
from trace_recorder.values.messages import (
    Block,
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
from trace_recorder.values.token_counts import WHOLE

_PLAIN = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "refusal", "annotations"})
"""The members of an ordinary message (`_plain_message`)."""
_PLAIN_CALL = frozenset({"id", "type", "function"})
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_WRITTEN = (("cache_write_tokens", _INPUT_DETAILS), ("cache_creation_input_tokens", _INPUT_DETAILS))
"""The names that services use for the count of tokens written to a cache, and the objects that may have the count."""
_DETAILS = (
    ("cached_tokens", _INPUT_DETAILS),
    ("reasoning_tokens", ("completion_tokens_details", "output_tokens_details", "output_token_details")),
)
"""The names of two counts: tokens read from a cache, and reasoning tokens.

After each name are the objects that may have the count.
"""
_COUNTS = (
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("cache_creation_input_tokens",),
    ("cache_read_input_tokens", "cached_tokens", "prompt_cache_hit_tokens"),
)
"""The names of four counts: input tokens, output tokens, tokens written to a cache, and tokens read from a cache."""
_THINKING = ("reasoning_content", "reasoning", "reasoning_details")
_CALLS = ("tool_calls", "function_call")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    messages = [message for element in members.array("messages") for message in read_message(element)]
    tools = [read_tool(tool) for key in ("tools", "functions") for tool in members.array(key)]
    parameters = members.all()
    return RequestReading(number_messages(messages), tools, parameters, as_text(parameters.get("model")))


def read_message(element: Payload) -> list[Message]:
    """Read one element of `messages`. Missing ids stay empty."""
    if not isinstance(element, dict):
        return read_bare(element)
    plain = _plain_message(element)
    if plain is not None:
        return [plain]
    members = Members(element)
    role = role_of(members.text("role"))
    content = _read_content(members)
    members.drop_empty("refusal", "audio")
    calls: tuple[ToolCall, ...] = ()
    if not members.keys().isdisjoint(_CALLS):
        calls = _read_calls(members)
    call_id, name = members.nonempty_text("tool_call_id"), members.nonempty_text("name")
    extra = members.rest()
    if content.thinking:
        extra["thinking"] = content.thinking
    return [Message(role, content.visible, calls, call_id, name, content.reasoning, extra)]


def _plain_message(element: dict[str, Payload]) -> Message | None:
    """Read a message in the most common form.

    It has a role, at most one text, and tool calls or the id of a call. It may have a name and annotations.

    Returns None for any other message. `read_message` would return the same message, but more slowly.
    """
    role, content = element.get("role"), element.get("content")
    if not (role and type(role) is str) or not (content is None or type(content) is str):
        return None
    if content is not None and len(element) == 2:
        return Message(ROLES.get(role, role), content)
    if not element.keys() <= _PLAIN:
        return None
    calls = element.get("tool_calls")
    call_id, name, annotations = element.get("tool_call_id"), element.get("name"), element.get("annotations")
    if not (call_id is None or type(call_id) is str) or not (name is None or type(name) is str):
        return None
    if element.get("refusal") or not (calls is None or type(calls) is list):
        return None
    read_calls: tuple[ToolCall, ...] = ()
    if calls is not None:
        read_calls = tuple(_calls_in(calls))
    extra = {}
    if annotations is not None:
        extra["annotations"] = annotations
    return Message(ROLES.get(role, role), content, read_calls, call_id or None, name or None, extra=extra)


class _Content(NamedTuple):
    """The content of a message: without reasoning, the reasoning, and the parts that were reasoning."""

    visible: str | list[Payload] | None
    reasoning: str | None
    thinking: Sequence[Payload] = ()


def _read_content(members: Members) -> _Content:
    """Take the content of a message."""
    content = members.take("content")
    if isinstance(content, list):
        gathered = _blocks(members, content)
        thinking = [part for part in content if _is_thinking(part)]
        parts = [as_part(part) for part in content if not _is_thinking(part)]
        return _Content(gathered.content(parts), gathered.all_reasoning(), thinking)
    reasoning = None
    if not members.keys().isdisjoint(_THINKING):
        reasoning = _blocks(members, content).all_reasoning()
    return _Content(content_of(content), reasoning)


def read_bare(element: Payload) -> list[Message]:
    """Read an element that is not an object. A text, or a list of parts, is a user's message. Null is no message."""
    content = content_of(element)
    if content is None:
        return []
    return [Message("user", content)]


def read_tool(declared: Payload) -> Tool:
    """Read an offered tool. The name of a built-in tool is its type."""
    members = as_dict(declared)
    function = as_dict(members.get(function_key(members))) or members
    name = as_text(function.get("name")) or as_text(members.get("type")) or ""
    return Tool(name, as_text(function.get("description")), function.get("parameters"), declared)


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON. `made_up_ids` is how many tool calls of the request have made-up ids."""
    members = Members(body)
    choices: list[Choice] = []
    extra: dict[str, Payload] = {}
    for position, element in enumerate(members.array("choices")):
        choice, message_extra = _read_choice(element, position, made_up_ids)
        if choice.tool_calls:
            made_up_ids += count_made_up(choice.tool_calls)
        choices.append(choice)
        if position == 0:
            extra.update(message_extra)
        else:
            choice.extra.update(message_extra)
    first = choices[0] if choices else Choice(0)
    return LLMResponse(
        first.content,
        reasoning=first.reasoning,
        tool_calls=first.tool_calls,
        finish_reason=first.finish_reason,
        usage=read_usage(members.object("usage") or members.nested("x_groq").object("usage")),
        model=members.text("model"),
        id=members.text("id"),
        choices=tuple(choices),
        extra=extra | members.rest(),
        interleaved=first.interleaved,
    )


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere."""
    return join_chat_stream(text)


def read_usage(usage: Payload) -> Usage:
    """Read the usage object of any of OpenAI's dialects."""
    members = Members(usage)
    cached, reasoning = members.integers_inside(*_DETAILS)
    names: tuple[tuple[str, ...], ...] = _COUNTS
    if cached is not None:
        names = _COUNTS[:-1]
    sent, answered, written, *in_cache = members.first_integers(*names)
    if cached is None:
        [cached] = in_cache
    if written is None and not members.keys().isdisjoint(_INPUT_DETAILS):
        written = next((n for n in members.integers_inside(*_WRITTEN) if n is not None), None)
    cost = None
    if not members.keys().isdisjoint(COSTS):
        cost = take_cost(members)
    return Usage(
        sent,
        output_with_reasoning(sent, answered, reasoning, (cached or 0) + (written or 0), members.get("total_tokens")),
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
        reasoning_tokens=reasoning,
        cost=cost,
        extra=members.rest(),
    )


def _read_choice(element: Payload, position: int, made_up_ids: int) -> tuple[Choice, dict[str, Payload]]:
    """Read a choice. Also return the members of its message that belong in `extra`."""
    members = Members(element)
    index = members.integer("index")
    raw = members.object("message")
    plain = _plain_message(raw)
    message = plain
    if message is None:
        message = next(iter(read_message(raw)), Message("assistant"))
    calls: tuple[ToolCall, ...] = ()
    if message.tool_calls:
        calls = number_calls(message.tool_calls, made_up_ids)
    content: Payload = raw.get("content")
    interleaved: tuple[Block, ...] = ()
    if plain is None:
        content, interleaved = _read_answer(raw, calls)
    if content is None:
        content = members.text("text")
    choice = Choice(
        position if index is None else index,
        content,
        message.reasoning,
        calls,
        members.nonempty_text("finish_reason"),
        extra=members.rest() if members else {},
        interleaved=interleaved,
    )
    if isinstance(message.content, list):
        return choice, message.extra | {"content": message.content}
    return choice, message.extra


def _read_answer(raw: dict[str, Payload], calls: tuple[ToolCall, ...]) -> tuple[str | None, tuple[Block, ...]]:
    """Return the text of an answer, and its blocks if their order is unusual."""
    gathered = _blocks(Members(raw), raw.get("content"))
    for _ in calls:
        gathered.add_call()
    return gathered.all_text(), gathered.interleaved(calls)


def _read_calls(members: Members) -> tuple[ToolCall, ...]:
    """Take the tool calls of a message, and its `function_call`, the form of a tool call in the older API."""
    calls = _calls_in(members.array("tool_calls"))
    members.drop_empty("function_call")
    if function := members.object("function_call"):
        calls.append(_read_any_call({"function": function}))
    return tuple(calls)


def _is_call(element: Payload) -> bool:
    return not isinstance(element, dict) or any(
        is_nonempty(element[name]) for name in element if name not in ("index", "type")
    )


def _calls_in(elements: Sequence[Payload]) -> list[ToolCall]:
    """Read the elements of a list of calls. An element whose members are all empty is no call."""
    calls = []
    for element in elements:
        call = _plain_call(element)
        if (call is not None and call.call_id) or _is_call(element):
            calls.append(call or _read_any_call(element))
    return calls


def _plain_call(element: Payload) -> ToolCall | None:
    """Read a call in the most common form: an id, and a function with a name and arguments as text.

    Returns None for any other form.
    """
    if type(element) is not dict or element.keys() != _PLAIN_CALL or element["type"] != "function":
        return None
    call_id, function = element["id"], element["function"]
    if type(call_id) is not str or type(function) is not dict or len(function) != 2:
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if type(name) is not str or type(arguments) is not str:
        return None
    return ToolCall(call_id, name, arguments_of(arguments))


def _read_any_call(element: Payload) -> ToolCall:
    members = Members(element)
    call_id = members.text("id")
    members.integer("index")
    if as_dict(element).get("type") in ("function", ""):
        members.take("type")
    members.drop_empty(*({"function", "custom"} - {function_key(as_dict(element))}))
    called = members.nested(function_key(as_dict(element)))
    arguments: Payload = called.text("input")
    if arguments is None:
        arguments = arguments_of(called.take("arguments"))
    name = called.text("name") or ""
    return ToolCall(call_id or "", name, arguments, extra=members.rest())


def _blocks(members: Members, content: Payload) -> Blocks:
    """Collect the blocks of a message except its calls. Take the message's `reasoning_content` and `reasoning`.

    If a message has neither, and no reasoning in its content, read its `reasoning_details`, which stay in `extra`.
    Reasoning outside of the content comes first. For any block that is neither text nor reasoning, its index in the
    content is added. Reasoning does not count in this index. A reference between two texts, as in Mistral's citations,
    does not separate the texts.
    """
    gathered, position = Blocks(), 0
    parts = as_elements(content)
    if not members.keys().isdisjoint(_THINKING) and (beside := _reasoning_beside(members, parts)):
        gathered.add_reasoning(beside)
    for part in parts:
        if _is_thinking(part):
            gathered.add_reasoning(_thought(part))
            continue
        if isinstance(part, str):
            gathered.add_text(part)
        elif as_dict(part).get("type") == "text":
            gathered.add_text(as_text(part.get("text")))
        elif not is_reference(part):
            gathered.add_other(position)
        position += 1
    return gathered


def _reasoning_beside(members: Members, parts: list[Payload]) -> str | None:
    """Take the reasoning from the members beside the content.

    Ignore it if it repeats the reasoning inside the content.
    """
    inside = join_texts(_thought(part) for part in parts if _is_thinking(part))
    named = dict.fromkeys((members.text("reasoning_content"), members.text("reasoning")))
    beside = "".join(text for text in named if text and text != inside)
    if beside:
        return beside
    if inside:
        return None
    return _joined_texts(members.rest().get("reasoning_details"))


def _thought(part: Payload) -> str | None:
    return as_text(part["thinking"]) or _joined_texts(part["thinking"])


def _joined_texts(parts: Payload) -> str | None:
    texts = (part.get("text") or part.get("summary") for part in map(as_dict, as_list(parts)))
    return join_texts(map(as_text, texts)) or None


def _is_thinking(part: Payload) -> bool:
    return isinstance(part, dict) and part.get("type") == "thinking" and "thinking" in part


def with_system_message(body: dict[str, Payload], text: str, name: str = "messages") -> dict[str, Payload]:
    """Set the text of the first message if it is a system or developer message.

    Otherwise insert a system message before it.
    """
    messages = as_list(body.get(name))
    if messages:
        first = as_dict(messages[0])
        if first.get("role") in {"system", "developer"}:
            return {**body, name: [{**first, "content": text}, *messages[1:]]}
    return {**body, name: [{"role": "system", "content": text}, *messages]}


def not_found(message: str) -> Payload:
    """Return the error with which `serve` refuses a request, in OpenAI's form, which several other dialects use too."""
    return {"error": {"message": message, "type": "replay_mismatch", "param": None, "code": "replay_mismatch"}}


DIALECT = Dialect(
    name="openai-chat",
    addresses={r"/(?:chat|agents)/completions/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=History("messages", read_message),
    numbers_calls=True,
    instructions_apart=False,
    with_system=with_system_message,
    counting=WHOLE,
    usage_on_request=True,
    background=None,
    websockets=None,
)
