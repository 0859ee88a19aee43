"""The command line, for people: `trace-recorder list`, `show` and `validate`.

It reads files and prints; nothing is ever changed. Whatever a run recorded is printed literally, in any terminal,
any locale, and into any pipe. What files mean is known to `load` and `validate`; here it is only told.
"""

from trace_recorder.cli.entry import main

__all__ = ["main"]
