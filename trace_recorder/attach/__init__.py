"""Attaching: what a user calls: the recorder, the current one, the whole process, other processes."""
