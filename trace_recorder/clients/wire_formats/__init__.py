"""Converts the shared form of messages to each provider's request: a file for each dialect, pure functions on dicts."""
