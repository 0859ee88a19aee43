"""What the numbers of a provider's usage mean: which tokens a count includes, and which member is the bill.

The same name means different things at different providers. `docs/decisions/0074-usage-means-what-its-provider-says.md`
lists them, with sources. The functions take members out of a usage object, and leave all other members where they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from trace_recorder.dialects.json_access import Members, as_dict, as_int, as_list, as_number
from trace_recorder.values.messages import Payload

_TICKS_PER_DOLLAR = 10_000_000_000
COSTS = frozenset({"cost", "cost_in_usd_ticks"})
"""A usage without any of these members states no bill."""


def output_with_reasoning(
    sent: int | None, answered: int | None, reasoning: int | None, cached: int, total: Payload
) -> int | None:
    """Return how many tokens the model made, with its reasoning. `total` decides what `answered` includes.

    xAI leaves reasoning tokens out of its completion tokens, OpenAI does not. Google's OpenAI-compatible server leaves
    them out, and does not state them either: its total has them. Gateways leave `cached` tokens out of `sent`, and only
    their total has them. So a difference is reasoning only if nothing was cached, or if it is the stated number.
    """
    if sent is None or answered is None:
        return answered
    stated_total: int | None = total
    if type(total) is not int:
        stated_total = as_int(total)
    if stated_total is None:
        if reasoning and reasoning > answered:
            return answered + reasoning
        return answered
    beyond = stated_total - sent - answered
    is_reasoning = beyond == reasoning or (reasoning is None and not cached)
    if beyond > 0 and is_reasoning:
        return answered + beyond
    return answered


def take_cost(members: Members) -> float | None:
    """Take the bill of a call in US dollars, or return None if the usage states none.

    - OpenRouter states its own price as `cost`. If a call used the user's own key (`is_byok`), the user also pays the
      upstream provider: `cost_details.upstream_inference_cost`.
    - xAI states ticks. A dollar has 10,000,000,000 of them.
    - Perplexity states an object with `total_cost`.
    """
    if "cost_in_usd_ticks" in members:
        ticks = members.number("cost_in_usd_ticks")
        if ticks is None:
            return None
        return ticks / _TICKS_PER_DOLLAR
    if "cost" not in members:
        return None
    if isinstance(members["cost"], dict):
        return as_number(members["cost"].get("total_cost"))
    cost = members.number("cost")
    upstream = as_number(as_dict(members.get("cost_details")).get("upstream_inference_cost"))
    own_key = members.get("is_byok")
    if upstream and cost is not None and (own_key is True or (own_key is None and cost == 0)):
        return cost + upstream
    return cost


_COUNTS_OF_ITERATIONS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


def with_iterations(usage: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """Return Anthropic's usage with the counts of all its iterations.

    The usage of a message leaves out the tokens of a compaction, and of an advisor, which is another model. Only
    `iterations` has these tokens. They are billed.
    """
    iterations = [as_dict(iteration) for iteration in as_list(usage.get("iterations"))]
    if not iterations:
        return usage
    sums: dict[str, Payload] = {}
    for name in _COUNTS_OF_ITERATIONS:
        counts = [as_int(iteration.get(name)) for iteration in iterations]
        known = [count for count in (as_int(usage.get(name)), sum(count or 0 for count in counts)) if count is not None]
        if any(count is not None for count in counts):
            sums[name] = max(known)
    return {**usage, **sums}
