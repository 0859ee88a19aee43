"""The readers that others wrote for the formats of our views. `nox -s readers` has all of them read.

`__main__.py` records runs of every shape, exports them, and makes an environment for each row of `environments.py`,
one after another; there a `check_*.py` gives the exports to the real reader. What a reader refuses is printed; what all
of them took, and what could not be installed, is one table at the end. They are no part of the test suite: they pin
much, and some need Python 3.12.
"""
