"""ToolBrain: a run as a list of turns, and reward functions, which take these turns or a trajectory."""
