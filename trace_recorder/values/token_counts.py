"""Tokens of an interaction, counted in one way whichever dialect stated them.

Dialects differ: Anthropic's input leaves the cached tokens out, Google's output the thoughts. Here the prompt is all
that went in, cached ones with it, and the completion all that came out, thoughts with it. What was not stated is None.
"""

from __future__ import annotations

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Usage
from trace_recorder.values.structs import Struct

_CACHE_APART = {
    *("anthropic-messages", "claude-code", "inspect-ai", "kimi", "langfuse", "managed-agents", "openclaw", "opencode"),
    *("pi", "amp", "bedrock-converse", "bedrock-invoke"),
}
_THOUGHTS_APART = {"gemini-cli", "google-generate", "google-interactions", "langfuse"}
COUNTED_APART = {*_CACHE_APART, *_THOUGHTS_APART, None}
"""The dialects whose stated input may not be the whole prompt. Of any other it is what `prompt_tokens` returns."""


class Counts(Struct, frozen=True, gc=False):
    """How many tokens an interaction took. `prompt` has the cached ones, `completion` those for reasoning."""

    prompt: int | None = None
    completion: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    @property
    def total(self) -> int | None:
        """The prompt and the completion."""
        return None if self.prompt is None or self.completion is None else self.prompt + self.completion


def counts_of(one: LLMInteraction) -> Counts | None:
    """Count an interaction's tokens; None where the provider stated none."""
    usage = one.response.usage
    if not usage.is_known:
        return None
    return Counts(
        prompt_tokens(one),
        _completion_tokens(one, usage),
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        usage.reasoning_tokens,
    )


def prompt_tokens(one: LLMInteraction) -> int | None:
    """Return how many tokens went in, cached ones with them. Counts recorded by hand are those of the SDK."""
    usage = one.response.usage
    tokens = usage.input_tokens
    if tokens is None:
        return None
    if one.api in _CACHE_APART or (one.api is None and one.provider == "anthropic"):
        return tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    by_tools = usage.extra.get("toolUsePromptTokenCount") if one.api in _THOUGHTS_APART else None
    return tokens + by_tools if isinstance(by_tools, int) else tokens


def _completion_tokens(one: LLMInteraction, usage: Usage) -> int | None:
    if usage.output_tokens is None or one.api not in _THOUGHTS_APART:
        return usage.output_tokens
    return usage.output_tokens + (usage.reasoning_tokens or 0)
