"""Random schedules of agents' acts, and the comparison of each document with its journal."""
