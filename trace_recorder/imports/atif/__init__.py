"""ATIF, the Agent Trajectory Interchange Format, any version 1: documents read as trajectories."""
