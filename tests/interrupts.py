"""An interrupt, as by Ctrl-C, at a given moment inside the package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from tests.processes import ROOT


class Stop(BaseException):
    """What Ctrl-C is: an exception at any moment."""


def interrupted(act: Callable[[], None], at: int) -> bool:
    """Do something, interrupted at the nth moment within the package at which Python learns of Ctrl-C.

    These are where a function begins, and where a call of a built-in one has returned. Returns whether it came so far.
    """
    left = at

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(str(ROOT / "trace_recorder")):
            left -= 1
            if left == 0:
                raise Stop

    sys.setprofile(profile)
    with suppress(Stop):
        act()
    sys.setprofile(None)
    return left <= 0


def interrupted_when(act: Callable[[], None], is_moment: Callable[[FrameType, str], bool]) -> bool:
    """Do something, interrupted at one call or return in the package; return whether it came so far."""
    had_it = False

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal had_it
        if not had_it and frame.f_code.co_filename.startswith(str(ROOT / "trace_recorder")) and is_moment(frame, event):
            had_it = True
            raise Stop

    sys.setprofile(profile)
    with suppress(Stop):
        act()
    sys.setprofile(None)
    return had_it
