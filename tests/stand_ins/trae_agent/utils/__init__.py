"""Utilities of other modules."""
