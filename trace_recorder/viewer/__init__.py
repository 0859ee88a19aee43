"""The viewer: runs as JSON answers (`docs/viewer-interface.md`), served on this machine or embedded in one file.

`interface.py` makes the answers of one run; `runs.py` lists a directory, and `open_runs.py` follows runs that grow;
`server.py` serves both, guarded by `security.py`; `one_file.py` writes the file, and `notebook.py` shows it in a cell.
The page itself is built from `viewer_page/`, and lies in `page/`.
"""
