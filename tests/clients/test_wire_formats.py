"""The builders make each provider's request from the common form of messages."""

from __future__ import annotations

from typing import Any

import pytest

from trace_recorder.clients.wire_formats import (
    anthropic_messages,
    google_generate,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from trace_recorder.clients.wire_formats.inputs import to_messages, to_tools
from trace_recorder.dialects.openai_chat import read_tool
from trace_recorder.errors import MessageFormatError
from trace_recorder.values.messages import LLMResponse, Message, ToolCall, ToolResult

Payload = Any
MODULES = (openai_chat, openai_responses, anthropic_messages, google_generate, ollama_chat)
IMAGE = {"type": "image", "media_type": "image/png", "data": "iVBO"}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"call_id": "a.1", "name": "look", "arguments": {"at": 1}},
            {"call_id": "a.2", "name": "look", "arguments": {"at": 2}},
        ],
    },
    {"call_id": "a.1", "success": True, "result": {"seen": "a cat"}},
    ToolResult("a.2", success=False, error="too dark"),
]
SCHEMA = {
    "type": "object",
    "properties": {"at": {"type": "integer"}},
    "required": ["at"],
    "additionalProperties": False,
}
DATA = "data:image/png;base64,iVBO"


def look(at: int) -> str:
    """Look at something."""
    return str(at)


DECLARED = {"name": "look", "description": "Look at something."}
CALLED = [
    {"id": f"a.{at}", "type": "function", "function": {"name": "look", "arguments": f'{{"at":{at}}}'}} for at in (1, 2)
]
SEEN = '{"seen":"a cat"}'
BUILT: dict[str, Payload] = {
    "openai-chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": DATA}},
                ],
            },
            {"role": "assistant", "content": None, "tool_calls": CALLED},
            {"role": "tool", "tool_call_id": "a.1", "content": SEEN},
            {"role": "tool", "tool_call_id": "a.2", "content": "too dark"},
        ],
        "tools": [{"type": "function", "function": {**DECLARED, "parameters": SCHEMA}}],
    },
    "openai-responses": {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": DATA},
                ],
            },
            {"type": "function_call", "call_id": "a.1", "name": "look", "arguments": '{"at":1}'},
            {"type": "function_call", "call_id": "a.2", "name": "look", "arguments": '{"at":2}'},
            {"type": "function_call_output", "call_id": "a.1", "output": SEEN},
            {"type": "function_call_output", "call_id": "a.2", "output": "too dark"},
        ],
        "tools": [{"type": "function", **DECLARED, "parameters": SCHEMA, "strict": False}],
    },
    "anthropic-messages": {
        "model": "m",
        "max_tokens": 8192,
        "system": "Be brief.",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a_1", "name": "look", "input": {"at": 1}},
                    {"type": "tool_use", "id": "a_2", "name": "look", "input": {"at": 2}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a_1", "content": SEEN},
                    {"type": "tool_result", "tool_use_id": "a_2", "content": "too dark", "is_error": True},
                ],
            },
        ],
        "tools": [{**DECLARED, "input_schema": SCHEMA}],
    },
    "google-generate": {
        "model": "m",
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "What is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"id": "a.1", "name": "look", "args": {"at": 1}},
                        "thoughtSignature": google_generate.UNSIGNED,
                    },
                    {"functionCall": {"id": "a.2", "name": "look", "args": {"at": 2}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "a.1", "name": "look", "response": {"seen": "a cat"}}},
                    {"functionResponse": {"id": "a.2", "name": "look", "response": {"error": "too dark"}}},
                ],
            },
        ],
        "config": {
            "system_instruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{**DECLARED, "parametersJsonSchema": SCHEMA}]}],
        },
    },
    "ollama-chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is this?", "images": ["iVBO"]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"function": {"name": "look", "arguments": {"at": 1}}},
                    {"function": {"name": "look", "arguments": {"at": 2}}},
                ],
            },
            {"role": "tool", "content": SEEN, "tool_name": "look"},
            {"role": "tool", "content": "too dark", "tool_name": "look"},
        ],
        "tools": [{"type": "function", "function": {**DECLARED, "parameters": SCHEMA}}],
    },
}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.WIRE_FORMAT.api)
def test_a_conversation_is_built_in_every_dialect(module):
    """A text, an image, parallel calls, a result and a failure are built in the form of each provider."""
    built = module.build_request(to_messages(CONVERSATION), to_tools([look]), {"model": "m"})

    assert built == BUILT[module.WIRE_FORMAT.api]


