"""Readers, one file for each wire dialect: a provider's raw JSON → values.

The readers are pure functions of plain dicts. No reader imports an SDK.
"""
