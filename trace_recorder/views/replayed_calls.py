"""Calls that were not made, in formats that keep every call: a replay or a fork gave their answers.

The original run spent the tokens and the cost of such an answer. So these figures are in the mark of the call, never
where readers of a format sum tokens and costs. `docs/views/replayed-calls.md` has the mark of each format.
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload, Usage, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import counts_of

REPLAYED_FROM = "replayed_from"
"""The additional member with the run and the call that gave an answer."""


def made_calls(calls: Iterable[LLMInteraction]) -> list[LLMInteraction]:
    """Return the calls that were made."""
    return [one for one in calls if not one.is_replayed]


def without_usage(call: LLMInteraction) -> LLMInteraction:
    """Return a call. If it was not made, its answer has no usage."""
    if not call.is_replayed:
        return call
    response: LLMResponse = replace(call.response, usage=Usage())
    return replace(call, response=response)


def origin_of(one: LLMInteraction, usage: Payload = None) -> dict[str, Payload] | None:
    """Return the mark of a call that was not made: the origin and the usage of its answer.

    Returns None for other calls.
    """
    if one.replayed_from is None:
        return None
    return one.replayed_from.to_document() | without_none(usage=usage)


def counted_usage(call: LLMInteraction) -> dict[str, Payload]:
    """Return the usage of an answer under the names of `usage`, counted in one way for all dialects."""
    counts = counts_of(call)
    if counts is None:
        return {}
    return without_none(
        input_tokens=counts.prompt,
        output_tokens=counts.completion,
        cache_creation_input_tokens=counts.cache_write,
        cache_read_input_tokens=counts.cache_read,
        reasoning_tokens=counts.reasoning,
        cost=call.response.usage.cost,
    )
