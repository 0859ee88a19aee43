"""Codex's sessions.

`sessions.py` has the formats, `rollout.py` reads one file, `outputs.py` reads results of tools and counts.
"""
