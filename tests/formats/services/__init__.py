"""Trace services: their own clients, against a local server."""
