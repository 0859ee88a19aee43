"""Imports: files → a trajectory, our own and those of other tools."""
