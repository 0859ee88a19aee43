"""The content of the scripted runs after a reader has read their exports, compared with the scripts.

A check passes a function that has the reader read the export of a run. The function returns the reader's content as
JSON, in the export's form or in another form that `tests/contents/shown.py` reads.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.contents.comparing import ASPECTS, compare, payloads_of
from tests.contents.shown import Shown
from tests.readers.reading import directory

Read = Callable[[list[Any], Path], list[Any]]


class Contents:
    """Counts equal and different values for each aspect, with the reasons.

    `accepted` and `refused` are these counts.
    """

    def __init__(self, name: str, export: str, *packages: str, shows: Shown | None = None) -> None:
        self.name = name
        self.versions = ", ".join(f"{package} {version(package)}" for package in packages)
        self._export = export
        self._shows = shows
        self._runs = 0
        self.refused = 0
        self._counts: dict[str, Counter[str]] = {aspect: Counter() for aspect in ASPECTS}
        self._why: dict[str, set[str]] = {aspect: set() for aspect in ASPECTS}

    @property
    def accepted(self) -> int:
        """Return how many aspects of runs are equal."""
        return sum(counts["equal"] for counts in self._counts.values())

    def hold(self, read: Read, *, without: dict[str, str] | None = None) -> None:
        """Compare every run with its script, except for the aspects in `without`, which the reader does not keep."""
        place = directory() / "contents"
        for run in sorted(path.stem for path in (place / "runs").glob("*.json")):
            self._runs += 1
            try:
                payloads, base = payloads_of(run, self._export, place)
                outcomes = compare(run, self._export, read(payloads, base), base, self._shows)
            except Exception:  # noqa: BLE001 - whatever a reader raises is the finding
                self.refused += 1
                print(f"REFUSED by {self.name}: {run}: {traceback.format_exc(limit=-3)[-1500:]}", flush=True)
                continue
            for one in outcomes:
                why = (without or {}).get(one.aspect) or one.why
                equal = None if one.aspect in (without or {}) else one.equal
                self._count(run, one.aspect, equal, why, one.what)

    def _count(self, run: str, aspect: str, equal: bool | None, why: str, what: str) -> None:
        self._counts[aspect][{True: "equal", False: "different", None: "not carried"}[equal]] += 1
        if why and equal is not True:
            self._why[aspect].add(why)
        elif equal is False:
            self.refused += 1
            print(f"DIFFERENT in {self.name}: {run}: {aspect}: {what[:500]}", flush=True)

    def result(self) -> dict[str, Any]:
        """Return the findings in the form that the session reads."""
        aspects = {
            aspect: {
                "equal": counts["equal"],
                "different": counts["different"],
                "why": "; ".join(sorted(self._why[aspect])),
            }
            for aspect, counts in self._counts.items()
        }
        about = {"reader": self.name, "version": self.versions, "what": f"contents of {self._runs} scripted runs"}
        return {**about, "accepted": self.accepted, "refused": self.refused, "aspects": aspects}
