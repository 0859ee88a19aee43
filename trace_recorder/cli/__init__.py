"""The command line, for people: `trace-recorder list`, `show`, `validate`, `export`, `stats`, `score`, `run`.

What was recorded is never changed: `export` writes files of its own, `score` appends to journals. Whatever a run
recorded is printed literally, in any terminal, any locale, and into any pipe. `load`, `validate` and the views know
what files mean; here it is only printed.
"""

from trace_recorder.cli.entry import main

__all__ = ["main"]
