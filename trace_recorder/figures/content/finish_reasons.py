"""Why an answer ended, in any dialect, and whether a model may be trained on the answer.

All views use these rules. An answer that is empty, was cut off, or was stopped by a filter would teach a model to stop
early or to say nothing. In training data, views omit or mask such an answer, unless an argument of the view allows it.
"""

from __future__ import annotations

from typing import Literal

from trace_recorder.values.messages import Choice, LLMResponse

Ending = Literal["stop", "tools", "length", "filter", "paused", "failed"]

CUT_OFF = "answers that were cut off, or stopped by a filter"
SILENT = "answers without a text or a tool call"

_WORDS: dict[Ending, tuple[str, ...]] = {
    "stop": ("stop", "end_turn", "stop_sequence", "completed", "complete", "eos", "eos_token"),
    "tools": ("tool_calls", "tool_use", "function_call", "requires_action"),
    "length": (
        *("length", "max_tokens", "max_output_tokens", "max_length", "model_length", "incomplete"),
        *("model_context_window_exceeded", "max_messages"),
    ),
    "filter": (
        *("content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii", "language"),
        *("image_safety", "image_prohibited_content", "image_recitation", "model_armor", "sensitive"),
    ),
    "paused": ("pause_turn", "in_progress", "queued", "steered"),
    "failed": (
        *("failed", "cancelled", "canceled", "error", "abort", "aborted", "insufficient_system_resource"),
        *("turn_detected", "client_cancelled"),
        *("malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "malformed_response"),
        *("missing_thought_signature", "no_image", "image_other", "other", "unload"),
    ),
}
"""Maps each ending to the words of providers and servers for it (OpenAI, Anthropic, Ollama, vLLM, …), in lower case."""
_ENDINGS: dict[str, Ending] = {word: ending for ending, words in _WORDS.items() for word in words}
_WHOLE = frozenset[Ending | None]({"stop", "tools", None})


def ending_of(finish_reason: str | None) -> Ending | None:
    """Return why a model stopped, or None if the provider stated no reason or an unknown word."""
    return _ENDINGS.get((finish_reason or "").lower())


def fault_of(answer: LLMResponse | Choice) -> str | None:
    """Return why a model must not be trained on an answer (`CUT_OFF` or `SILENT`), or None if training is allowed."""
    if ending_of(answer.finish_reason) not in _WHOLE:
        return CUT_OFF
    if answer.tool_calls or (answer.content or "").strip():
        return None
    return SILENT
