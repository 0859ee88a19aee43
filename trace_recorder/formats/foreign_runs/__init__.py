"""What the readers of formats share.

`source.py` and `sqlite_file.py` read files within limits, and `signs.py` recognises them. A format's reader makes a
`ForeignRun` (`run.py`), most of them with a `SessionReader` (`session_reader.py`), which has the history of the run's
agent (`agent_history.py`). `journal_writer.py` writes that run as the lines of a journal. The fold, which reads all
journals, derives everything else.
"""
