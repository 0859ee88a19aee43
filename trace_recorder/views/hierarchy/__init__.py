"""The Hierarchy: Trajectory → Step → Message, as `trajectory_sdk` has it."""
