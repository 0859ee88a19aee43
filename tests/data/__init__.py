"""Runs for many tests."""
