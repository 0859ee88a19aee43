"""Exports compared with the exchanged content: a script of both sides, and what each format shows of it."""
