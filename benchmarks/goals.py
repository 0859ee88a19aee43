"""The goals beside the measured figures: met or not. They are never asserted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.figures import Comparison, Figure
from benchmarks.rounds import Results
from benchmarks.workloads import Conversation

MB = 1e6
AllResults = Mapping[str, tuple[Conversation, Results]]
"""By name, the workload as it was run, and its results."""
Line = tuple[str, str, bool]
"""The goal, the measured figure, and whether the goal is met."""


def goals(results: AllResults) -> Iterator[Line]:
    """Return every goal for which there are figures."""
    for name, most in (("turns-10", 1.05), ("turns-50", 1.03), ("turns-200", 1.03)):
        for what, words in (("wall", "by the clock"), ("cpu", "of CPU")):
            yield from _at_most(f"{name}: {words}", results, name, lambda one, what=what: one.ratio(what), most)
    for what, words in (("wall", "by the clock"), ("cpu", "of CPU")):
        yield from _at_most(f"tiny: ms added to a call, {words}", results, "tiny", _milliseconds_a_call(what), 0.2)
    for what, words in (("wall", "by the clock"), ("cpu", "of CPU")):
        yield from _at_most(f"mb: ms added per MB of history, {words}", results, "mb", _milliseconds_a_mb(what), 0.5)
    yield from _first_chunk(results)
    for name in ("agents", "agents-mb"):
        yield from _at_most(
            f"{name}: ms added to the worst stall", results, name, lambda one: one.added("stall", 1e-3), 2
        )
        yield from _at_most(f"{name}: ms of the longest hook", results, name, _longest_hook, 2, "ours-inside")
        yield from _at_most(f"{name}: ms of CPU of the longest", results, name, _longest_hook_cpu, 2, "ours-inside")
    yield from _very_long(results)
    yield from _bytes_a_call(results)


def _at_most(
    asked: str,
    results: AllResults,
    workload: str,
    of: Callable[[Comparison], Figure | None],
    most: float,
    who: str = "ours",
) -> Iterator[Line]:
    figure, control = (_of(results, workload, name, of) for name in (who, "control"))
    if figure is not None:
        beside = f"; control {control.value:.3f}" if control else ""
        yield (
            f"{asked} ≤ {most:g}",
            f"{figure.value:.3f} ({figure.least:.3f}..{figure.most:.3f}{beside})",
            figure.value <= most,
        )


def _of(results: AllResults, workload: str, who: str, of: Callable[[Comparison], Figure | None]) -> Figure | None:
    return of(Comparison(who, *results[workload])) if workload in results else None


def _milliseconds_a_call(what: str) -> Callable[[Comparison], Figure | None]:
    return lambda one: one.added(what, one.workload.calls * 1e-3)


def _milliseconds_a_mb(what: str) -> Callable[[Comparison], Figure | None]:
    def of(one: Comparison) -> Figure | None:
        workload = one.workload
        history = (workload.before + workload.size * workload.calls / 2) / MB
        return one.added(what, workload.calls * history * 1e-3)

    return of


def _longest_hook(one: Comparison) -> Figure | None:
    return one.own("longest_hook", 1e-3)


def _longest_hook_cpu(one: Comparison) -> Figure | None:
    return one.own("longest_hook_cpu", 1e-3)


def _first_chunk(results: AllResults) -> Iterator[Line]:
    ours, control = (_of(results, "stream", name, lambda one: one.ratio("first_chunk")) for name in ("ours", "control"))
    if ours is not None and control is not None:
        said = f"{ours.value:.3f}; control {control.value:.3f} ({control.least:.3f}..{control.most:.3f})"
        yield "stream: the first chunk comes no later than the control's latest", said, ours.value <= control.most


def _very_long(results: AllResults) -> Iterator[Line]:
    def retained(one: Comparison) -> Figure | None:
        return one.added("memory_end", MB)

    yield from _at_most("long: MB in memory at the end, over unrecorded", results, "long", retained, 64)
    early = _of(results, "long", "ours", lambda one: one.journal_per_call("tenth", "half"))
    late = _of(results, "long", "ours", lambda one: one.journal_per_call("half", "end"))
    if early is not None and late is not None:
        said = f"{early.value:.0f}, then {late.value:.0f}"
        yield "long: journal bytes a call are the same in both halves (2 %)", said, late.value <= early.value * 1.02


def _bytes_a_call(results: AllResults) -> Iterator[Line]:
    short, long = (
        _of(results, name, "ours", lambda one: one.own("journal", one.workload.calls))
        for name in ("turns-50", "turns-200")
    )
    if short is not None and long is not None:
        said = f"{short.value:.0f} at 50 turns, {long.value:.0f} at 200"
        yield "journal bytes a call do not depend on the history (5 %)", said, long.value <= short.value * 1.05
