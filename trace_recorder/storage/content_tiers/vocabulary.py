"""The members that are structure in the bodies of all dialects, and what may be kept of each.

This is an allow-list. The name of a member that is not here is a text, and so is its value. One list serves all
dialects, because the same name means the same in most of them. Where the meaning of a name depends on the object around
it, that object has a vocabulary of its own. A dialect that is unknown to this list loses all its strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto

from trace_recorder.lazy_patterns import lazy_pattern


class Kept(Enum):
    """What is kept of a member."""

    NODE = auto()
    """An object or a list is walked. A string becomes a digest. A bool is kept, any other value becomes a digest."""
    IDENTIFIER = auto()
    """A string is kept if it looks like an identifier. Numbers and bools are kept."""
    RUN_ID = auto()
    """A string is kept if it was made at random. The id of an imported run may be the name of a file."""
    MODEL = auto()
    """A string is kept if it looks like the name of a model."""
    ROLE = auto()
    """A string is kept if it is a known role."""
    NUMBER = auto()
    """Numbers, bools and times are kept. A list or an object becomes a digest."""
    COUNTS = auto()
    """Numbers are kept at any depth, with the names of their members. Few strings are kept (`NAMES_IN_COUNTS`)."""
    ARGUMENTS = auto()
    """The arguments of a tool, or a schema: one digest, in an object if the value is one."""
    VALUE = auto()
    """One digest, whatever the value is."""
    RESULT = auto()
    """What a tool returned: one digest, or a digest for each part of a list of known parts."""
    TOOLS = auto()
    """A list of tools: an element that is a string is the name of a tool. Objects are walked."""
    BYTES = auto()
    """Bytes in base64: the digest, in base64."""
    BODY = auto()
    """A body that is stored as text: if it is JSON, it is walked, and is a text again."""


Vocabulary = Mapping[str, "Kept | Vocabulary"]
"""For each known name, what is kept of its value. An object may have a vocabulary of its own."""

IDENTIFIER = lazy_pattern(r"[A-Za-z0-9_-][A-Za-z0-9_.:/+|=-]{0,199}")
RUN_ID = lazy_pattern(r"[0-9a-fA-F]{16,64}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
MODEL = lazy_pattern(r"(?=[^ ]*\Z|.*\d)[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,199}(?: [A-Za-z0-9_.:/@+()-]{1,40}){0,4}")
_WORD = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+[a-z]?")
TIME = lazy_pattern(r"\d{4}-\d\d-\d\dT[0-9:.]{5,18}(?:Z|[+-]\d\d:?\d\d)?")
MEDIA = lazy_pattern(r"[a-z]+/[a-z0-9.+-]+(?:; ?(?:charset|codecs)=[a-zA-Z0-9-]+)?", re.IGNORECASE)
_STATED_NUMBER = lazy_pattern(r".*(?:_tokens|Tokens|[tT]oken_?[cC]ount|_count|_cost|_duration)")
"""Matches the names of members that are counts in every dialect. Only numbers are kept of them."""

ROLES = frozenset(
    {"system", "developer", "user", "assistant", "tool", "function", "model", "chatbot", "human", "ai", "agent"}
)
PARTS = frozenset(
    {
        *("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text", "image", "image_url"),
        *("input_image", "input_file", "input_audio", "output_audio", "audio", "video", "file", "document", "json"),
        *("thinking", "redacted_thinking", "reasoning", "thought", "tool_reference", "search_result", "media"),
    }
)
"""The types of the parts of a message's content."""


def is_count(name: str) -> bool:
    """Return whether a name consists of words that providers use in the names of counts and costs."""
    if len(name) > _LONGEST_COUNT or _COUNTED.fullmatch(name) is None:
        return False
    return _OF_COUNTS.issuperset(map(str.lower, _WORD.findall(name)))


