"""Writes runs into one file for other people: see docs/after.md."""
