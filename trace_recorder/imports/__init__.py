"""Reads our own files, and those of other tools, as trajectories."""
