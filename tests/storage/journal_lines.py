"""Reads a journal's file into its records and its damaged lines."""

from __future__ import annotations

from trace_recorder.storage.journal_reader import BadLine, Record, read

LONG = "x" * 500


def records(data: bytes) -> list[Record]:
    return [one for one in read(data) if isinstance(one, Record)]


def damages(data: bytes) -> list[BadLine]:
    return [one for one in read(data) if isinstance(one, BadLine)]
