"""The command line `trace-recorder`. `app.py` lists the commands and their files.

No command changes recorded facts: `export` writes other files, and `score` appends to journals. Recorded text is never
interpreted as markup, and is printed in any terminal, any locale, and into any pipe. `load`, `validate` and the views
interpret the files. This package only prints their results.
"""

from trace_recorder.cli.entry import main

__all__ = ["main"]
