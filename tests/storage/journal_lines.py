"""Reads a journal's file into its records and its damaged lines."""

from __future__ import annotations

from tests.journals import RawRecord, read_raw
from trace_recorder.storage.journal_reader import BadLine

LONG = "x" * 500


def records(data: bytes) -> list[RawRecord]:
    return [one for one in read_raw(data) if isinstance(one, RawRecord)]


def damages(data: bytes) -> list[BadLine]:
    return [one for one in read_raw(data) if isinstance(one, BadLine)]
