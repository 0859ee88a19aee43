"""Tokens of an interaction, counted in one way whichever dialect stated them.

Dialects and other tools differ: Anthropic's input leaves the cached tokens out, Google's output the thoughts. Here the
prompt is all that went in, cached tokens with it, and the completion all that came out, thoughts with it. Unknown
counts are None.
"""

from __future__ import annotations

from functools import lru_cache

from trace_recorder.registry import DIALECTS, IMPORT_FORMATS
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Usage
from trace_recorder.values.structs import Struct


class Counting(Struct, frozen=True, gc=False):
    """The parts that stated counts include: a member of the record of each dialect and of each import format."""

    cache_apart: bool
    """Whether the input leaves out the tokens that were written to a cache or read from it."""
    thoughts_apart: bool
    """Whether the output leaves out the tokens of thoughts."""


WHOLE = Counting(cache_apart=False, thoughts_apart=False)
CACHE_APART = Counting(cache_apart=True, thoughts_apart=False)
THOUGHTS_APART = Counting(cache_apart=False, thoughts_apart=True)


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


@lru_cache(maxsize=64)
def counting_of(api: str) -> Counting:
    """Return what the counts of a dialect or an import format include; those of an unknown one are whole."""
    for records in (DIALECTS, IMPORT_FORMATS):
        if api in records:
            counting: Counting = records[api].counting
            return counting
    return WHOLE


for _records in (DIALECTS, IMPORT_FORMATS):
    _records.on_change.append(counting_of.cache_clear)


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
    """Return how many tokens went in, cached ones with them."""
    usage = one.response.usage
    tokens = usage.input_tokens
    if tokens is None:
        return None
    counting = _counting(one)
    if counting.cache_apart:
        return tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    by_tools = usage.extra.get("toolUsePromptTokenCount") if counting.thoughts_apart else None
    return tokens + by_tools if isinstance(by_tools, int) else tokens


def _counting(one: LLMInteraction) -> Counting:
    """Return what the counts of a call include. Counts that were recorded by hand are those of the provider's SDK."""
    if one.api is None:
        return CACHE_APART if one.provider == "anthropic" else WHOLE
    return counting_of(one.api)


def _completion_tokens(one: LLMInteraction, usage: Usage) -> int | None:
    if usage.output_tokens is None or not _counting(one).thoughts_apart:
        return usage.output_tokens
    return usage.output_tokens + (usage.reasoning_tokens or 0)
