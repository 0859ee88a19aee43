"""Storage: the journal, the other code that knows files, and masking.

Secrets are masked at the one place where records are written.
"""
