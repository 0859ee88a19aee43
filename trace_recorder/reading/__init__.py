"""Makes trajectories from the records of journals, and documents from trajectories.

All meaning is derived in this room.
"""
