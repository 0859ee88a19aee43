"""Replacing a file: it has all of the new content, in order, or is as it was."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from trace_recorder.storage import atomic_write as replacing
from trace_recorder.storage.atomic_write import replace_file


@pytest.mark.parametrize("together", ["by the system", "by ourselves"])
def test_the_content_is_there_in_order(tmp_path: Path, together: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of parts, including empty parts, replaces any earlier content."""
    if together == "by ourselves":
        monkeypatch.delattr(os, "writev")
    path = tmp_path / "file"
    replace_file(path, [b"0123456789"])
    parts = [b"%d," % number if number % 3 else b"" for number in range(5000)]

    replace_file(path, [*parts, b"x" * 10**6, b"end"])

    assert path.read_bytes() == b"".join(parts) + b"x" * 10**6 + b"end"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_what_finds_no_room_leaves_the_old_content(tmp_path: Path) -> None:
    """A file is not half replaced if a part finds no room."""
    path = tmp_path / "file"
    replace_file(path, [b"old"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    remaining = []
    for room in (1, 10, 5_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                replace_file(path, [b"0123456789"] * (2 * replacing._MAX_BUFFERS))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        remaining.append((path.read_bytes(), [one.name for one in tmp_path.iterdir()]))

    assert remaining == [(b"old", ["file"])] * 3
