"""Traces of Invariant: a list of messages, one for each message, tool call and result."""
