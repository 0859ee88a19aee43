"""ATIF, the Agent Trajectory Interchange Format: one document a conversation."""
