"""The files of the library `verifiers`: traces of rollouts, read and written, and rows of before version 1."""
