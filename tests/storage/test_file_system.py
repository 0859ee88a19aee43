"""A descriptor that other code may have closed, so that its number belongs to a different file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_recorder.storage.file_system import Descriptor


@pytest.fixture
def reused(tmp_path: Path) -> Iterator[Descriptor]:
    """A descriptor whose number now belongs to a file with the same size and time."""
    for name in ("ours", "another"):
        (tmp_path / name).write_bytes(b"same")
        os.utime(tmp_path / name, ns=(1, 1))
    descriptor = Descriptor(os.open(tmp_path / "ours", os.O_RDONLY))
    other = os.open(tmp_path / "another", os.O_RDONLY)
    os.dup2(other, descriptor.number)
    yield descriptor
    os.close(other)
    os.close(descriptor.number)


def test_a_different_file_s_status_is_an_error(reused: Descriptor) -> None:
    """The status of a different file at the same number raises an error."""
    assert reused.own_stat() is None
    with pytest.raises(OSError, match="another file now"):
        reused.stat()


def test_a_different_file_is_not_closed(reused: Descriptor) -> None:
    """The number stays open for its new owner."""
    reused.close()

    assert os.fstat(reused.number).st_size == len(b"same")
