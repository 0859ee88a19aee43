"""Counts the tokens of an interaction in the same way for all dialects.

Providers count differently: Anthropic's input tokens leave out the cached tokens, and Google's output tokens leave out
the thoughts. Here the prompt includes cached tokens, and the completion includes thoughts. An unknown count is None.
"""

from __future__ import annotations

from functools import lru_cache

from trace_recorder.registry import DIALECTS, IMPORT_FORMATS
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Usage
from trace_recorder.values.structs import Struct


class Counting(Struct, frozen=True, gc=False):
    """The rule by which a dialect or an import format counts tokens: which tokens its counts leave out."""

    cache_apart: bool
    """Whether the input tokens leave out the tokens that were written to a cache or read from it."""
    thoughts_apart: bool
    """Whether the output tokens leave out the tokens of thoughts."""


WHOLE = Counting(cache_apart=False, thoughts_apart=False)
CACHE_APART = Counting(cache_apart=True, thoughts_apart=False)
THOUGHTS_APART = Counting(cache_apart=False, thoughts_apart=True)


class Counts(Struct, frozen=True, gc=False):
    """The token counts of an interaction.

    `prompt` includes cached tokens, and `completion` includes reasoning tokens.
    """

    prompt: int | None = None
    completion: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    units: tuple[tuple[str, int], ...] = ()
    """What the call used beside plain tokens, by name. Only `figures/billed_units.py` sets this member."""
    terms: tuple[tuple[str, str], ...] = ()
    """The terms on which the provider served the call, such as ("processing", "batch"). See `units`."""

    @property
    def total(self) -> int | None:
        """The sum of `prompt` and `completion`, or None if one of the two is unknown."""
        if self.prompt is None or self.completion is None:
            return None
        return self.prompt + self.completion


@lru_cache(maxsize=64)
def counting_of(api: str) -> Counting:
    """Return the rule by which a dialect or an import format counts tokens.

    For an unknown dialect or format, return `WHOLE`.
    """
    for records in (DIALECTS, IMPORT_FORMATS):
        if api in records:
            counting: Counting = records[api].counting
            return counting
    return WHOLE


for _records in (DIALECTS, IMPORT_FORMATS):
    _records.on_change.append(counting_of.cache_clear)


def counts_of(interaction: LLMInteraction) -> Counts | None:
    """Count the tokens of an interaction. Return None if the provider stated no count."""
    usage = interaction.response.usage
    if not usage.is_known:
        return None
    return Counts(
        prompt_tokens(interaction),
        completion_tokens(interaction),
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        usage.reasoning_tokens,
    )


def prompt_tokens(interaction: LLMInteraction) -> int | None:
    """Return how many tokens the prompt has, with cached tokens and the results of tools that the provider ran.

    Return None if that is unknown.
    """
    usage = interaction.response.usage
    tokens = usage.input_tokens
    if tokens is None:
        return None
    counting = _counting(interaction)
    if counting.cache_apart:
        return tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    if counting.thoughts_apart:
        return tokens + _tokens_of_tools(usage)
    return tokens


def completion_tokens(interaction: LLMInteraction) -> int | None:
    """Return how many tokens the model made, with its reasoning, or None if that is unknown.

    If a dialect leaves thoughts out of its output tokens, the total that an answer states may still show that this
    answer's output includes them.
    """
    usage = interaction.response.usage
    tokens, thoughts = usage.output_tokens, usage.reasoning_tokens
    if not thoughts or not _counting(interaction).thoughts_apart:
        return tokens
    if tokens is None:  # a model that was stopped while it was thinking
        return thoughts
    whole = (usage.input_tokens or 0) + _tokens_of_tools(usage) + tokens
    if whole in (usage.extra.get(name) for name in _TOTALS):
        return tokens
    return tokens + thoughts


def stated_cost(interaction: LLMInteraction) -> float | None:
    """Return the bill of a call in US dollars, as far as somebody stated it.

    A stated 0 is not a bill if tokens were used: a client without a price list writes 0, and so does a gateway if the
    user pays the provider directly. A 0 is believed if the gateway says that the user paid nobody else, or if the name
    of the model says that it is free.
    """
    usage = interaction.response.usage
    if usage.cost != 0 or not (usage.input_tokens or usage.output_tokens or usage.cache_read_input_tokens):
        return usage.cost
    models = (interaction.model, interaction.response.model)
    if usage.extra.get("is_byok") is False or any(str(model).endswith((":free", "-free")) for model in models):
        return usage.cost
    return None


_TOTALS = ("totalTokenCount", "total_tokens")
_OF_TOOLS = ("toolUsePromptTokenCount", "total_tool_use_tokens")
"""Google's names for the tokens of results of tools that Google ran. The input tokens leave them out."""


def _tokens_of_tools(usage: Usage) -> int:
    counts = (usage.extra.get(name) for name in _OF_TOOLS)
    return next((count for count in counts if type(count) is int), 0)


def _counting(interaction: LLMInteraction) -> Counting:
    """Return the rule by which the provider counted the tokens of a call.

    A call that the agent recorded by hand has no dialect. For such a call, return the rule of the provider's own SDK.
    """
    if interaction.api is not None:
        return counting_of(interaction.api)
    if interaction.provider == "anthropic":
        return CACHE_APART
    return WHOLE
