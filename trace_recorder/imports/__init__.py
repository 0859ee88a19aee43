"""Reads our own files, and files of other tools, as trajectories."""
