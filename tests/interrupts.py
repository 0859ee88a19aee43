"""An interrupt, such as Ctrl-C, at a given moment within the package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from tests.processes import ROOT


class Stop(BaseException):
    """The exception that Ctrl-C raises, which may come at any moment."""


Profile = Callable[[FrameType, str, object], None]
PACKAGE = (str(ROOT / "trace_recorder"),)


def interrupted(act: Callable[[], object], moment: int, within: tuple[str, ...] = PACKAGE) -> bool:
    """Run an act, and interrupt it at the nth moment at which Python handles Ctrl-C within the package or some files.

    Such moments are the beginnings of functions, and returns of calls of built-in functions. Return whether the moment
    was reached.
    """
    remaining = moment

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal remaining
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(within):
            remaining -= 1
            if remaining == 0:
                raise Stop

    _act_under(profile, act)
    return remaining <= 0


def interrupted_when(
    act: Callable[[], object], is_moment: Callable[[FrameType, str], bool], within: tuple[str, ...] = PACKAGE
) -> bool:
    """Run an act, interrupted at a call or return within the package or some files. Return whether it was reached."""
    had_it = False

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal had_it
        if not had_it and frame.f_code.co_filename.startswith(within) and is_moment(frame, event):
            had_it = True
            raise Stop

    _act_under(profile, act)
    return had_it


def _act_under(profile: Profile, act: Callable[[], object]) -> None:
    sys.setprofile(profile)
    try:
        with suppress(Stop):
            act()
    finally:
        sys.setprofile(None)
