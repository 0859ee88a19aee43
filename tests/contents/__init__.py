"""Exports held against what was exchanged: a script of both sides, and what each format shows of it."""
