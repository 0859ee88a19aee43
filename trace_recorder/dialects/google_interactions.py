"""Google's Interactions dialect (https://ai.google.dev/api/interactions-api), in which turns are lists of steps.

A turn consists of several steps: thoughts, outputs, function calls, and the work of the server's own tools. Adjacent
steps of one role become one message. The result of a function is a tool message. The API's first form is read too:
turns with a role, and `outputs`, a flat list of contents, in place of `steps`. Steps that `Message` and `LLMResponse`
cannot express without loss (signed thoughts, media, cited text, server tools) are kept in `extra["steps"]` or
`extra["outputs"]`. `finish_reason` is the interaction's final status.

In a stream, each step is started, grows by deltas and is stopped. Any event may have the token counts.
"""

from __future__ import annotations

from itertools import groupby

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import number_calls, number_messages
from trace_recorder.dialects.deltas import finish_texts, merge
from trace_recorder.dialects.dialect import NOT_FINAL, Background, Dialect
from trace_recorder.dialects.google_generate import not_found
from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_elements,
    as_int,
    as_list,
    as_part,
    as_text,
    content_of,
    join_texts,
    json_value,
    role_of,
)
from trace_recorder.dialects.openai_chat import read_tool
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    ToolCall,
    Usage,
)
from trace_recorder.values.token_counts import THOUGHTS_APART

_MODEL_STEPS = ("model_output", "thought", "function_call")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. `system_instruction` becomes the first message."""
    members = Members(body)
    system = content_of(members.take("system_instruction"))
    instructions = []
    if system is not None:
        instructions.append(Message("system", system))
    messages = [*instructions]
    for role, elements in groupby(as_elements(members.take("input")), _role):
        messages += _messages(role, [*elements])
    tools = [read_tool(declaration) for declaration in members.array("tools")]
    model = as_text(as_dict(body).get("model"))
    return RequestReading(number_messages(messages), tools, members.all(), model, len(instructions))


def read_message(element: Payload) -> list[Message]:
    """Read one element of `input`: a step, a content, or a turn. Missing ids stay empty."""
    if element is None:
        return []
    return _messages(_role(element), [element])


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an interaction, or an error, which is kept in `extra`."""
    members = Members(body)
    name = "steps" if "steps" in as_dict(body) else "outputs"
    steps = members.array(name)
    blocks = [block for step in _answering(steps) for block in _blocks(step)]
    kept = [step for step in steps if not _is_lossless(step)]
    calls = number_calls(_tool_calls(blocks), made_up_ids)
    gathered = _gathered(_answering(steps), len(kept) - sum(not _is_lossless(step) for step in _answering(steps)))
    finish_reason = None
    if as_dict(body).get("status") not in NOT_FINAL:
        finish_reason = members.nonempty_text("status")
    choice = Choice(
        index=0,
        content=gathered.all_text(),
        reasoning=gathered.all_reasoning(),
        tool_calls=calls,
        interleaved=gathered.interleaved(calls),
        finish_reason=finish_reason,
    )
    usage, model, identity = _usage(members.object("usage")), members.text("model"), members.text("id")
    extra = members.rest()
    if kept:
        extra[name] = kept
    return LLMResponse(
        content=choice.content,
        reasoning=choice.reasoning,
        tool_calls=choice.tool_calls,
        finish_reason=choice.finish_reason,
        usage=usage,
        model=model,
        id=identity,
        choices=(choice,) if name in as_dict(body) else (),
        extra=extra,
        interleaved=choice.interleaved,
    )


def _answering(steps: list[Payload]) -> list[Payload]:
    """Return the steps after the last input. Some interactions repeat their inputs."""
    inputs = [position for position, step in enumerate(steps) if element_type(step) == "user_input"]
    if not inputs:
        return steps
    return steps[inputs[-1] + 1 :]


def _role(element: Payload) -> str:
    """Return the role of an element of the input. The work of a server's tool belongs to the model."""
    members, kind = as_dict(element), element_type(element)
    if kind == "function_result":
        return "tool"
    if kind in _MODEL_STEPS or kind.endswith(("_call", "_result")):
        return "assistant"
    return role_of(members.get("role"))


def _blocks(element: Payload) -> list[Payload]:
    """Split an output, an input or a turn into its contents. Any other value is one block."""
    blocks = [element]
    if _is_container(element):
        blocks = as_elements(as_dict(element).get("content"))
    return [as_part(block) for block in blocks]


