"""How often the tokens of a conversation drift: counts over the rollouts of many runs, by model and chat template.

A drift (`rollouts.py`) costs training data: the branch ends, and the next one begins with tokens that were not sampled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import get_args

from trace_recorder.figures.rollouts import Drift, Rollout
from trace_recorder.values.messages import Payload

DRIFTS: tuple[Drift, ...] = get_args(Drift)


@dataclass(slots=True)
class TokenFigures:
    """The counts of the rollouts that were added.

    `calls` counts by model and template: calls, and calls of each drift. A template is named by a digest of its text,
    and is None if the requests had none, so that the server's own template was used.
    """

    rollouts: Counter[str] = field(default_factory=Counter)
    calls: dict[tuple[str, str | None], Counter[str]] = field(default_factory=dict)

    def add(self, rollout: Rollout) -> None:
        """Add a rollout."""
        self.rollouts["runs"] += 1
        self.rollouts["branches"] += len(rollout.branches)
        self.rollouts["sampled_tokens"] += rollout.sampled_count
        self.rollouts["calls_with_ids"] += len(rollout.calls)
        self.rollouts["calls_without_ids"] += rollout.without_ids
        for call in rollout.calls.values():
            template = None
            if call.template is not None:
                template = blake2b(call.template.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
            counts = self.calls.setdefault((call.model or "?", template), Counter())
            counts["calls"] += 1
            if call.drift is not None:
                counts[call.drift] += 1

    def merge(self, other: TokenFigures) -> None:
        """Add the counts of other rollouts."""
        self.rollouts.update(other.rollouts)
        for key, counts in other.calls.items():
            self.calls.setdefault(key, Counter()).update(counts)

    def to_json(self) -> dict[str, Payload]:
        """Return the counts, as `trace-recorder stats --tokens --json` prints them."""
        names = ("runs", "branches", "sampled_tokens", "calls_with_ids", "calls_without_ids")
        models = [
            {"model": model, "template": template} | {name: counts[name] for name in ("calls", *DRIFTS)}
            for (model, template), counts in sorted(self.calls.items(), key=str)
        ]
        return {name: self.rollouts[name] for name in names} | {"models": models}
