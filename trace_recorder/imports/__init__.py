"""Imports: files → a trajectory, ours and those that other tools wrote; `load` tells them apart."""
