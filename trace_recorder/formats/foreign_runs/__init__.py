"""What the readers of formats share.

`source.py` and `sqlite_file.py` read files within limits. A format's reader makes a `ForeignRun` (`run.py`), often with
an `AgentHistory` (`agent_history.py`). `journal_writer.py` writes that run as the lines of a journal. The fold, which
reads all journals, derives everything else.
"""
