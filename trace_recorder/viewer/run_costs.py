"""The costs of the runs of a list, worked out a few runs at a time.

The costs of a run are the sum of the costs of its calls (`views/run_costs.py`), as on its page. The calls have to be
read for that, while a row of the list needs only the ends of the run's files. So nobody waits for the costs of
all runs. Each request for the list works out some, the newest runs first, and says how many are missing.
"""

from __future__ import annotations

from pathlib import Path

from trace_recorder.catalog.run_summaries import Json, costs_json
from trace_recorder.views.run_costs import run_costs_or_unknown


def costs_of(path: Path) -> Json:
    """Return the costs of all calls of a run. They are unknown if the run cannot be read."""
    return costs_json(run_costs_or_unknown(path))
