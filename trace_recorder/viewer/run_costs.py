"""The costs of the runs of a list, worked out a few runs at a time.

The costs of a run are the sum of the costs of its calls (`views/run_costs.py`), as on its page. The calls have to be
read for that, while a row of the list needs only the ends of the run's files. So nobody waits for the costs of
all runs. Each request for the list works out some, the newest runs first, and says how many are missing.
"""

from __future__ import annotations

from pathlib import Path

from trace_recorder.viewer.parts import Json
from trace_recorder.views.run_costs import run_costs_or_unknown

NO_COSTS: Json = {"cost": None, "cost_estimated": None, "calls_without_price": None}


def stated_costs(cost: float | None) -> Json:
    """Return the costs of a run whose calls were not read: the sum that its providers stated."""
    return {**NO_COSTS, "cost": cost, "cost_estimated": None if cost is None else False}


def costs_of(path: Path) -> Json:
    """Return the costs of all calls of a run. They are unknown if the run cannot be read."""
    costs = run_costs_or_unknown(path)
    known = {"cost": costs.amount, "cost_estimated": costs.estimated}
    return {**known, "calls_without_price": costs.calls_without_price}
