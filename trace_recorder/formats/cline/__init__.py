"""Cline: the tasks of its editors, which Roo writes too, and the sessions of its command line."""
