"""Storage: the journal, everything else that knows of files, and masking.

Secrets are masked at the one place where records are written.
"""