FORMS: dict[str, Payload] = {
    "openai chat": {"type": "image_url", "image_url": {"url": DATA}},
    "openai responses": {"type": "input_image", "image_url": DATA},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
    "google": {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
    "to_messages": IMAGE,
}


@pytest.mark.parametrize("form", FORMS)
def test_an_image_in_any_provider_s_form_is_an_image(form):
    """An image in any provider's form is sent to every provider as an image."""
    assert to_messages([{"role": "user", "content": [FORMS[form]]}]) == [Message("user", [IMAGE])]


@pytest.mark.parametrize("form", ["plain", "openai", "anthropic", "function"])
def test_tools_of_every_form_are_the_same(form):
    """A tool is the same in a request, whether it is a function or a declaration in OpenAI's, Anthropic's or a plain
    form.
    """
    definition: Payload = {
        "plain": {**DECLARED, "parameters": SCHEMA},
        "openai": {"type": "function", "function": {**DECLARED, "parameters": SCHEMA}},
        "anthropic": {**DECLARED, "input_schema": SCHEMA},
        "function": look,
    }[form]

    built = anthropic_messages.build_request([], to_tools([definition]), {})
    assert built["tools"] == BUILT["anthropic-messages"]["tools"]


def test_other_members_of_a_declaration_are_kept():
    """A tool keeps `strict` and `cache_control`, and a tool that the provider runs is passed unchanged."""
    strict = {"type": "function", "function": {**DECLARED, "parameters": SCHEMA, "strict": True}}
    search = {"type": "web_search_20250305", "name": "web_search"}

    chat = openai_chat.build_request([], to_tools([strict]), {})["tools"]
    messages = anthropic_messages.build_request([], to_tools([search]), {})["tools"]
    assert (chat, messages) == ([strict], [search])


def test_a_function_with_all_kinds_of_parameters_has_a_schema():
    """The schema of a function has its defaults, choices, nested lists and keyword-only parameters, without generated
    titles.
    """

    async def search(words: list[str], *, limit: int = 5, title: str | None = None) -> None:
        """Search."""

    [tool] = to_tools([search])
    assert tool.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["words"],
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": "integer", "default": 5},
            "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
    }


def positional(at: int, /) -> None:
    """Do nothing."""


@pytest.mark.parametrize("tool", [positional, 3, "look"])
def test_invalid_tools_are_refused(tool):
    """A function without a usable name, and an object that is not a tool, raise errors."""
    with pytest.raises(MessageFormatError, match=r"positional-only|Pass a function"):
        to_tools([tool])


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "wizard", "content": "x"}, "role 'wizard'"),
        ({"role": "tool", "content": "x"}, "without a call_id"),
        (3, "is of type int"),
        ({"role": "user", "content": [3]}, "a part of type int"),
        ({"role": "user", "content": [{"type": "image"}]}, "neither data"),
    ],
)
def test_invalid_messages_are_refused(message, said):
    """An invalid message raises an error that names the message and the fault."""
    with pytest.raises(MessageFormatError, match=f"Message 1.*{said}"):
        to_messages(["hello", message])


def test_content_that_a_provider_cannot_take_is_refused():
    """An image in a tool result, or an image by URL for Ollama, raises an error instead of being left out."""
    result = ToolResult("c", result=[{"type": "image", "url": "http://x/a.png"}])
    with pytest.raises(MessageFormatError, match="in a user message after that message"):
        openai_chat.build_request(to_messages([result]), [], {})
    with pytest.raises(MessageFormatError, match="Ollama fetches no images"):
        ollama_chat.build_request(to_messages([{"role": "user", "content": [{"type": "image", "url": "u"}]}]), [], {})


def test_a_response_is_the_assistant_s_turn():
    """An LLMResponse, and its document with a role, become the same message."""
    response = LLMResponse("hi", reasoning="hm", tool_calls=(ToolCall("c", "look", {"at": 1}),), extra={"content": []})

    from_value, from_document = to_messages([response, {"role": "assistant", **response.to_document()}])
    assert (
        from_value
        == from_document
        == Message("assistant", "hi", response.tool_calls, reasoning="hm", extra={"content": []})
    )


@pytest.mark.parametrize(
    ("given", "text"), [(None, "null"), (3, "3"), ("x", "x"), ({"a": [1]}, '{"a":[1]}'), (["ö"], '["ö"]')]
)
def test_a_result_becomes_text(given, text):
    """Any result of a tool becomes text for the model: JSON if it is not a string."""
    assert to_messages([ToolResult("c", result=given)]) == [Message("tool", text, call_id="c")]


def test_google_accepts_members_of_the_config_as_parameters():
    """Parameters for Google become members of the config, next to those of the caller's own config."""
    built = google_generate.build_request(
        [], [], {"model": "m", "config": {"seed": 1, "top_k": None}, "temperature": 0}
    )

    assert built == {"model": "m", "contents": [], "config": {"seed": 1, "temperature": 0}}


def test_a_recorded_function_without_parameters_is_sent_in_the_form_of_the_dialect() -> None:
    """OpenAI's form may omit the parameters. Anthropic requires a schema."""
    recorded = read_tool({"type": "function", "function": DECLARED})
    [tool] = anthropic_messages.build_request([], to_tools([recorded]), {})["tools"]
    assert tool == {**DECLARED, "input_schema": {"type": "object", "properties": {}}}
