"""Captures LLM calls inside the HTTP libraries: one module for each library, and `Exchange`, which they share.

This folder imports no SDK.
"""
