"""Reads runs that other tools recorded. Each format has a module or a folder.

`formats.py` recognises a file's format by the file's content. A format's module describes the run (`run.py`), and
`journal_writer.py` writes that description as the lines of a journal. The fold, which reads all journals, derives
everything else.
"""
