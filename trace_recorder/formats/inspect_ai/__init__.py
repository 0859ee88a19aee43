"""Inspect AI's logs of evaluations (`.eval` and JSON), read and written."""
