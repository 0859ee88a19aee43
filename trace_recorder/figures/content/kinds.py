"""The contents of a message or an answer other than its texts and tool calls, by kind, in every dialect.

Examples are media, refusals, citations, signatures, and the output of a server's own tools. Depending on the dialect,
such contents are parts, members next to the text, or separate items. This module makes each such part, member or item a
`Content` with the name of its kind. A kind that no table of this module lists keeps the provider's name, so nothing is
overlooked. `_OF_THE_CALL` lists members that describe the call, such as a fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from trace_recorder.dialects.deltas import comes_in_pieces
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.values.content_parts import Image, part_of
from trace_recorder.values.messages import BlockType, Choice, LLMResponse, Message, Payload, ToolCall

Location = Literal["part", "images", "images made", "beside a text", "beside"]

IMAGES, IMAGES_BY_ADDRESS, IMAGES_ELSEWHERE = "images", "images by address", "images by the name of a file"
AUDIO, VIDEO, DOCUMENTS = "audio", "video", "documents"
THOUGHTS, SIGNATURES = "thoughts", "signatures and encrypted thoughts"
NAMES = "names of speakers"
UNSUMMARISED = "full texts of thoughts that have a summary"
REFUSALS, BLOCKED, CITATIONS = "refusals", "blocked prompts or contents", "citations"
CODE = "executed code and its output"
INTERLEAVING = "interleaved thoughts, texts and calls"


@dataclass(frozen=True, slots=True)
class Content:
    """A content that is neither a text nor a tool call.

    `location` is its place: a part of the content, an element of a message's `images`, a member of a text part ("beside
    a text"), or a member of the message ("beside"). Contents of an answer are elements of its `images` ("images made"),
    or "beside".
    """

    kind: str
    location: Location
    raw: Payload


def contents_of(message: Message) -> Iterator[Content]:
    """Yield the contents of a message in a request."""
    for element in as_list(message.content):
        yield from _contents_of_element(element, "part")
    if message.reasoning:
        yield Content(THOUGHTS, "beside", message.reasoning)
    if message.name and message.role != "tool":
        yield Content(NAMES, "beside", message.name)
    yield from _contents_of_members(message.extra)
    yield from _contents_of_calls(message.tool_calls)


def contents_of_answer(response: LLMResponse, number: int = 0) -> Iterator[Content]:
    """Yield the contents of an answer. `number` selects one of several answers."""
    choice = Choice(0)
    if number < len(response.choices):
        choice = response.choices[number]
    answer: Choice | LLMResponse = choice
    members = choice.extra
    if number == 0:
        answer = response
        members = {**response.extra, **choice.extra}
    if answer.reasoning:
        yield Content(THOUGHTS, "beside", answer.reasoning)
    order = [_USUAL_ORDER[block.type] for block in answer.interleaved if block.type in _USUAL_ORDER]
    if order != sorted(order):
        yield Content(INTERLEAVING, "beside", [block.to_document() for block in answer.interleaved])
    for content in _contents_of_members(members):
        if content.location == "images":
            yield Content(content.kind, "images made", content.raw)
        else:
            yield Content(content.kind, "beside", content.raw)
    yield from _contents_of_calls(answer.tool_calls)


_USUAL_ORDER: dict[BlockType, int] = {"reasoning": 0, "text": 1, "tool_call": 2}
"""The usual order of blocks in an answer. An answer in any other order has a content of the kind `INTERLEAVING`."""


def _contents_of_calls(calls: Iterable[ToolCall]) -> Iterator[Content]:
    """Yield the further members of tool calls, such as a signature. Names and arguments are left out."""
    return (content for call in calls for content in _contents_of_members(call.extra))


# ── parts and items ──────────────────────────────────────────────────────────────────────────────────────────────────

_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text", "reasoning.text"})
_FRAMES = frozenset({"message", "model_output", "user_input"})
_THINKING = frozenset({"thinking", "reasoning", "thought", "reasoning.summary"})
_CALLS = frozenset({"function_call", "tool_use", "custom_tool_call"})
_KINDS = {
    "refusal": REFUSALS,
    **dict.fromkeys(("audio", "input_audio", "output_audio", "audio_url"), AUDIO),
    **dict.fromkeys(("video", "input_video", "video_url"), VIDEO),
    **dict.fromkeys(("document", "file", "input_file", "container_upload", "document_url"), DOCUMENTS),
    **dict.fromkeys(("image", "image_url", "input_image"), IMAGES_ELSEWHERE),
    "image_generation_call": IMAGES,
    **dict.fromkeys(("redacted_thinking", "reasoning.encrypted"), SIGNATURES),
    **dict.fromkeys(
        (
            *("executableCode", "executable_code", "codeExecutionResult", "code_execution_result"),
            *("code_interpreter_call", "code_execution_call", "code_execution_tool_result"),
            *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        ),
        CODE,
    ),
}
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")


def _contents_of_element(element: Payload, location: Location) -> Iterator[Content]:
    """Yield the contents of a part or an item.

    An item such as `message` has parts, which are read in turn. A text or a thought may have further members, such as
    citations. Such members are contents too.
    """
    if not isinstance(element, dict) or _type_is_in(element, _CALLS):
        return
    if _type_is_in(element, _FRAMES):
        yield from (inner for part in as_list(element.get("content")) for inner in _contents_of_element(part, location))
    elif _is_thought(element):
        yield from _contents_of_thought(element)
    elif _is_text(element):
        members = {name: value for name, value in element.items() if name not in {"type", "text", "thought"}}
        yield from (Content(content.kind, "beside a text", content.raw) for content in _contents_of_members(members))
    else:
        yield Content(_kind_of(element), location, element)


def _type_is_in(element: Mapping[str, Payload], kinds: frozenset[str]) -> bool:
    """Whether the `type` of an element is one of `kinds`. The type may be any JSON value."""
    kind = element.get("type")
    return isinstance(kind, str) and kind in kinds


def _is_thought(element: Mapping[str, Payload]) -> bool:
    return _type_is_in(element, _THINKING) or (element.get("type") is None and element.get("thought") is True)


def _is_text(element: Mapping[str, Payload]) -> bool:
    return isinstance(element.get("text"), str) and (element.get("type") is None or _type_is_in(element, _TEXTS))


def _contents_of_thought(element: Mapping[str, Payload]) -> Iterator[Content]:
    """Yield the full text and the signature of a thought. The summary is not yielded."""
    if element.get("summary") and element.get("content"):
        yield Content(UNSUMMARISED, "beside", element)
    if any(element.get(name) for name in _SIGNATURES):
        yield Content(SIGNATURES, "beside", element)


def text_beside(content: Content) -> str:
    """Return the transcript of a sound, or the text of a content whose kind no table lists, such as a compaction.

    Return "" if the content is of another known kind, or has no text. Ids, types and encrypted texts are not texts.
    """
    if content.kind == AUDIO:
        return as_text(as_dict(content.raw).get("transcript")) or ""
    if content.kind in _KNOWN_KINDS:
        return ""
    if isinstance(content.raw, str):
        return content.raw
    members = as_dict(content.raw).items()
    return "\n".join(
        value for name, value in members if isinstance(value, str) and comes_in_pieces(name) and not _is_hidden(name)
    )


def _is_hidden(name: str) -> bool:
    """Whether the string of a member is a signature, encrypted, or the data of a file."""
    return name in _SIGNATURES or name == "data" or name.startswith("encrypted")


def kind_of_part(part: Payload) -> str | None:
    """Return the kind of a part that is not text, or None if the part is not a JSON object."""
    if not isinstance(part, dict):
        return None
    return _kind_of(part)


def _kind_of(element: Mapping[str, Payload]) -> str:
    """Return the kind of a part that is not text, from its media type, or else its `type`, or else a member's name."""
    part = part_of(element)
    if isinstance(part, Image) and part.data is None:
        return IMAGES_BY_ADDRESS
    if isinstance(part, Image):
        return IMAGES
    media = next((element[name] for name in _MEDIA if isinstance(element.get(name), dict)), None)
    if media is not None:
        family = str(media.get("mimeType") or media.get("mime_type") or "").partition("/")[0]
        return {"image": IMAGES, "audio": AUDIO, "video": VIDEO}.get(family, DOCUMENTS)
    kind = element.get("type")
    if kind == "server_tool_use" and element.get("name") in _CODE_TOOLS:
        return CODE
    if not isinstance(kind, str):
        kind = next((name for name in element if name not in _MEMBERS), "parts without a name")
    return _KINDS.get(kind, kind)


