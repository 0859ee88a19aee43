"""Attaching: what a user takes hold of: the recorder, the current one, the whole process, other processes."""
