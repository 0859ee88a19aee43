"""Codex: `sessions.py` has its formats, `rollout.py` reads one file, `outputs.py` results of tools and counts."""
