"""ATIF, the Agent Trajectory Interchange Format: a run as one document, or one document for each conversation."""
