"""The command line, for people: `trace-recorder list`, `show`, `validate`, `export`, `stats`, `score`, `run`.

Recorded facts are never changed: `export` writes files of its own, and `score` appends to journals. Recorded text is
printed literally, in any terminal, any locale, and into any pipe. `load`, `validate` and the views interpret the files,
and this package only prints the results.
"""

from trace_recorder.cli.entry import main

__all__ = ["main"]
