"""Invariant: a run as a list of messages; datasets as JSON lines, and sending them."""
