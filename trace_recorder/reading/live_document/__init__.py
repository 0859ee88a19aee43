"""Writes the whole document of a run from its journal, during the run and at its end."""