def _is_container(element: Payload) -> bool:
    members = as_dict(element)
    return element_type(element) in ("model_output", "user_input") or ("role" in members and "content" in members)


def _beside(element: Payload) -> dict[str, Payload]:
    """Return the members that an output, an input or a turn has beside its contents, such as an error."""
    if not _is_container(element):
        return {}
    members = Members(element)
    for name in ("type", "role", "content"):
        members.take(name)
    return members.rest()


def _messages(role: str, elements: list[Payload]) -> list[Message]:
    """Read adjacent elements of one role: a message for each function result, then a message with the other parts."""
    blocks = [block for element in elements for block in _blocks(element)]
    results = [_tool_message(block) for block in blocks if element_type(block) == "function_result"]
    rest = [block for block in blocks if element_type(block) != "function_result"]
    extra = {name: value for element in elements for name, value in _beside(element).items()}
    if results and not rest and not extra:
        return results
    return [*results, _message(role, rest, extra)]


def _message(role: str, blocks: list[Payload], extra: dict[str, Payload]) -> Message:
    signed = [block for block in blocks if element_type(block) == "thought" and not _is_lossless(block)]
    if signed:
        extra = {**extra, "steps": signed}
    gathered = _gathered(blocks)
    return Message(
        role,
        gathered.content([block for block in blocks if element_type(block) not in ("thought", "function_call")]),
        _tool_calls(blocks),
        reasoning=gathered.all_reasoning(),
        extra=extra,
    )


def _is_lossless(step: Payload) -> bool:
    """Whether a step has only calls, plain text and plain thoughts, so that `extra` need not keep the step."""
    members = Members(step)
    kind = members.text("type")
    if kind == "function_call":
        return True
    if kind == "text":
        return members.text("text") is not None and not members.rest()
    inner = [*members.array("content"), *members.array("summary")]
    if kind not in ("model_output", "thought") or members.rest():
        return False
    return all(element_type(content) == "text" and _is_lossless(content) for content in inner)


def _gathered(steps: list[Payload], kept: int = 0) -> Blocks:
    """Collect the blocks of steps.

    Texts, thoughts and calls are added as such. For any other block, the position of its step in `extra` is added.
    `kept` is the number of earlier steps that `extra` keeps.
    """
    gathered = Blocks()
    for step in steps:
        for block in _blocks(step):
            kind = element_type(block)
            if kind == "text":
                gathered.add_text(as_text(block.get("text")))
            elif kind == "thought":
                summary = as_list(block.get("summary"))
                gathered.add_reasoning(join_texts(as_text(as_dict(part).get("text")) for part in summary))
            elif kind == "function_call":
                gathered.add_call()
            else:
                gathered.add_other(kept)
        kept += not _is_lossless(step)
    return gathered


def _tool_calls(blocks: list[Payload]) -> tuple[ToolCall, ...]:
    return tuple(_tool_call(block) for block in blocks if element_type(block) == "function_call")


def _tool_call(block: Payload) -> ToolCall:
    members = Members(block)
    members.take("type")
    call_id, name = members.text("id") or "", members.text("name") or ""
    return ToolCall(call_id, name, arguments_of(members.take("arguments")), extra=members.rest())


def _tool_message(block: Payload) -> Message:
    """Read a function's result: a text, a list of contents, or any other JSON as text."""
    members = Members(block)
    members.take("type")
    result = members.take("result")
    if isinstance(result, str | list | None):
        content = content_of(result)
    else:
        content = to_json(result)
    return Message("tool", content, call_id=members.text("call_id"), name=members.text("name"), extra=members.rest())


def _usage(usage: dict[str, Payload]) -> Usage:
    members = Members(usage)
    return Usage(
        input_tokens=members.integer("total_input_tokens"),
        output_tokens=members.integer("total_output_tokens"),
        cache_read_input_tokens=members.integer("total_cached_tokens"),
        reasoning_tokens=members.integer("total_thought_tokens"),
        extra=members.rest(),
    )


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_CONTENTS = ("text", "image", "audio", "video", "document")


def join_stream(text: str) -> JoinedStream:
    """Join the events of a stream into the body that the same interaction has without streaming."""
    joined = _JoinedInteraction()
    number = 0
    for number, (name, data) in enumerate(events(text), start=1):  # noqa: B007 read after the loop
        joined.add(name, data)
    if number == 0:
        return unstreamed(text)
    return joined.stream(number)


