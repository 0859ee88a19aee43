"""The readers that others wrote for the formats of our views, each a script for an environment of its own.

A script is given the files of `trace-recorder export`, prints one line a file, and exits with 1 where one is refused.
Its header names what it needs. They are no part of the test suite: they pin much, and some need Python 3.12.
"""
