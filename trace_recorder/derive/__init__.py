"""Deriving: all meaning, said once: a journal's records → a trajectory → the document, live and afterwards."""
