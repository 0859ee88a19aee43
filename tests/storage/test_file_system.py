"""A descriptor that other code has closed, so that its number now belongs to a different file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_recorder.storage.file_system import Descriptor


@pytest.fixture
def reused(tmp_path: Path) -> Iterator[Descriptor]:
    """Yield a descriptor whose number now belongs to a different file with the same size and time."""
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
    """Reading the status by a descriptor whose number belongs to a different file raises an error."""
    assert reused.own_stat() is None
    with pytest.raises(OSError, match="another file now"):
        reused.stat()


def test_a_different_file_is_not_closed(reused: Descriptor) -> None:
    """Closing a descriptor whose number belongs to a different file leaves this file open."""
    reused.close()

    assert os.fstat(reused.number).st_size == len(b"same")
