"""Calls that were not made, in formats that keep every call: a replay or a fork gave their answers.

The original run paid for the tokens of such an answer. So an export puts these figures into the member that marks the
call as replayed, and not into the members from which readers sum tokens and costs. `docs/views/replayed-calls.md`
describes that member of each format.
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload, Usage, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import counts_of

REPLAYED_FROM = "replayed_from"
"""The additional member that names the run and the call that gave an answer."""


def made_calls(calls: Iterable[LLMInteraction]) -> list[LLMInteraction]:
    """Return the calls that were made."""
    return [call for call in calls if not call.is_replayed]


def without_usage(call: LLMInteraction) -> LLMInteraction:
    """Return a call. If the call was not made, the usage of its answer is removed."""
    if not call.is_replayed:
        return call
    response: LLMResponse = replace(call.response, usage=Usage())
    return replace(call, response=response)


def origin_of(call: LLMInteraction, usage: Payload = None) -> dict[str, Payload] | None:
    """Return the origin and the usage of the answer of a call that was not made. Return None for any other call."""
    if call.replayed_from is None:
        return None
    return call.replayed_from.to_document() | without_none(usage=usage)


def counted_usage(call: LLMInteraction) -> dict[str, Payload]:
    """Return the usage of an answer under the names of the member `usage`, counted in the same way for all dialects."""
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
