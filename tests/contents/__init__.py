"""Exports compared with the exchanged content: a script of both sides, and the content of each format."""