_CODE_TOOLS = ("code_execution", "bash_code_execution", "text_editor_code_execution")


# ── members next to the text ─────────────────────────────────────────────────────────────────────────────────────────

_SIGNATURES = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")
_LISTS = frozenset(
    ("content", "parts", "output", "outputs", "steps", "reasoning", "reasoning_details", "thinking", "images")
)
_MEMBERS = {
    "refusal": REFUSALS,
    "audio": AUDIO,
    "images": IMAGES,
    **dict.fromkeys((*_SIGNATURES, "extra_content"), SIGNATURES),
    **dict.fromkeys(
        (
            *("annotations", "citations", "search_results", "groundingMetadata", "grounding_metadata"),
            *("citationMetadata", "citation_metadata", "urlContextMetadata", "url_context_metadata"),
        ),
        CITATIONS,
    ),
}
_KNOWN_KINDS = frozenset({*_KINDS.values(), *_MEMBERS.values(), IMAGES_BY_ADDRESS, THOUGHTS, NAMES})
_KNOWN_KINDS |= {UNSUMMARISED, BLOCKED, INTERLEAVING}
_FILTERS = frozenset(
    ("promptFeedback", "prompt_feedback", "prompt_filter_results", "content_filter_results", "content_filters")
)
_OF_THE_CALL = frozenset(
    (
        *(
            "agent",
            "atif",
            "avgLogprobs",
            "automaticFunctionCallingHistory",
            "background",
            "billing",
            "cache_control",
            "caller",
        ),
        *("audio_end_ms", "conversation_id", "event_id", "generate", "modality", "modalities", "output_audio_format"),
        *("output_modalities", "status_details", "stream_id", "voice"),
        *("duration", "language", "languages", "output_format", "quality", "size", "task"),
        *("citation", "completed_at", "container", "context", "context_management", "conversation", "created"),
        *("createTime", "created_at", "diagnostics", "done", "done_reason", "error", "eval_duration"),
        *("finishMessage", "finish_message", "frequency_penalty", "id", "index", "instructions", "is_error"),
        *("load_duration", "logprobs", "logprobsResult", "logprobs_result", "max_output_tokens", "max_tool_calls"),
        *("metadata", "model_version", "moderation", "native_finish_reason", "object", "parallel_tool_calls"),
        *("phase", "presence_penalty", "previous_interaction_id", "previous_response_id", "prompt"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "prompt_eval_duration"),
        *("prompt_logprobs", "prompt_token_ids", "provider", "reasoning", "responseId", "role"),
        *("safetyRatings", "safety_identifier", "safety_ratings", "sdkHttpResponse", "seed", "service_tier"),
        *("status", "stop_details", "stop_reason", "stop_sequence", "store", "system_fingerprint", "temperature"),
        *("text", "thinking", "tokenCount", "token_count", "token_id", "token_ids", "tool_choice", "tool_usage"),
        *("tools", "top_logprobs", "top_p", "total_duration", "truncation", "type", "updated", "usage"),
        *("user", "x_groq"),
    )
)
"""Members that describe the call or repeat the request. Such members are not contents and are not counted."""


