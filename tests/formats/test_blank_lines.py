"""Blank lines of a file are skipped together, because a small file may decompress to many millions of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import zstd
from tests.counting import lines
from trace_recorder.formats.foreign_runs.source import Line, Source


def written(path: Path, text: bytes) -> Path:
    path.write_bytes(zstd.compress(text) if path.suffix == ".zst" else text)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n", b"\n  \r\n"])
def test_lines_keep_their_numbers_after_blank_lines(suffix: str, blank: bytes, tmp_path: Path) -> None:
    """A line has the same number, however many blank lines come before it."""
    count = 30_000
    path = written(tmp_path / f"a{suffix}", b"1\n" + blank * count + b"  2\n\n3\n" + blank * 3)
    per_blank = blank.count(b"\n")
    found = [(line.number, line.value) for line in Source(path).each_line()]
    assert found == [(1, 1), (2 + count * per_blank, 2), (4 + count * per_blank, 3)]


def test_blank_lines_cost_one_step_for_each_buffer(tmp_path: Path) -> None:
    """A million blank lines run few lines of our code."""
    path = written(tmp_path / "a.jsonl.zst", b"\n" * 1_000_000 + b"1\n")
    found: list[Line] = []
    assert lines(lambda: found.extend(Source(path).each_line())) < 20_000
    assert [(line.number, line.value) for line in found] == [(1_000_001, 1)]
