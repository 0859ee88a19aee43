"""Hierarchical trajectories: a run as a tree of steps, as docs/views/hierarchy.md describes it."""
