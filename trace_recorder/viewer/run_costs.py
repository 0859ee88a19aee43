"""The costs of the runs of a list, worked out a few runs at a time.

The costs of a run are the sum of the costs of its calls (`views/cost.py`), as on the page of the run. The calls have to
be read for that, while a row of the list needs only the ends of the run's files. So nobody waits for the costs of all
runs. Each request for the list works out some, the newest runs first, and says how many are missing.
"""

from __future__ import annotations

from pathlib import Path

from trace_recorder.guard import try_call
from trace_recorder.imports.loader import load
from trace_recorder.viewer.parts import Json
from trace_recorder.views.cost import Costs, cost_of, table

NO_COSTS: Json = {"cost": None, "cost_estimated": None, "calls_without_price": None}


def stated_costs(cost: float | None) -> Json:
    """Return the costs of a run whose calls were not read: the sum that its providers stated."""
    return {**NO_COSTS, "cost": cost, "cost_estimated": None if cost is None else False}


def needs_estimate(row: Json) -> bool:
    """Whether calls of a run may have a price. A run that goes on is read when it has ended."""
    has_tokens = any(row.get(name) for name in ("total_input_tokens", "output_tokens"))
    return has_tokens and row.get("status") != "running" and table() is not None


def costs_of(path: Path) -> Json:
    """Return the costs of all calls of a run. They are unknown if the run cannot be read."""
    return try_call(lambda: _summed(path), lambda _: NO_COSTS)


def _summed(path: Path) -> Json:
    costs, without_price = Costs(), 0
    for one in load(path).llm_interactions:
        cost = cost_of(one)
        costs.add(cost)
        without_price += cost is None and one.response.usage.is_known
    is_known = costs.stated_calls + costs.estimated_calls > 0
    return {
        "cost": round(costs.stated + costs.estimated, 9) if is_known else None,
        "cost_estimated": costs.estimated_calls > 0 if is_known else None,
        "calls_without_price": without_price,
    }
