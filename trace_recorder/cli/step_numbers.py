"""Selects steps by their numbers, as the option `--step` states them: 3, 3,7, 10-16, 10- and -5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import typer

from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.reading.steps_and_calls import StepOrCall

_RANGE = re.compile(r"(?P<first>\d{1,18})?(?P<dash>-)?(?P<last>\d{1,18})?", re.ASCII)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text)


def _limit(number: int | None) -> str:
    if number is None:
        return ""
    return str(number)


class StepRange(NamedTuple):
    """The numbers from `first` to `last`, both included. None means no limit."""

    first: int | None
    last: int | None

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        return (self.first is None or number >= self.first) and (self.last is None or number <= self.last)

    def __str__(self) -> str:
        if self.first == self.last:
            return str(self.first)
        return f"{_limit(self.first)}-{_limit(self.last)}"


def step_ranges(text: str) -> list[StepRange]:
    """Parse the value of `--step`. Raises BadParameter."""
    ranges = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or (match["first"] is None and match["last"] is None):
            raise typer.BadParameter(
                f"{part!r} is not a step or a range, such as 3, 10-16, 10- or -5", param_hint="--step"
            )
        first, last = map(_number, match.group("first", "last"))
        if match["dash"] is None:
            last = first
        if first is not None and last is not None and first > last:
            raise typer.BadParameter(f"{part!r} ends before it begins", param_hint="--step")
        ranges.append(StepRange(first, last))
    return ranges


def parts_of_steps(parts: Sequence[StepOrCall], ranges: Iterable[StepRange], file: object) -> list[StepOrCall]:
    """Return the steps in these ranges, and their calls. Raises UnreadableError if a range has no step."""
    numbers = {part.step_number for part in parts if isinstance(part.step_number, int)}
    chosen: set[int] = set()
    for each in ranges:
        of_range = {number for number in numbers if number in each}
        if not of_range:
            raise UnreadableError("; ".join((f"{file} has no step {each}", *_known(numbers))))
        chosen |= of_range
    return [part for part in parts if part.step_number in chosen]


def _known(numbers: Iterable[int]) -> Iterator[str]:
    """Yield which steps there are, as ranges, if there are any."""
    ranges: list[StepRange] = []
    for number in sorted(numbers):
        if ranges and ranges[-1].last == number - 1:
            ranges[-1] = StepRange(ranges[-1].first, number)
        else:
            ranges.append(StepRange(number, number))
    if ranges:
        yield f"it has {', '.join(map(str, ranges))}"
