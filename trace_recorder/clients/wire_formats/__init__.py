"""Converts messages in the shared form to requests: one file for each dialect, pure functions on dicts."""