def _contents_of_members(members: Mapping[str, Payload]) -> Iterator[Content]:
    for name, value in members.items():
        if name == "functionResponse":
            yield from _contents_of_members({"parts": as_dict(value).get("parts")})
        elif name in _LISTS and isinstance(value, list):
            yield from (inner for element in value for inner in _contents_of_listed(name, element))
        elif name in _FILTERS:
            yield from [Content(BLOCKED, "beside", value)] * _is_blocked(value)
        elif name == "audio" and isinstance(value, dict) and value.keys() <= {"input", "output"}:
            continue  # the formats and voices of a session
        elif value not in (None, "", [], {}, False) and name not in _OF_THE_CALL:
            yield Content(_MEMBERS.get(name, name), "beside", value)


def _contents_of_listed(name: str, element: Payload) -> Iterator[Content]:
    """Yield the contents of one element of a list next to the text, such as `images` of Ollama and OpenRouter."""
    location: Location = "beside"
    if name == "images":
        location = "images"
    if isinstance(element, str):
        yield Content(_MEMBERS.get(name, name), location, element)
    else:
        yield from _contents_of_element(element, location)
        if name == "images" and as_dict(element).get("revised_prompt"):
            yield Content("revised prompts", "beside", element["revised_prompt"])


def _is_blocked(value: Payload) -> bool:
    """Whether the report of a filter states, at any depth, that the filter blocked something."""
    if isinstance(value, list):
        return any(map(_is_blocked, value))
    if not isinstance(value, dict):
        return False
    has_reason = value.get("blockReason") or value.get("block_reason") or value.get("filtered") is True
    return bool(has_reason) or any(map(_is_blocked, value.values()))
