"""The table: a heading for each workload, a line for each contender, and the goals below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.figures import Comparison, Figure
from benchmarks.goals import AllResults, goals
from benchmarks.rounds import Results
from benchmarks.suite import BASE, CONTENDERS
from benchmarks.workloads import Conversation

MB, KB, MS = 1e6, 1e3, 1e-3
COLUMNS = (
    ("", "contender", 36),
    ("clock,", "ratio", 8),
    ("least..most", "of rounds", 14),
    ("+ms", "a call", 9),
    ("CPU,", "ratio", 8),
    ("least..most", "of rounds", 14),
    ("+ms", "a call", 9),
    ("instruc-", "tions", 10),
    ("inside,", "clock", 9),
    ("inside,", "CPU", 9),
    ("peak", "+MB", 8),
    ("journal", "KB/call", 9),
    ("document", "KB", 10),
    ("end", "ms", 9),
)
"""Two lines of heading, and the width of each column."""


def heading() -> Iterator[str]:
    """Return the two lines above the table."""
    yield _line([first for first, _, _ in COLUMNS])
    yield _line([second for _, second, _ in COLUMNS])


def workload_lines(name: str, workload: Conversation, results: Results, names: Sequence[str]) -> Iterator[str]:
    """Return the lines of one workload."""
    yield ""
    yield f"{name}: {workload.says}; {_unrecorded(workload, results)}"
    yield from (_contender(Comparison(name, workload, results)) for name in names if name not in workload.excludes)


def goal_lines(comparisons: AllResults) -> Iterator[str]:
    """Return the lines below the table."""
    yield ""
    yield "goals"
    for asked, said, met in goals(comparisons):
        yield f"  {'met    ' if met else 'NOT MET'}  {asked}: {said}"


def _unrecorded(workload: Conversation, results: Results) -> str:
    base = Comparison(BASE, workload, results)
    wall, cpu = (base.own(what, workload.calls * MS) for what in ("wall", "cpu"))
    took = f"unrecorded {wall.value:.2f} ms a call, {cpu.value:.2f} ms of it CPU" if wall and cpu else ""
    return f"{workload.calls} calls a lap; {took}"


def _contender(comparison: Comparison) -> str:
    title = CONTENDERS[comparison.name].title
    if comparison.name in comparison.results.failed:
        return f"  {title:<34}  did not run: {comparison.results.failed[comparison.name]}"
    calls = comparison.workload.calls
    instructions = comparison.instructions()
    columns = [
        f"  {title}",
        *_ratio(comparison.ratio("wall")),
        _said(comparison.added("wall", calls * MS), "+.3f"),
        *_ratio(comparison.ratio("cpu")),
        _said(comparison.added("cpu", calls * MS), "+.3f"),
        "" if instructions is None else f"{instructions:.4f}",
        _said(comparison.inside("wall"), "+.1%"),
        _said(comparison.inside("cpu"), "+.1%"),
        _said(comparison.added("peak", MB), "+.1f"),
        _said(comparison.own("journal", calls * KB), ".2f"),
        _said(comparison.own("document", KB), ".0f"),
        _said(comparison.own("finish_wall", MS), ".1f"),
    ]
    return "  ".join([_line(columns), *_besides(comparison)])


def _line(columns: Sequence[str]) -> str:
    placed = zip(columns, (width for _, _, width in COLUMNS), strict=True)
    return "".join(text.rjust(width) if at else text.ljust(width) for at, (text, width) in enumerate(placed))


def _ratio(figure: Figure | None) -> tuple[str, str]:
    if figure is None:
        return "", ""
    form = ".3f" if figure.most < 10 else ".1f"
    spread = f"{figure.least:{form}}..{figure.most:{form}}" if figure.least != figure.most else ""
    return format(figure.value, form), spread


def _said(figure: Figure | None, form: str) -> str:
    return "" if figure is None else format(figure.value, form)


def _besides(comparison: Comparison) -> Iterator[str]:
    """Yield the figures that only some workloads have."""
    if first := comparison.own("first_chunk", MS):
        yield f"first chunk {first.value:.2f} ms ({_said(comparison.ratio('first_chunk'), '.3f')} of unrecorded)"
    if stall := comparison.own("stall", MS):
        yield f"worst stall {stall.value:.1f} ms, p99 {_said(comparison.own('stall_p99', MS), '.1f')}"
    if hook := comparison.own("longest_hook", MS):
        parts = ("hooks_wall", "hooks_cpu", "background", "finish_wall")
        wall, cpu, background, finish = (
            _said(comparison.own(part, comparison.workload.calls * MS), ".3f") for part in parts
        )
        yield f"ms a call: hooks {wall} ({cpu} CPU), finalize {finish}, other threads {background} CPU"
        yield f"longest hook {hook.value:.2f} ms ({_said(comparison.own('longest_hook_cpu', MS), '.2f')} CPU)"
    if grown := comparison.growth("tenth", "end"):
        added = _said(comparison.added("memory_end", MB), "+.1f")
        yield f"in memory {added} MB at the end, grown by {grown.value / MB:+.1f}"
    versions = comparison.results.versions.get(comparison.name, {})
    if CONTENDERS[comparison.name].packages:
        yield ", ".join(f"{package} {version}" for package, version in versions.items())
