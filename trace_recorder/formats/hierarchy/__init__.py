"""Hierarchical trajectories: a run as a tree of steps, as docs/views/documents.md describes it."""
