"""The viewer: runs as JSON answers (`docs/viewer-interface.md`), served on this machine or embedded in one file.

`interface.py` makes the answers about one run, `runs.py` lists a directory, and `open_runs.py` follows runs that grow.
`server.py` serves the answers, and `security.py` guards the server. `one_file.py` writes the self-contained file and
shows it in a notebook. The page is built from `viewer_page/` into `page/`.
"""
