"""Readers, one file for each wire dialect: a provider's raw JSON → values.

They are pure functions of plain dicts; no SDK is imported.
"""
