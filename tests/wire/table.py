"""The table of the wire corpus: `python -m tests.wire.table [seed]`, with the differences below it, for each mode.

Each number says for how many exchanges an aspect is as it should be, of those to which it applies (n/m if not all).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.wire.calls import Raw
from tests.wire.corpus import DIRECTORY, Exchange, load
from tests.wire.differences import explain
from tests.wire.judgement import COLUMNS, Verdicts, judge
from tests.wire.runs import Drivers, Mode, unwrapped, wrapped


def main() -> None:
    """Run the corpus in each mode and print its table."""
    exchanges, seed = load(), int(sys.argv[1]) if len(sys.argv) > 1 else 1
    if not exchanges:
        sys.exit(f"there is no corpus in {DIRECTORY}: set TRACE_RECORDER_WIRE")
    streams = tuple(exchange for exchange in exchanges if exchange.stream)
    for title, chosen, mode in (
        ("sync", exchanges, Mode()),
        ("async", exchanges, Mode(asynchronous=True)),
        ("sync, streams cut at random", streams, Mode(seed=seed)),
        ("async, streams compressed and cut at random", streams, Mode(asynchronous=True, seed=seed, compress=True)),
    ):
        began = time.perf_counter()
        verdicts = judge_all(chosen, mode)
        print(f"\n{title}: {time.perf_counter() - began:.1f} s")
        print("\n".join(rows(chosen, verdicts, COLUMNS)))
        print("\n".join(_differences(chosen, verdicts)) or "no differences")


def judge_all(exchanges: tuple[Exchange, ...], mode: Mode) -> dict[int, Verdicts]:
    """Make every call twice, without and with a recorder, and judge each exchange by its number."""
    plain = unwrapped(exchanges, mode)
    with tempfile.TemporaryDirectory() as directory:
        recorded = wrapped(exchanges, mode, Path(directory) / "trajectory.json")
        return {exchange.number: judge(exchange, plain, recorded) for exchange in exchanges}


def raw_reasons(exchanges: Sequence[Exchange]) -> dict[int, str]:
    """Return the exchanges that no method of an SDK sends, by number, with the reason."""
    drivers = Drivers(lambda client: client, asynchronous=False)
    calls = {exchange.number: drivers.of(exchange).call(exchange, "http://localhost") for exchange in exchanges}
    for client in drivers.clients():
        client.close()
    return {number: call.reason for number, call in calls.items() if isinstance(call, Raw)}


def rows(exchanges: Sequence[Exchange], verdicts: dict[int, Verdicts], columns: Sequence[str]) -> list[str]:
    """Return the lines of a table: one for each dialect, with a cell for each aspect, and one for all dialects."""
    raw = raw_reasons(exchanges)
    lines = [["", "sent", "SDK", "raw", *columns]]
    for dialect in [*dict.fromkeys(exchange.dialect for exchange in exchanges), "all"]:
        numbers = [exchange.number for exchange in exchanges if dialect in (exchange.dialect, "all")]
        by_hand = sum(number in raw for number in numbers)
        counts = [str(len(numbers)), str(len(numbers) - by_hand), str(by_hand)]
        lines.append(
            [dialect, *counts, *(_cell([verdicts[number][column] for number in numbers]) for column in columns)]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in lines]


def _cell(verdicts: list[bool | None]) -> str:
    applies, holds = sum(verdict is not None for verdict in verdicts), sum(verdict is True for verdict in verdicts)
    return str(holds) if holds == applies else f"{holds}/{applies}"


def _differences(exchanges: Sequence[Exchange], verdicts: dict[int, Verdicts]) -> list[str]:
    counts: Counter[str] = Counter()
    lines: dict[str, str] = {}
    for exchange in exchanges:
        for column in (name for name, verdict in verdicts[exchange.number].items() if verdict is False):
            reason = f"{exchange.dialect}, {column}: {explain(exchange, column) or 'NOT NAMED'}"
            counts[reason] += 1
            lines.setdefault(reason, f"#{exchange.number} {exchange.source}")
    return [f"{count} x {reason}\n    first: {lines[reason]}" for reason, count in counts.items()]


if __name__ == "__main__":
    main()
