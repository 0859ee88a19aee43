"""The counts of a search: how many matching runs have each status, model, tool and reward."""

from __future__ import annotations

from trace_recorder.catalog.fact_values import Facts
from trace_recorder.catalog.facts import facts_of
from trace_recorder.values.trajectory import Trajectory

COUNTED = ("status", "success", "model", "tool", "reward")
Counted = list[list[str]]
"""A kind of `COUNTED` and a value, for each that a run has."""


def counted_of(run: Trajectory, facts: Facts | None = None) -> Counted:
    """Return what is counted of a run. `facts` are its facts, if the caller has them."""
    facts = facts or facts_of(run, with_texts=False)
    judged = [["success", "yes" if run.success else "no"]] if isinstance(run.success, bool) else []
    return [
        ["status", str(run.status)],
        *judged,
        *([one.kind, one.name] for one in facts.named if one.kind in COUNTED),
    ]
