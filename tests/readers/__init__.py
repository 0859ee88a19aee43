"""The readers that others wrote for the formats of our views, each a script for an environment of its own.

A script is given files of `trace-recorder export`, or the directory into which `write_runs.py` recorded runs of every
shape; its header says which, and what it needs. It prints what was refused, and exits with 1 where something was. They
are no part of the test suite: they pin much, and some need Python 3.12.
"""
