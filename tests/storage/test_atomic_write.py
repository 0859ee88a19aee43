"""Replacing a file: afterwards the file has all of the new content, or is unchanged."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tests.processes import open_below
from trace_recorder.storage.atomic_write import SpooledBytes, replace_file


@pytest.mark.parametrize("together", ["by the system", "by ourselves"])
def test_the_content_is_written_in_order(tmp_path: Path, together: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of parts, some of them empty, replaces any earlier content, in order."""
    if together == "by ourselves":
        monkeypatch.delattr(os, "writev")
    path = tmp_path / "file"
    replace_file(path, [b"0123456789"])
    parts = [b"%d," % number if number % 3 else b"" for number in range(5000)]

    replace_file(path, [*parts, b"x" * 10**6, b"end"])

    assert path.read_bytes() == b"".join(parts) + b"x" * 10**6 + b"end"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_failed_replacement_leaves_the_old_content(tmp_path: Path) -> None:
    """A file is not partly replaced if there is no room for a part."""
    path = tmp_path / "file"
    replace_file(path, [b"old"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    remaining = []
    for room in (1, 10, 5_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                replace_file(path, [b"0123456789"] * (2 * os.sysconf("SC_IOV_MAX")))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        remaining.append((path.read_bytes(), [one.name for one in tmp_path.iterdir()]))

    assert remaining == [(b"old", ["file"])] * 3


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by /proc")
def test_spooled_bytes_are_in_order_and_leave_no_file(tmp_path: Path) -> None:
    """Few spooled bytes stay in memory; many are in a file without a name, which is closed at the end."""
    parts = [b"%d," % number for number in range(150_000)]
    few, many = SpooledBytes(tmp_path / "missing"), SpooledBytes(tmp_path)
    few.append(parts[:100])
    for start in range(0, len(parts), 100):
        many.append(parts[start : start + 100])

    assert b"".join(few.content()) == b"".join(parts[:100])
    assert b"".join(many.content()) == b"".join(parts)
    assert ([*tmp_path.iterdir()], len(open_below(tmp_path))) == ([], 1)
    many.close()
    assert open_below(tmp_path) == []
