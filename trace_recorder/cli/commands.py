"""The application with all commands.

Exit codes: 0 is success. 1 is a failure, which one sentence on stderr or the findings describe. 2 is misuse. What a
command prints is made in modules of its own, such as `list_runs.py` for `list_command.py`.
"""

from __future__ import annotations

from trace_recorder.cli.app import COMMANDS, app_of

app = app_of(COMMANDS)
