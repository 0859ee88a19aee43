"""ATIF: a document of the Agent Trajectory Interchange Format, of any version 1, read as a trajectory."""
