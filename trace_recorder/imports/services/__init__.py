"""Imports runs from a service.

The service's own client fetches the traces, which are read like the service's exports.
"""
