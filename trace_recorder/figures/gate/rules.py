"""The rules of a check: what must hold for a run, alone or compared with a good run.

`Rules()` has the rules that apply without a file of rules. They compare what stays the same if an agent works as before
and its model words its answers in another way: the tools in their order, errors, models, prompts and the outcome, and
that the run needs at most a fifth more steps, tokens and money. `rules_file.py` reads rules from TOML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from trace_recorder.values.messages import Payload

ToolComparison = Literal["order", "counts", "set", "nothing"]
PromptComparison = Literal["all", "instructions", "nothing"]
ResultComparison = Literal["outcome", "text", "nothing"]
Pairing = Literal["task", "order"]

_PERCENT = re.compile(r"(\+?)(\d+(?:\.\d+)?) ?%")
_RANGE = re.compile(r"(\d*)\.\.(\d*)")


@dataclass(frozen=True, slots=True)
class Limit:
    """How large a figure of a run may be: at most `maximum`, or within `percent` of the figure of a good run.

    If `only_more` is True, the figure may be smaller than that of the good run by any amount. If `is_required` is
    False, a figure that is unknown is within the limit.
    """

    maximum: float | None = None
    percent: float = 0.0
    only_more: bool = True
    is_required: bool = True

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the limit that "+10%", "10%" or a number means. Raises ValueError for any other value.

        "+10%" is at most 10 % more than the good run. "10%" is at most 10 % more or less. A number is the largest value
        that is allowed, whatever the good run has.
        """
        if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
            return cls(percent=float(match[2]), only_more=match[1] == "+")
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return cls(maximum=value)
        raise ValueError(f'{value!r} is not a limit such as "+10%" (at most 10% more), "10%" (more or less) or 5000')


def times(count: int) -> str:
    """Return how often something happens, as words."""
    if count == 1:
        return "once"
    return f"{count} times"


@dataclass(frozen=True, slots=True)
class CountRange:
    """How often a tool may be called. `most` is None if there is no upper bound."""

    least: int
    most: int | None

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the range that 2, "1..3", "2.." or "..3" means. Raises ValueError for any other value."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value, value)
        match = _RANGE.fullmatch(value) if isinstance(value, str) else None
        if match is None or not (match[1] or match[2]):
            raise ValueError(f'{value!r} is not a count such as 2, "1..3", "2.." or "..3"')
        least, most = int(match[1] or 0), None
        if match[2]:
            most = int(match[2])
        if most is not None and most < least:
            raise ValueError(f"{value!r} has no number in it: {least} is more than {most}")
        return cls(least, most)

    def __contains__(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {times(self.least)}"
        if self.least == self.most:
            return times(self.least)
        if self.least == 0:
            return f"at most {times(self.most)}"
        return f"{self.least} to {self.most} times"


@dataclass(frozen=True, slots=True)
class ToolRules:
    """Which tools must be called, in which order, and how often.

    `compare` says what must be as in the good run: the names in their `order`, how often each name is called
    (`counts`), the `set` of names, or `nothing`. The tools of `in_order` must be called in this order, with any calls
    between them. The tools of `forbidden` must not be called.
    """

    compare: ToolComparison = "order"
    in_order: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    counts: Mapping[str, CountRange] = field(default_factory=dict)


EVERY_TOOL = "*"


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """What the value at a JSON pointer in the arguments of a tool must be.

    `tool` is a name, or "*" for each tool. The rule applies to each call of the tool, or to the call with the number
    `call`, counted from 1. Exactly one of these is the condition: the value is in `one_of`; the value, as text, matches
    the regular expression `matches`; or, if both are None, the value is as in the good run.
    """

    tool: str
    pointer: str = ""
    call: int | None = None
    one_of: tuple[Payload, ...] | None = None
    matches: re.Pattern[str] | None = None

    @property
    def is_compared(self) -> bool:
        """Whether the value is compared with that of the good run."""
        return self.one_of is None and self.matches is None


_FIFTH_MORE = Limit(percent=20.0, is_required=False)
FIGURES = ("steps", "tokens", "cost", "seconds")


@dataclass(frozen=True, slots=True)
class FigureLimits:
    """How many steps, tokens, US dollars and seconds a run may need. None means any number."""

    steps: Limit | None = _FIFTH_MORE
    tokens: Limit | None = _FIFTH_MORE
    cost: Limit | None = _FIFTH_MORE
    seconds: Limit | None = None


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """Which errors a run may have: those of the good run, and those that match a pattern of `allowed`.

    If `compare` is False, any error may occur.
    """

    compare: bool = True
    allowed: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class ResultRules:
    """How a run must end.

    `compare` says what must be as in the good run: its status and success (`outcome`), also the `text` of its final
    result, or `nothing`. `contains` and `matches` are conditions on that text.
    """

    compare: ResultComparison = "outcome"
    contains: tuple[str, ...] = ()
    matches: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Passing:
    """How many runs of a task must agree: at least `least`, of `runs` runs.

    If `runs` is None, a task may have any number of runs. If `least` is None, all of them must agree.
    """

    least: int | None = None
    runs: int | None = None

    @classmethod
    def of(cls, value: object) -> Self:
        """Return what 2 or "2 of 3" means. Raises ValueError for any other value."""
        match = re.fullmatch(r"(\d+) of (\d+)", value.strip()) if isinstance(value, str) else None
        if match is not None and 0 < int(match[1]) <= int(match[2]):
            return cls(int(match[1]), int(match[2]))
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return cls(value)
        raise ValueError(f'{value!r} is not a number of runs such as 2 or "2 of 3"')


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a check. `ignore` are patterns of texts that make no difference wherever they are compared."""

    pair: Pairing = "task"
    passing: Passing = Passing()
    ignore: tuple[re.Pattern[str], ...] = ()
    tools: ToolRules = ToolRules()
    arguments: tuple[ArgumentRule, ...] = ()
    errors: ErrorRules = ErrorRules()
    limits: FigureLimits = FigureLimits()
    prompts: PromptComparison = "all"
    models: bool = True
    result: ResultRules = ResultRules()
