"""What OpenHands' metrics state of single calls: tokens and latency by the response's id, costs in their order."""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.imports.foreign.run import Call, Members
from trace_recorder.imports.foreign.token_places import counts_at
from trace_recorder.values.messages import Payload


def state_costs(calls: Sequence[Call], metrics: Members) -> None:
    """Add what metrics state of calls. Costs, which have no id, are added if there is one for each call."""
    usages, latencies = _by_response(metrics.get("token_usages")), _by_response(metrics.get("response_latencies"))
    costs = [as_number(as_dict(cost).get("cost", cost)) for cost in as_list(metrics.get("costs"))]
    for number, call in enumerate(calls):
        response = as_dict(call.response)
        identity = as_text(response.get("id")) or ""
        usage = counts_at(usages.get(identity, {}), _COUNTS) | as_dict(response.get("usage"))
        if len(costs) == len(calls) and costs[number] is not None:
            usage["cost"] = costs[number]
        if usage:
            call.response = response | {"usage": usage}
        if identity in latencies:
            call.duration_seconds = as_number(latencies[identity].get("latency"))


def _by_response(stated: Payload) -> dict[str, Members]:
    found = {as_text(as_dict(one).get("response_id")) or "": as_dict(one) for one in as_list(stated)}
    found.pop("", None)
    return found


_COUNTS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