def element_type(element: Payload) -> str:
    """Return the type of a step, a content or a delta, or an empty text if it has no type."""
    return as_text(as_dict(element).get("type")) or ""


class _GrowingStep:
    """A step, or a content of a step, that grows by deltas."""

    def __init__(self, start: Payload) -> None:
        self._members = dict(as_dict(start))
        self._parts: list[_GrowingStep] = []
        self._pieces: dict[str, list[str]] = {}

    def grow(self, delta: dict[str, Payload]) -> None:
        """Add a delta. A text extends the last part if that is a text. Any other content becomes a new part."""
        kind = element_type(delta)
        if kind in _CONTENTS and kind != element_type(self._members):
            if kind != "text" or not self._parts or element_type(self._parts[-1]._members) != kind:
                self._parts.append(_GrowingStep({"type": kind}))
            self._parts[-1].grow(delta)
        elif kind == "thought_summary":
            self._members["summary"] = as_list(self._members.get("summary"))
            self._members["summary"].append(delta.get("content"))
        elif kind == "text_annotation_delta" and self._parts:
            self._parts[-1].grow(delta)
        else:
            self._merge(delta)

    def _merge(self, delta: dict[str, Payload]) -> None:
        """Add a delta to the members: `deltas.py` states how. The arguments of a call are texts until the end."""
        for name, value in delta.items():
            if name in ("text", "arguments") and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            elif name != "type" and value is not None:
                merge(self._members, {name: value})

    def assembled(self) -> dict[str, Payload]:
        """Return the step as an unstreamed answer has it. Arguments that were cut off stay a text."""
        if self._parts:
            self._members["content"] = as_list(self._members.get("content")) + [
                part.assembled() for part in self._parts
            ]
        for name, pieces in self._pieces.items():
            text = "".join([as_text(self._members.get(name)) or "", *pieces])
            self._members[name] = text
            if name == "arguments":
                self._members[name] = arguments_of(text)
        return as_dict(finish_texts(self._members))


class _JoinedInteraction:
    """An interaction that grows by events."""

    def __init__(self) -> None:
        self._body: dict[str, Payload] = {}
        self._blocks: list[_GrowingStep] = []
        self._growing: dict[int | None, _GrowingStep] = {}
        self._list = "steps"
        self._ended = False

    def add(self, name: str | None, data: str) -> None:
        """Add one event. An event that is not a JSON object, or has an unknown type, changes nothing."""
        event = Members(json_value(data))
        kind = event.text("event_type") or name or ""
        metadata = event.object("metadata")
        self._set_members({"usage": metadata.get("usage") or metadata.get("total_usage")})
        if kind.startswith("interaction."):
            self._set_members({"id": event.text("interaction_id"), **event.object("interaction"), **event.rest()})
        elif kind == "error":
            self._body["error"] = event.take("error") or event.rest() or data
        elif kind.startswith(("step.", "content.")):
            self._list = "steps" if kind.startswith("step.") else "outputs"
            start = event.object("step") or event.object("content")
            self._block(as_int(event.take("index")), start, event.object("delta"))
        self._ended |= kind in ("interaction.completed", "interaction.complete", "done")

    def _set_members(self, members: dict[str, Payload]) -> None:
        self._body.update({name: value for name, value in members.items() if value is not None})

    def _block(self, index: int | None, start: dict[str, Payload], delta: dict[str, Payload]) -> None:
        if start or (delta and index not in self._growing):
            self._growing[index] = _GrowingStep(start or {"type": "model_output"})
            self._blocks.append(self._growing[index])
        if delta:
            self._growing[index].grow(delta)

    def stream(self, number: int) -> JoinedStream:
        """Return the joined body.

        `number` is how many events the stream had. If the provider sends all steps at the end, these steps are used.
        """
        if self._blocks and not self._body.get(self._list):
            self._body[self._list] = [block.assembled() for block in self._blocks]
        return JoinedStream(self._body, self._ended, number, self._body.get("error"))


DIALECT = Dialect(
    name="google-interactions",
    addresses={r"/interactions/?$": "google"},
    sdks=("google",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=True,
    with_system=lambda body, text: {**body, "system_instruction": text},
    counting=THOUGHTS_APART,
    usage_on_request=False,
    background=Background(lazy_pattern(r"/interactions/([^/]+?)(/cancel)?/?$"), resumed_is_whole=False),
    websockets=None,
)
