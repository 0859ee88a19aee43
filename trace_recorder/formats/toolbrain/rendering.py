"""Converts the messages of a turn to two strings: the prompt that the model got, and the answer that it returned.

For an open model, a chat template makes these strings (`chat_template.py`, or a tokenizer). For a model behind an API,
the strings are unknown. `PlainText` then writes everything that was sent, always in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from trace_recorder.clocks import parse_time
from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.dialects.message_text import text_of
from trace_recorder.errors import RenderingError
from trace_recorder.figures.content.chat_form import chat_call, chat_part
from trace_recorder.formats.toolbrain.chat_template import ChatMessage, ChatTemplate, Renderer
from trace_recorder.guard import try_call
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.content_parts import Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MadeOnce
from trace_recorder.values.messages import Message, Payload, Tool

_SENTINEL = "\ue000"
"""A placeholder for an answer. After the placeholder, a template writes the text that follows every answer."""


class PlainText:
    """Writes a conversation as `<|ROLE|>` and the content, with thinking, calls and tools as they were sent.

    Each message is written once and kept, because conversations repeat messages.
    """

    def __init__(self) -> None:
        self._blocks = MadeOnce.by(self._block)

    def text(
        self, prompt: Sequence[Message], more: Sequence[Message], tools: Sequence[Payload], *, begins_answer: bool
    ) -> str:
        """Return the text of a prompt and of more messages after it."""
        blocks = []
        if tools:
            blocks += ["<|TOOLS|>", *(f"{_json(tool)}\n" for tool in tools)]
        blocks += [*self._blocks.of(prompt), *map(self._block, more)]
        if begins_answer:
            blocks.append("<|ASSISTANT|>")
        return "".join(blocks)

    def _block(self, message: Message) -> str:
        chat = _chat_message(message)
        heading = [chat["role"].upper(), chat.get("name"), chat.get("tool_call_id")]
        if chat.get("is_error"):
            heading.append("failed")
        return f"<|{' '.join(filter(None, heading))}|>{self.content_text(chat)}\n"

    def content_text(self, message: ChatMessage) -> str:
        """Write the content of a message, without its role."""
        content = message.get("content") or []
        if not isinstance(content, list):
            content = [content]
        texts = [_part(part) for part in content]
        if thought := message.get("reasoning_content"):
            texts = [f"<|THINKING|>{thought}", "<|SAID|>" + "\n".join(texts)]
        calls = (call["function"] for call in message.get("tool_calls") or ())
        return "\n".join([*texts, *(f"<|TOOL_CALL|>{_json(call)}" for call in calls)])


def _part(part: Payload) -> str:
    text = part
    if isinstance(part, dict) and part.get("type") == "text":
        text = part.get("text")
    if isinstance(text, str):
        return text
    return _json(part)


def _json(value: Payload) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Rendering:
    """Renders the prompt and the answer of one turn.

    `parameters` are the parameters of the request. Some of the parameters are for the template. `interaction` has the
    arguments of tool calls as they were sent. `variables` are passed to the template unchanged.
    """

    renderer: Renderer | PlainText
    interaction: LLMInteraction
    time: datetime | None
    messages: Sequence[Message]
    tools: list[Payload]
    parameters: dict[str, Payload]
    variables: dict[str, Payload]

    @classmethod
    def of(cls, turn: Turn, renderer: Renderer | PlainText, variables: dict[str, Payload]) -> Rendering:
        """Make the rendering of a turn."""
        call = turn.interaction
        request = call.source.request()
        messages: Sequence[Message] = request.messages
        if turn.relation == "refers":
            messages = turn.messages()
        time = parse_time(call.timestamp)  # an imported run may have no times
        schemas = tool_schemas(request.tools)
        return cls(renderer, call, time, messages, schemas, request.parameters, variables)

    def prompt(self) -> str:
        """Return the string that the model got."""
        names = ("add_generation_prompt", "continue_final_message", "documents")
        options = {name: self.parameters[name] for name in names if self.parameters.get(name) is not None}
        return self._render(**({"add_generation_prompt": True} | options))

    def conversation(self, answer: Message, after: Sequence[Message]) -> str | None:
        """Return the text of the prompt, the answer and later messages, or None if the template refuses them."""
        return self._render_if_accepted(answer, *after)

    def completion(self, prompt: str, answer: Message) -> str:
        """Return the string that the model returned.

        If the answer is only text, the text is that string. If the answer has thinking or tool calls, a server has
        taken them out of the string. The template puts these parts together again when it writes the message into a
        prompt. If the template refuses the message, the form of `PlainText` is used.
        """
        if not (answer.reasoning or answer.tool_calls):
            return text_of(answer)
        [message] = chat_messages([answer])
        if isinstance(self.renderer, PlainText):
            return self.renderer.content_text(message)
        whole = self._render_if_accepted(answer)
        if whole is None or not whole.startswith(prompt):
            return PlainText().content_text(message)
        probe = self._render_if_accepted(Message("assistant", _SENTINEL)) or ""
        return whole[len(prompt) :].removesuffix(probe.rpartition(_SENTINEL)[2])

    def _render_if_accepted(self, *more: Message) -> str | None:
        """Render the prompt followed by these messages, or return None if the template does not accept them."""
        try:
            return self._render(*more)
        except RenderingError:
            return None

    def _render(self, *more: Message, **options: Payload) -> str:
        variables = {**as_dict(self.parameters.get("chat_template_kwargs")), **self.variables, **options}
        if isinstance(self.renderer, PlainText):
            begins_answer = bool(variables.get("add_generation_prompt"))
            return self.renderer.text(self.messages, more, self.tools, begins_answer=begins_answer)
        messages = chat_messages([*self.messages, *more])
        if isinstance(self.renderer, ChatTemplate):
            variables = {"at": self.time, **variables}
        apply = partial(self.renderer.apply_chat_template, tools=self.tools or None, tokenize=False, **variables)
        failures: list[Exception] = []
        text = try_call(partial(apply, messages), failures.append)
        if text is None:  # some templates, such as DeepSeek's, expect arguments as text
            text = try_call(partial(apply, _with_texts(messages, _sent_arguments(self.interaction))), failures.append)
        if text is not None:
            return str(text)
        raise RenderingError(
            f"The chat template refused the messages of {self.interaction.interaction_id}: "
            f"{type(failures[0]).__name__}: {failures[0]} Pass the template of the model that was called, or none."
        ) from failures[0]


def _with_texts(messages: list[ChatMessage], sent_texts: Mapping[str, str]) -> list[ChatMessage]:
    """Return messages with arguments of tool calls as the text that was sent, or as JSON if that text is unknown."""

    def with_text(call: Payload) -> Payload:
        arguments = call["function"]["arguments"]
        if not isinstance(arguments, str):
            arguments = sent_texts.get(call["id"]) or _json(arguments)
        return call | {"function": call["function"] | {"arguments": arguments}}

    changed = []
    for message in messages:
        if "tool_calls" in message:
            changed.append({**message, "tool_calls": [*map(with_text, message["tool_calls"])]})
        else:
            changed.append(message)
    return changed


def _sent_arguments(interaction: LLMInteraction) -> dict[str, str]:
    """Return the arguments of tool calls in a request as they were sent, by the ids of the calls.

    Only OpenAI's chat dialect sends arguments as texts.
    """
    if interaction.api != openai_chat.DIALECT.name:
        return {}
    messages = as_list(as_dict(interaction.raw_request).get("messages"))
    calls = [as_dict(call) for message in messages for call in as_list(as_dict(message).get("tool_calls"))]
    texts = {call.get("id"): as_dict(call.get("function")).get("arguments") for call in calls}
    return {name: text for name, text in texts.items() if isinstance(name, str) and isinstance(text, str)}


def chat_messages(messages: Sequence[Message]) -> list[ChatMessage]:
    """Write messages in the form that chat templates read, as servers do before they render.

    Arguments become objects, missing content becomes an empty text, and several texts become one text with line breaks.
    Images remain parts, in OpenAI's form.
    """
    return [_chat_message(message) for message in messages]


def _chat_message(message: Message) -> ChatMessage:
    members: dict[str, Payload] = {"role": message.role, "content": _content(message)}
    more = {
        "reasoning_content": message.reasoning,
        "tool_calls": [chat_call(call, call.arguments) for call in message.tool_calls] or None,
        "tool_call_id": message.call_id,
        "name": message.name,
    }
    members |= {name: value for name, value in more.items() if value is not None}
    if message.extra.get("is_error") is True:
        members["is_error"] = True
    return members


def _content(message: Message) -> Payload:
    parts = parts_of(message)
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, Text))
    return [chat_part(part) for part in parts]


def tool_schemas(tools: Sequence[Tool]) -> list[Payload]:
    """Write tools in the form that chat templates read. A tool that was sent in that form is unchanged."""
    return [_schema(tool) for tool in tools]


def _schema(tool: Tool) -> Payload:
    if isinstance(tool.raw, dict) and isinstance(tool.raw.get("function"), dict):
        return tool.raw
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}
    return {"type": "function", "function": function}
