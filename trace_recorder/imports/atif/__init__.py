"""Reads documents of ATIF, the Agent Trajectory Interchange Format, version 1, as trajectories."""
