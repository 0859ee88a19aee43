"""Replay and fork of other processes: programs that do not use this package."""
