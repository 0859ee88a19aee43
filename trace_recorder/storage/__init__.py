"""Storage: the journal, other files of runs, and the masking of secrets.

Secrets are masked at the one place where records are written.
"""
