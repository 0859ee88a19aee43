"""Laps become figures: ratios and differences to the unrecorded lap, medians over laps, and then over rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.rounds import Lap, Results
from benchmarks.suite import BASE, CONTENDERS, PEERS_BASE
from benchmarks.workloads import Conversation


@dataclass(frozen=True)
class Figure:
    """A median over rounds, with the smallest and the largest value."""

    value: float
    least: float
    most: float


@dataclass(frozen=True)
class Comparison:
    """A contender in a workload, compared with the unrecorded contender of its environment."""

    name: str
    workload: Conversation
    results: Results

    @property
    def base(self) -> str:
        """Return the contender with which it is compared."""
        return PEERS_BASE if CONTENDERS[self.name].packages else BASE

    def _rounds(self) -> Iterator[list[tuple[Lap, Lap]]]:
        for laps in self.results.rounds:
            if laps.get(self.name) and laps.get(self.base):
                yield list(zip(laps[self.name], laps[self.base], strict=False))

    def over_rounds(self, of_lap: Callable[[Lap, Lap], float]) -> Figure | None:
        """Return the median over rounds of the median over laps of a figure of a lap and its base, or None without
        figures.
        """
        try:
            found = [statistics.median(of_lap(lap, base) for lap, base in laps) for laps in self._rounds()]
        except KeyError:
            return None
        return Figure(statistics.median(found), min(found), max(found)) if found else None

    def ratio(self, what: str) -> Figure | None:
        """Return the ratio to the base's figure."""
        return self.over_rounds(lambda lap, base: lap[what] / base[what])

    def added(self, what: str, per: float = 1.0) -> Figure | None:
        """Return the difference from the base's figure, divided by `per`."""
        return self.over_rounds(lambda lap, base: (lap[what] - base[what]) / per)

    def own(self, what: str, per: float = 1.0) -> Figure | None:
        """Return the contender's own figure, divided by `per`."""
        return self.over_rounds(lambda lap, _: lap[what] / per)

    def inside(self, what: str) -> Figure | None:
        """Return the share of hooks and `finalize`, "wall" or "cpu", of all else in the lap, including other threads'
        CPU.
        """

        def share(lap: Lap, _: Lap) -> float:
            ours = lap[f"hooks_{what}"] + lap[f"finish_{what}"] + (lap["background"] if what == "cpu" else 0.0)
            return ours / (lap[what] - ours)

        return self.over_rounds(share)

    def instructions(self) -> float | None:
        """Return the ratio to the base's instructions."""
        counted = self.results.instructions
        return counted[self.name] / counted[self.base] if {self.name, self.base} <= counted.keys() else None

    def journal_per_call(self, since: str, until: str) -> Figure | None:
        """Return the journal's bytes for each call between two moments of a very long run: "tenth", "half", "end"."""
        at = {"tenth": 0.1, "half": 0.5, "end": 1.0}
        calls = self.workload.calls * (at[until] - at[since])
        return self.over_rounds(lambda lap, _: (lap[f"journal_{until}"] - lap[f"journal_{since}"]) / calls)

    def growth(self, since: str, until: str) -> Figure | None:
        """Return by how many bytes its memory grew between two moments, minus the base's growth."""

        def grown(lap: Lap) -> float:
            return lap[f"memory_{until}"] - lap[f"memory_{since}"]

        return self.over_rounds(lambda lap, base: grown(lap) - grown(base))
