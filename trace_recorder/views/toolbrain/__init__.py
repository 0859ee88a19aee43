"""ToolBrain: a run as a list of turns, for reward functions and reinforcement learning."""
