"""Runs that other tools wrote, read as runs of ours: one module or folder for each format.

`formats.py` recognises a file's format by the file's content. A format's module describes the run (`run.py`), and
`journal_writer.py` writes that description as the lines of a journal. The fold, which reads all journals, derives
everything else.
"""
