"""The command line: `trace-recorder list`, `show` and `validate`, for people."""

from trace_recorder.cli.entry import main

__all__ = ["main"]
