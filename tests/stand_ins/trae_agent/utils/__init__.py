"""Shared by other modules."""
