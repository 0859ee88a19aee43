"""Modules that had another name in an earlier commit, so that both checkouts do the same with their own modules."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EARLIER = {
    "tests.formats.corpus_runs": "tests.formats.corpus_runs",
    "tests.formats.runs": "tests.formats.runs",
    "trace_recorder.formats.format_writer": "trace_recorder.formats.format_writer",
    "trace_recorder.reading.growing_journal": "trace_recorder.reading.growing_journal",
}


def module(name: str) -> Any:
    """Import a module of the checkout by its newest name, or by its earlier name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return import_module(EARLIER[name])
