"""Random schedules of agents' acts, and the judge that compares each document with its journal."""
