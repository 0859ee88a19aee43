"""The readers of other projects for our export formats. `nox -s readers` runs all of them.

`__main__.py` records runs of every shape, exports them, and creates an environment for each row of `environments.py`,
in sequence. In the environment a `check_*.py` passes the exports to the real reader. Refused exports are printed. A
table at the end has what all readers accepted, and which of them could not be installed. The checks are not part of the
test suite, because they pin many packages, and some need Python 3.12.
"""
