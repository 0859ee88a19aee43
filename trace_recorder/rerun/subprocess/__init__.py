"""Replay and fork of programs that do not use this package, inside their processes."""
