"""Readers: what others wrote to read the formats that views write, each in an environment of its own.

`write_runs.py DIRECTORY` records the runs, in our own environment; `check_<format>.py DIRECTORY` has the format's real
reader take what the view makes of them, in the reader's. Each check says in its head what it needs, prints one line for
each run that was refused and one for the whole, and exits with 1 where there was one.
"""