_LONGEST_COUNT = 64
_COUNTED = lazy_pattern(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS_OF_COUNTS = """
accepted api at audio billed by byok cache cached calls candidates char chars citation classifications code
completion completions content context cost count counts creation credits currency data deep details document
documents duration elapsed embedding ephemeral eval execution extra failed fetch file first generation geo hit id
image images in include inference input invocation is iterations latency load miss modality model ms num of online
out output page pages prediction progress prompt queries queue read reasoning rejected request requests research
response rounded search searches seconds server service size speed start statistics text thinking thought thoughts
ticks tier time to token tokens tool total traffic truncated ttl turns type units upstream usage usd use uses video
web write writes 1h 5m 1 5
"""
_OF_COUNTS = frozenset(_WORDS_OF_COUNTS.split())


def kept_of(name: str, vocabulary: Vocabulary) -> Kept | Vocabulary | None:
    """Return what is kept of a member with this name, or None if the name is unknown."""
    kept = vocabulary.get(name)
    if kept is None and _STATED_NUMBER.fullmatch(name) and is_count(name):
        return Kept.NUMBER
    return kept


def _all(kept: Kept | Vocabulary, names: str) -> dict[str, Kept | Vocabulary]:
    """Return a vocabulary in which the same is kept of all these names."""
    return dict.fromkeys(names.split(), kept)


NAMES_IN_COUNTS = frozenset(
    {"modality", "trafficType", "type", "service_tier", "serviceTier", "ttl", "speed", "inference_geo", "model", "id"}
)
"""The members of counts whose strings are kept if they are identifiers."""
_TOP_COUNTS = (
    "usage usageMetadata usage_metadata total_usage statistics metrics timings x_groq cost cost_details "
    "amazon-bedrock-invocationMetrics"
)
_BILLED: Vocabulary = _all(Kept.COUNTS, "tokens billed_units")
_ERROR: Vocabulary = {
    **_all(Kept.IDENTIFIER, "type code status name event_id"),
    **_all(Kept.NODE, "message detail details param error"),
}
_REASON: Vocabulary = {"reason": Kept.IDENTIFIER}
_STATUS: Vocabulary = {**_all(Kept.IDENTIFIER, "type reason"), "error": _ERROR}
_METADATA: Vocabulary = _all(Kept.COUNTS, _TOP_COUNTS)
_DOCUMENTS: Vocabulary = {"type": Kept.IDENTIFIER, "text": Kept.NODE}
_ACTION: Vocabulary = {"type": Kept.IDENTIFIER}
_RETURNED: Vocabulary = _all(Kept.VALUE, "result output content error")
"""What Google's clients send as the response of a function. `error` without an output states that it failed."""
_CALLED: Vocabulary = {
    **_all(Kept.IDENTIFIER, "id name"),
    "args": Kept.ARGUMENTS,
    "partialArgs": Kept.ARGUMENTS,
    "willContinue": Kept.NUMBER,
}
_ANSWERED: Vocabulary = {**_all(Kept.IDENTIFIER, "id name"), "response": _RETURNED, "parts": Kept.RESULT}
_BEDROCK_RESULT: Vocabulary = {"toolUseId": Kept.IDENTIFIER, "status": Kept.IDENTIFIER, "content": Kept.RESULT}
_BEDROCK_USE: Vocabulary = {"toolUseId": Kept.IDENTIFIER, "name": Kept.IDENTIFIER, "input": Kept.ARGUMENTS}
_BLOCK_ORDER: Vocabulary = {
    **_all(Kept.IDENTIFIER, "type call_id"),
    **_all(Kept.NUMBER, "characters position"),
}
_FRAME_HEADERS: Vocabulary = _all(Kept.IDENTIFIER, ":event-type :content-type :message-type :exception-type")
PART: Vocabulary = {
    **_all(Kept.IDENTIFIER, "type media_type mime_type mimeType detail format"),
    **_all(Kept.VALUE, "text data url base64 refusal thinking"),
    "image_url": Kept.VALUE,
    "source": {**_all(Kept.IDENTIFIER, "type media_type"), **_all(Kept.VALUE, "data url")},
}
"""A part of what a tool returned."""

BODIES: Vocabulary = {
    **_all(
        Kept.NODE,
        """
            messages llm_messages message contents content parts choices candidates delta outputs output input item
            items steps step results generations generation part content_block contentBlock start function tool
            tool_calls tool_call function_call functionDeclarations function_declarations toolSpec systemTool
            toolConfig tool_config tool_choice tool_result reasoning reasoningContent reasoningText reasoning_content
            reasoning_text reasoning_details thinking redacted_thinking summary text texts system systemInstruction
            system_instruction instructions query prompt suffix title refusal output_text outputText inputText tool_plan
            transcript completion passages images image_url image audio video file source url base64 data signature
            signature_text thoughtSignature thought_signature encrypted_content description reflection stream_options
            generationConfig generation_config inferenceConfig thinkingConfig textGenerationConfig options interaction
            groundingMetadata webSearchQueries promptFeedback citationsContent segments instances payload event beside
            cache_control cachePoint value request response extra session steer prompt_cache_options
            output_modalities modalities
            """,
    ),
    **_all(
        Kept.IDENTIFIER,
        """
            type id object finish_reason finishReason native_finish_reason stop_reason stopReason done_reason
            completionReason blockReason status state call_id tool_call_id tool_use_id toolUseId item_id response_id
            responseId previous_response_id previous_interaction_id interaction_id execution_id step_id provider
            system_fingerprint service_tier serviceTier event_type media_type mime_type mimeType content_type format
            modality effort phase name tool_name api ttl quality size speed inference_geo reasoning_effort truncation
            encoding_format anthropic_version detail event_id previous_item_id conversation conversation_id stream_id
            """,
    ),
    **_all(
        Kept.NUMBER,
        """
            index output_index content_index summary_index contentBlockIndex sequence_number partial_image_index created
            created_at completed_at timestamp temperature top_p topP top_k topK n seed stream store parallel_tool_calls
            background frequency_penalty presence_penalty num_predict thinkingBudget include_usage dimensions duration
            duration_seconds seconds latencyMs done thought think is_error success replayed call_id_made_up strict
            willContinue interleaved by_hand audio_start_ms audio_end_ms generate prewarm
            max_output_tokens
            """,
    ),
    **_all(
        Kept.ARGUMENTS,
        """
            arguments args partialArgs partial_json parameters input_schema inputSchema schema parametersJsonSchema
            parameters_json_schema json_schema response_schema responseSchema response_format
            """,
    ),
    **_all(Kept.COUNTS, _TOP_COUNTS),
    **_all(Kept.VALUE, "embedding embeddings embeddingsByType predictions logprobs token_ids sent"),
    **_all(Kept.MODEL, "model modelVersion model_version"),
    **_all(Kept.TOOLS, "tools functions"),
    "role": Kept.ROLE,
    "result": Kept.RESULT,
    "error": _ERROR,
    "incomplete_details": _REASON,
    "status_details": _STATUS,
    "metadata": _METADATA,
    "meta": _BILLED,
    "documents": _DOCUMENTS,
    "action": _ACTION,
    "functionCall": _CALLED,
    "functionResponse": _ANSWERED,
    "function_response": _ANSWERED,
    "toolResult": _BEDROCK_RESULT,
    "toolUse": _BEDROCK_USE,
    "blocks": _BLOCK_ORDER,
    "headers": _FRAME_HEADERS,
}
"""The members of requests, responses and events of all dialects, and of what agents record by hand."""
