"""The Hierarchy: a tree of Trajectory, Step and Message, in the form of `trajectory_sdk`."""
