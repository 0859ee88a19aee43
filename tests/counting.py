"""Counts for tests of cost: calls of our functions, their arguments, and the objects that an object keeps alive. No
clock and no process size is read, so each count is the same on any machine.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tests.processes import ROOT

OURS = str(ROOT / "trace_recorder")
_NOT_ENTERED = (ModuleType, type, FrameType, CodeType, logging.Logger)
"""The roots: every object of the process is reachable from them."""


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs a function of the package."""
    return frame.f_code.co_filename.startswith(OURS)


def watch(act: Callable[[], object], look: Callable[[FrameType], object]) -> None:
    """Run a function, and call `look` at the beginning of each call of the package's functions."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            look(frame)

    _profile(act, profile)


def _profile(act: Callable[[], object], profile: Callable[[FrameType, str, object], None]) -> None:
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)


def c_calls(act: Callable[[], object]) -> int:
    """Return how often functions in C are called, such as the methods of texts, while a function runs."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "c_call"

    _profile(act, profile)
    return count


def calls(act: Callable[[], object]) -> int:
    """Return how many calls of the package's functions a function makes."""
    counted = 0

    def count(_: FrameType) -> None:
        nonlocal counted
        counted += 1

    watch(act, count)
    return counted


def lines(act: Callable[[], object]) -> int:
    """Return how many lines of the package's code a function runs."""
    counted = 0

    def count(_: FrameType, event: str, __: object) -> Callable[..., Any]:
        nonlocal counted
        counted += event == "line"
        return count

    def trace(frame: FrameType, _: str, __: object) -> Callable[..., Any] | None:
        return count if is_ours(frame) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return counted


def arguments_of(act: Callable[[], object], function: Any, measure: Callable[[Mapping[str, Any]], int]) -> list[int]:
    """Return the measure of the arguments of each call of one function."""
    found: list[int] = []
    watch(act, lambda frame: found.append(measure(frame.f_locals)) if frame.f_code is function.__code__ else None)
    return found


@dataclass(frozen=True, slots=True)
class Kept:
    """Reachable objects, and the bytes and characters of the texts among them."""

    objects: int
    characters: int


def kept_by(root: object) -> Kept:
    """Return how much an object keeps alive, directly or indirectly, without modules and classes."""
    seen = {id(root)}
    waiting: list[object] = [root]
    characters = 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str | bytes | bytearray | memoryview):
            characters += len(one)
        inside = [one.__closure__, one.__defaults__] if isinstance(one, FunctionType) else gc.get_referents(one)
        for other in inside:
            if id(other) not in seen and not isinstance(other, _NOT_ENTERED):
                seen.add(id(other))
                waiting.append(other)
    return Kept(len(seen), characters)


def alive(kind: type) -> int:
    """Return how many instances of a class are alive."""
    gc.collect()
    return sum(isinstance(one, kind) for one in gc.get_objects())
