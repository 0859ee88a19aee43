"""Runs for tests to look at."""
